#!/usr/bin/env bash
# Rings side by side that exchange by servers at every place, each ring at its own pace, by real processes over TCP. Where
# the strategy leaves no choice the parameters are those of one device or of the strategy's workers, to the bit; elsewhere
# no example is lost or counted twice. It ends, resumes and fails as rings that stay together do.
. "$(dirname "$0")/lib.sh"
write_models
started=$SECONDS

# ---- where there is no choice: the result of one device ----
# The last batch of an epoch has 7 examples, so some of the slices are empty. The validations are on the way.
eight='--set train.shards=8 --set data.hold_out=0.1 --set train.validate_updates=4'
rounds=exchange=ps-backup,backup=0
for model in mlp cnn dropout; do
    case $model in mlp) optimizer=adam ;; cnn) optimizer=momentum ;; *) optimizer=adagrad ;; esac
    settings="$eight --set train.optimizer=$optimizer"
    run 0 train $model.yaml --strategy sgd --quiet --out alone-$model $settings
    for shape in "2 2" "4 2" "6 2" "8 4"; do
        [ "$model $shape" != "cnn 8 4" ] || shape="4 4"
        spread result $model.yaml ${shape% *} hybrid,rings=${shape#* },$rounds $settings
        same "$model, ${shape#* } rings of $((${shape% *} / ${shape#* })) nodes" alone-$model result
        [ "$(field validation_loss result/summary.json)" = "$(field validation_loss alone-$model/summary.json)" ] ||
            fail "$model, ${shape#* } rings: another loss of the validation"
    done
done
adam="$eight --set train.optimizer=adam"
spread result mlp.yaml 4 hybrid,$rounds,wfbp=off $adam --set train.micro_batch=1
same "layers exchanged all at once" alone-mlp result
spread result mlp.yaml 4 hybrid,$rounds $adam --set data.send=true
same "examples that are sent" alone-mlp result
says result/journal.jsonl "data.send: examples and their targets are sent to the leaders of 1 other ring, about"
# Whose gradients come late makes no difference.
spread result mlp.yaml 4 hybrid,$rounds $adam --set 'cluster.slowdown=[1, 20, 1, 1]'
same "a slow node" alone-mlp result
# Numbers that come from a file.
run 0 train mlp.yaml --strategy sgd --quiet --out first $adam --set train.seed=7
run 0 train mlp.yaml --strategy sgd --quiet --out alone-init $adam --set model.init=first/model.safetensors
spread result mlp.yaml 4 hybrid,$rounds $adam --set model.init=first/model.safetensors
same "model.init" alone-init result
# A ring alone: for the whole of the one epoch.
warm='--set train.updates=0 --set train.epochs=1'
for optimizer in adagrad momentum; do
    rm -rf alone
    run 0 train dropout.yaml --strategy sgd --quiet --out alone $warm --set train.optimizer=$optimizer
    for shape in "4 2" "3 3"; do
        spread result dropout.yaml ${shape% *} hybrid,rings=${shape#* },exchange=downpour,warm_start=1 $warm \
            --set train.optimizer=$optimizer
        same "one ring warms up, ${shape#* } rings, $optimizer" alone result
    done
done
# An epoch that is cut short is that of as many workers.
sed '/^cluster:/d' mlp.yaml >workers.yaml
for workers in 2 4; do
    spread one workers.yaml $workers ps-cut --set train.shards=4
    for send in false true; do
        spread result mlp.yaml 4 hybrid,rings=$workers,exchange=ps-cut --set train.shards=4 --set data.send=$send
        same "ps-cut by $workers rings, data.send=$send" one result
    done
done
echo "one result after $((SECONDS - started)) s"

# ---- where there is: every example counts once ----
# learns MODEL NODES RINGS EXCHANGE WORD...: eight epochs; the summary is looked at
learns() {
    local model=$1 nodes=$2 rings=$3 strategy=$4
    shift 4
    spread result "$model.yaml" "$nodes" "hybrid,rings=$rings,exchange=$strategy" --set train.updates=0 --set train.epochs=8 \
        --set train.optimizer='{sgd: {lr: 0.02}}' "$@"
    python3 - result/summary.json "$strategy" "$rings" "$@" <<'END' || fail "$strategy, $rings rings of $((nodes / rings)): the summary"
import json, math, sys
summary, strategy, rings, sent = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3]), "data.send=true" in sys.argv
# Of the 5 batches of an epoch one has 16 examples instead of 20.
per_epoch, samples = (4, None) if "ps-cut" in strategy else (5, 8 * 96)
assert summary["updates"] == 8 * per_epoch, summary["updates"]
if "ps-cut" in strategy:
    assert 8 * (3 * 20 + 16) <= summary["samples"] <= 8 * 4 * 20, summary["samples"]
elif "ps-backup" in strategy:
    # A round goes on without the part of one ring; parts differ by one example.
    assert 0 < summary["samples"] <= samples * (rings - 1) / rings + 8 * 5, summary["samples"]
else:
    assert summary["samples"] == samples, summary["samples"]
assert math.isfinite(summary["train_loss"]), summary["train_loss"]
assert summary["version_spread_max"] == 0, summary["version_spread_max"]
gradients = sum(summary["staleness"])
if "downpour" in strategy:
    assert 0 < gradients < 8 * per_epoch, gradients
elif "ps-backup" in strategy:
    assert gradients == 8 * per_epoch * (rings - 1), gradients
else:
    assert gradients == 8 * per_epoch, gradients
bins = [age for age, count in enumerate(summary["staleness"]) if count]
assert summary["staleness_max"] >= bins[-1], (summary["staleness"], summary["staleness_max"])
if "ps-ssp" in strategy:
    assert summary["staleness_max"] <= (2 * 1 + 1) * (rings - 1), summary["staleness_max"]
nodes = summary["per_node"]
places = len(nodes) // rings
for i, node in enumerate(nodes):
    assert node["role"] == ("master" if i == 0 else "leader" if i % places == 0 else "worker"), (i, node["role"])
    states = sum(node["states"].values())
    assert abs(states - node["seconds"]) < 1e-6 + 1e-2 * states, (states, node["seconds"])
    # Gradients go to ring 0 and parameters come from it. Examples go the other way on the channel of gradients.
    out, back = ("sent", "received") if i >= places else ("received", "sent")
    assert node[out]["across"]["gradients"] > 0 and node[out]["across"]["parameters"] == 0, (i, node)
    assert node[back]["across"]["parameters"] > 0, (i, node)
    assert node[back]["across"]["gradients"] == 0 or i % places == 0 and sent, (i, node)
END
}
for strategy in ps-async ps-ssp,s=1 ps-vap ps-shard,base=async downpour,n_push=3,n_fetch=2 ps-cut,base=async ps-backup; do
    learns mlp 4 2 $strategy
    learns dropout 3 3 $strategy
