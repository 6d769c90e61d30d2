#!/usr/bin/env bash
# Every strategy of exchange, by real processes over TCP. The synchronous ones have nearly the parameters of the single device,
# and the same ones in every run; alone every one is the single device; the asynchronous ones learn.
. "$(dirname "$0")/lib.sh"
write_models
sed -i '/^cluster:/d' ./*.yaml # what rings need
started=$SECONDS

# ---- near, and the same in every run ----
run 0 train mlp.yaml --strategy sgd --quiet --out near --set train.updates=10
for strategy in allreduce-ring allreduce-tree allreduce-rd allreduce-hd ps-sync ps-tree ps-scatter ps-hier ps-peer ps-shard,k=2; do
    spread one mlp.yaml 3 $strategy --set train.updates=10
    spread two mlp.yaml 3 $strategy,wfbp=off --set train.updates=10
    same "$strategy, twice" one two
    python3 "$tests/compare.py" near/model.safetensors one/model.safetensors 1e-5 2>why || fail "$strategy: $(cat why)"
done
spread result mlp.yaml 3 allreduce-auto --set train.updates=10
python3 "$tests/compare.py" near/model.safetensors result/model.safetensors 1e-5 2>why || fail "auto: $(cat why)"
# What links are measured with is no part of what the exchange sends.
spread one mlp.yaml 3 allreduce-rd --set train.updates=10
auto=$(field bytes_sent result/summary.json) most=$(field bytes_sent one/summary.json)
[ "$auto" -lt $((most + most / 10)) ] || fail "allreduce-auto sends $auto bytes, allreduce-rd $most"
spread result mlp.yaml 3 ps-sync,reduce=sum --set train.updates=10
! python3 "$tests/compare.py" near/model.safetensors result/model.safetensors 1e-5 2>why || fail "reduce=sum changes nothing"

# The sum of n workers' means at an n-th of the rate is their mean, to the bit where n is a power of two.
for strategy in ps-sync allreduce-hd ps-peer; do
    spread one mlp.yaml 4 $strategy --set train.updates=10 --set train.optimizer.sgd.lr=0.0625
    spread two mlp.yaml 4 $strategy,reduce=sum --set train.updates=10 --set train.optimizer.sgd.lr=0.015625
    same "$strategy, sums" one two
done
# One group of all, and epochs that are not cut, are ps-sync.
spread one mlp.yaml 4 ps-sync --set train.updates=10
for strategy in ps-hier,group=4 ps-cut,cut=1 ps-backup,backup=0; do
    spread two mlp.yaml 4 $strategy --set train.updates=10
    same "$strategy" one two
done

# So is one group of all at its own pace, to which nothing is ever stale, where it shares the batch as train.shards does.
run 0 train mlp.yaml --strategy sgd --quiet --out shards --set train.updates=10 --set train.shards=4
for strategy in base=async base=async,wfbp=off base=ssp,s=0,step=clock; do
    spread two mlp.yaml 4 ps-hier,group=4,$strategy --set train.updates=10 --set train.shards=4
    same "ps-hier,group=4,$strategy" shards two
done

# ---- batch normalisation: every worker measures its own rows; the statistics of the master's are kept ----
write_model norm '[flatten, dense: 16, batchnorm, relu, dense: 4]'
sed -i '/^cluster:/d' norm.yaml
spread one norm.yaml 2 allreduce-rd
spread two norm.yaml 2 ps-sync,wfbp=off
cmp -s one/model.safetensors two/model.safetensors || fail "batchnorm: the model files differ"
refuses 2 "batchnorm" train norm.yaml --nodes 3 --strategy ps-sync,dedicated=true --quiet --out refused

# ---- alone, every strategy is one device ----
for strategy in allreduce-auto ps-async ps-ssp ps-vap ps-backup,backup=0 downpour,warm_start=0 ps-peer ps-hier,base=async; do
    spread result mlp.yaml 1 $strategy --set train.optimizer=sgd --set train.updates=10
    same "$strategy alone" near result
done

# ---- asynchronous ones learn, and say how old gradients were ----
write_model plain '[flatten, dense: 16, relu, dense: 4]'
sed -i '/^cluster:/d' plain.yaml
for strategy in ps-async ps-async,dedicated=true ps-ssp,s=1 ps-vap ps-backup downpour,n_push=2,n_fetch=2 ps-cut,base=async ps-shard,k=2,base=async \
    ps-hier,group=2,base=async ps-hier,group=2,base=ssp,s=1 ps-hier,group=1,base=async,dedicated=true; do
    spread result plain.yaml 3 $strategy --set train.updates=0 --set train.epochs=20 --set train.optimizer.sgd.lr=0.1
    python3 - result/summary.json "$strategy" <<'END' || fail "$strategy: what the summary says"
import json, sys
summary, strategy = json.load(open(sys.argv[1])), sys.argv[2]
# One that knows nothing has a loss of 1.39. A worker of downpour that gets little time pushes what it collected on
# parameters of long ago: most runs end below 0.1, and on a busy machine one in some hundred near 0.6.
assert summary["train_loss"] < (1 if "downpour" in strategy else 0.3), "the loss is %g" % summary["train_loss"]
servers = 2 if "k=2" in strategy else 1
assert sum(summary["staleness"]) > 0
# One server has one version.
assert summary["version_spread_max"] == 0 or servers > 1, summary["version_spread_max"]
epochs = 20 * (4 if "ps-cut" in strategy else 5)
assert summary["updates"] == epochs, summary["updates"]
# Every gradient that came to something is one of the histogram, at each server; what was dropped is not counted.
if strategy in ("ps-async", "ps-ssp,s=1") or "ps-shard" in strategy or "ps-cut" in strategy or "ps-hier" in strategy:
    assert sum(summary["staleness"]) == servers * epochs, (summary["staleness"], epochs)
if "ps-cut" in strategy:
    assert 20 * (4 * 16) <= summary["samples"] <= 20 * (4 * 20), summary["samples"]
if "s=1" in strategy: # two groups, or three workers
    assert summary["staleness_max"] <= 3 * (1 if "ps-hier" in strategy else 2), summary["staleness_max"]
if strategy == "ps-async" or "ps-hier" in strategy:
    assert summary["samples"] == 20 * 96, summary["samples"]
roles = [node["role"] for node in summary["per_node"]]
assert roles[0] == "master" and "worker" in roles[1], roles
for node in summary["per_node"]:
    states = sum(node["states"].values())
    assert abs(states - node["seconds"]) < 1e-6 + 1e-2 * states
# A server works; the time in which a worker beside it waits for that is its reduce.
states = summary["per_node"][0]["states"]
assert states["update" if "dedicated" in strategy else "reduce"] > 0, states
assert all(node["bytes_sent"] > 0 and node["bytes_received"] > 0 for node in summary["per_node"])
END
done

# Groups of which the last has fewer members, with and without a worker beside the server, and examples that are sent.
for strategy in ps-hier,group=2,base=async ps-hier,group=3,base=ssp,dedicated=true; do
    spread result plain.yaml 5 $strategy --set train.updates=0 --set train.epochs=20 --set train.optimizer.sgd.lr=0.1 --set data.send=true
    [ "$(field samples result/summary.json)" = 1920 ] || fail "$strategy: $(field samples result/summary.json) samples"
    awk -v loss="$(field train_loss result/summary.json)" 'BEGIN { exit !(loss < 0.3) }' || fail "$strategy: does not learn"
done

# ---- a node that does many batches while the master does one: none is lost ----
spread result plain.yaml 2 ps-async --set train.updates=100 --set train.epochs=1000 --set train.validate_epochs=0 \
    --set 'cluster.slowdown=[400, 1]'
[ "$(field updates result/summary.json)" = 100 ] || fail "a slow master: $(field updates result/summary.json) updates"
spread result plain.yaml 4 ps-hier,group=2,base=async --set train.updates=100 --set train.epochs=1000 --set train.validate_epochs=0 \
    --set 'cluster.slowdown=[400, 1, 1, 1]'
[ "$(field updates result/summary.json)" = 100 ] || fail "a slow group: $(field updates result/summary.json) updates"
# Nor is a master given up by the members of its group, whose gradients it has no room for until it has its own.
write_model wide '[flatten, dense: 1024, relu, dense: 1024, relu, dense: 4]'
sed -i '/^cluster:/d' wide.yaml
spread result wide.yaml 2 ps-hier,group=2,base=async --set train.updates=6 --set cluster.timeout=0.3 --set 'cluster.slowdown=[100, 1]'
[ "$(field updates result/summary.json)" = 6 ] || fail "a slow proxy: $(field updates result/summary.json) updates"

# ---- a last batch of fewer rows than workers: a round of those who have none is no update, and no end ----
write_pictures 97
for strategy in ps-backup ps-backup,quorum=0.25; do
    spread result plain.yaml 4 $strategy --set train.batch=24 --set train.updates=0 --set train.epochs=12
    [ "$(field updates result/summary.json)" = 60 ] || fail "$strategy: $(field updates result/summary.json) updates of 60"
done

# ---- the table at the end and the last lines about nodes are of the whole run, the master's too ----
for strategy in ps-sync ps-async allreduce-ring; do
    run 0 train mlp.yaml --nodes 3 --strategy $strategy --out table-$strategy --set train.updates=300
    python3 - out table-$strategy <<'END' || fail "$strategy: the figures of the nodes at the end"
import json, sys
lines, directory = open(sys.argv[1]).read().splitlines(), sys.argv[2]
head = max(i for i, line in enumerate(lines) if line.split()[:2] == ["node", "layers"])
summary = json.load(open(directory + "/summary.json"))
events = [json.loads(line) for line in open(directory + "/journal.jsonl")]
last = [event for event in events if event["event"] == "node"][-3:]
for i, node in enumerate(summary["per_node"]):
    # ... samples/s, idle %, planned, MB/s, MB used, planned
    rate, idle, rates = lines[head + 1 + i].split()[-6], float(lines[head + 1 + i].split()[-5]), last[i]
    if rate == "0" or abs(idle - 100 * node["idle_fraction"]) > 0.06:
        sys.exit(f"{lines[head + 1 + i]}: idle for {node['idle_fraction']}")
    if rates["node"] != i or not rates["samples_per_s"] or abs(rates["idle_fraction"] - node["idle_fraction"]) > 1e-6:
        sys.exit(f"{rates}: idle for {node['idle_fraction']}")
END
done

echo "all after $((SECONDS - started)) s"

finish