done
learns mlp 6 3 ps-async --set data.send=true
learns cnn 4 2 ps-cut,base=async --set data.send=true
learns mlp 4 2 ps-ssp,s=1 --set data.send=true --set 'cluster.slowdown=[1, 1, 1, 10]'
write_model norm '[flatten, dense: 16, batchnorm, relu, dense: 12, batchnorm, relu, dense: 4]'
learns norm 4 2 ps-async
echo "all ways after $((SECONDS - started)) s"

# ---- resumed in another shape ----
under_way() { [ "$(wc -l <"$1")" -gt 5 ]; }
sed 's/updates: 12/epochs: 1000000000, optimizer: adam, shards: 4/' dropout.yaml >long.yaml
# interrupt DIRECTORY EXCHANGE: until it is under way, and then SIGINT; the update that it has reached is $reached
interrupt() {
    start_master run long.yaml --nodes 4 --strategy "hybrid,rings=2,exchange=$2" --out "$1" --set train.report_seconds=0
    local master=$pid
    until_true 60 under_way run.out || fail "$2 does not get under way: $(cat run.err)"
    kill -INT "$master"
    ends "$master" 1 60
    reached=$(last_checkpoint "$1")
    [ "${reached:-0}" -gt 0 ] || fail "$2: no checkpoint after SIGINT: $(cat run.err)"
}
interrupt broken ps-backup,backup=0
for shape in "4 4" "2 2"; do
    rm -rf resumed && cp -r broken resumed
    run 0 train long.yaml --out resumed --resume --quiet --set train.updates=$((reached + 20)) --nodes ${shape% *} \
        --strategy hybrid,rings=${shape#* },$rounds
    [ -d whole ] || run 0 train long.yaml --out whole --strategy sgd --quiet --set train.updates=$((reached + 20))
    same "resumed with ${shape#* } rings" whole resumed
done
# Rounds whose gradients may be dropped are no other strategy's updates; nor are those of different age.
refuses 2 "it was hybrid,exchange=ps-backup (synchronous) and is now ring (synchronous); only strategies that make the same" \
    train long.yaml --out broken --resume --quiet --nodes 2 --strategy ring
refuses 2 "it was hybrid,exchange=ps-backup (synchronous) and is now sgd; only strategies that make the same" \
    train long.yaml --out broken --resume --quiet --strategy sgd
interrupt broken-async ps-async
refuses 2 "it was hybrid,exchange=ps-async (asynchronous) and is now ring (synchronous); synchronous strategies may be" \
    train long.yaml --out broken-async --resume --quiet --nodes 2 --strategy ring
sed '/^cluster:/d' long.yaml >long-workers.yaml
goes_on() { # FILE WORD...: ten updates more
    run 0 train "$1" --out broken-async --resume --quiet --set train.updates=$((reached + 10)) "${@:2}"
    [ "$(field updates broken-async/summary.json)" = $((reached + 10)) ] || fail "$*: not resumed"
    reached=$((reached + 10))
}
goes_on long.yaml --nodes 3 --strategy hybrid,rings=3,exchange=ps-async
goes_on long-workers.yaml --nodes 2 --strategy ps-async
goes_on long.yaml --nodes 4 --strategy hybrid,exchange=ps-async
# There is nothing left to do: nobody waits for anything.
run 0 train long.yaml --out broken-async --resume --quiet --set train.updates=$reached --nodes 4 --strategy hybrid,exchange=ps-async
echo "resumed after $((SECONDS - started)) s"

# begin NAME EXCHANGE: two rings of two, of the master and three nodes; the id of the master's process is $master, theirs
# are in $node, their addresses in $at
begin() {
    local i words=()
    node=() at=()
    for i in 1 2 3; do
        start_node "n$i" --name "node-$i" --data .
        node+=("$pid") at+=("127.0.0.1:$port") words+=(--node "127.0.0.1:$port")
    done
    start_master run long.yaml --strategy "hybrid,rings=2,exchange=$2" --out "$1" --set train.report_seconds=0 --set cluster.wait_master=0 "${words[@]}"
    master=$pid
    until_true 60 under_way run.out || fail "$1: not under way: $(cat run.err)"
}

# lost PLACE WHY: the master has said so
lost() {
    says run.err "ringtmp: node-$1 (${at[$1 - 1]}) is lost: "
    says run.err "$2"
}

# serve PLACE...: those nodes are there for another master; then they are ended
serve() {
    local i survivors=()
    for i in "$@"; do survivors+=(--node "${at[i - 1]}"); done
    rm -rf next
    run 0 train mlp.yaml --quiet --out next --nodes $((4 - $#)) "${survivors[@]}" --strategy hybrid,$rounds \
        --set train.shards=2
    for i in "$@"; do destroy "${node[i - 1]}"; done
}
others_than() { for i in 1 2 3; do [ $i -eq "$1" ] || echo $i; done; }

# ---- somebody dies, stops to answer, or is told to end: in ring 0, the head of another ring, another node of it ----
ways=(none ps-async ps-backup ps-ssp)
for place in 1 2 3; do
    begin killed-$place ${ways[place]}
    destroy "${node[place - 1]}"
    ends "$master" 1 10
    lost $place ""
    serve $(others_than $place)
done
ways=(none downpour ps-ssp ps-async)
for place in 1 2 3; do
    begin silent-$place ${ways[place]}
    kill -STOP "${node[place - 1]}"
    ends "$master" 1 15
    lost $place "has been silent for 5 seconds"
    kill -CONT "${node[place - 1]}"
    until_true 10 holds "n$place.err" " ended" || fail "node $place, awake, does not end its run: $(cat n$place.err)"
    serve 1 2 3
done
ways=(none ps-backup ps-async downpour)
for place in 1 2 3; do
    begin ended-$place ${ways[place]}
    kill -TERM "${node[place - 1]}"
    ends "$master" 1 10
    lost $place "the node is stopped"
    ends "${node[place - 1]}" 0 10
    serve $(others_than $place)
done
# ---- the master dies: all end, and serve another ----
begin orphans ps-async
destroy "$master"
for i in 1 2 3; do
    until_true 10 holds "n$i.err" " ended" || fail "node $i does not end its run without a master: $(cat n$i.err)"
done
serve 1 2 3
echo "deaths after $((SECONDS - started)) s"

# ---- the plan, and what cannot be ----
run 0 plan mlp.yaml --nodes 6 --strategy hybrid,rings=2,exchange=ps-async
says out "2 rings of 3 nodes"
says out "ps-async"
refuses 2 "hybrid: k: with exchange=ps-shard every place of the rings has one server" \
    train mlp.yaml --nodes 4 --strategy hybrid,exchange=ps-shard,base=async,k=2 --out never
refuses 2 "train.clip_norm: not with exchange=ps-backup between rings" \
    train mlp.yaml --nodes 4 --strategy hybrid,$rounds --set train.clip_norm=1 --out never
refuses 2 "cluster.master_tail: not with exchange=ps-ssp between rings" \
    plan mlp.yaml --nodes 4 --strategy hybrid,exchange=ps-ssp --set cluster.master_tail=1
refuses 2 "a batch of 3 cannot be shared by 4 rings" \
    train mlp.yaml --nodes 4 --strategy hybrid,rings=4,exchange=ps-backup --set train.batch=3 --out never
# A ring that has batches of its own needs no part of one.
spread result mlp.yaml 4 hybrid,rings=4,exchange=ps-async --set train.batch=3
[ "$(field updates result/summary.json)" = 12 ] || fail "batches smaller than the number of rings: not 12 updates"
[ ! -e never ] || fail "a run that was refused has made its directory"

finish
