#!/usr/bin/env bash
# labels: once
# cluster.slowdown makes every strategy slower by the same factor, in all that a device does, and changes no result; training,
# validations and setting up are counted apart. Compared are the seconds that were accounted for, with wide margins and the least
# disturbed of up to four runs: how much CPU time the same work takes differs on a busy machine.
. "$(dirname "$0")/lib.sh"
write_pictures 600
write_model mlp '[flatten, dense: 64, relu, dense: 64, relu, dense: 48, relu, dense: 4]'
sed -i '/^cluster:/d' mlp.yaml
settings=(--set train.batch=60 --set train.updates=40 --set data.hold_out=0.2 --set train.validate_updates=8 --set train.checkpoint_seconds=0
    --set train.optimizer=adam --set cluster.keep_all=true --set train.shards=2)

cat >factors.py <<'P'
"""factors.py FACTOR TRIES: prints what is wrong with the accounts of the runs plain-1, slow-1, plain-2, ..."""
import json, sys
factor, tries = float(sys.argv[1]), range(1, int(sys.argv[2]) + 1)
plains, slows = ([json.load(open(f"{name}-{i}/summary.json")) for i in tries] for name in ("plain", "slow"))
plain, slow = plains[-1], slows[-1]
COMPUTE = ("forward", "backward", "weight")
def total(runs, *states):
    """What disturbs a run only ever adds to its time."""
    return min(sum(node["states"][state] for node in run["per_node"] for state in states) for run in runs)
def check(what, ratio):
    if not factor / 3 < ratio < factor * 3:
        print(f"{what} takes {ratio:.2f} times as long, not {factor:g} times")
for run in plain, slow:
    for node in run["per_node"]:
        states = sum(node["states"].values())
        if abs(states - node["seconds"]) > 1e-6 + 1e-3 * node["seconds"] or min(node["states"].values()) < 0:
            print(f"node {node['node']}: the states sum to {states} of {node['seconds']} s")
        if abs(node["validation_s"] - run["validation_seconds"]) > 0.01 + 0.1 * run["validation_seconds"]:
            print(f"node {node['node']}: {node['validation_s']} s of validations, in all {run['validation_seconds']}")
    if abs(run["samples_per_s"] * run["seconds"] / run["samples"] - 1) > 1e-6:
        print("samples_per_s is not by the seconds of training")
    parts = run["setup_seconds"] + run["seconds"] + run["validation_seconds"]
    if not 0 < parts <= run["wall_seconds"]:
        print(f"{parts} s of {run['wall_seconds']}")
check("computing", total(slows, *COMPUTE) / total(plains, *COMPUTE))
# It is so short that what disturbs it may take longer. Where servers do it, it shows as far as workers wait for it.
if plain["strategy"] != "ps-sync" and total(slows, "update") < factor / 3 * total(plains, "update"):
    print(f"the update takes {total(slows, 'update')} s, and {total(plains, 'update')} s of the device that is not emulated")
# Five validations of 120 examples each take at least the time of their forwards.
if slow["nodes"] == 1:
    share = max(run["validation_seconds"] for run in slows) / (total(slows, "forward") * 600 / slow["samples"])
    if share < 1 / 3:
        print(f"a validation takes {share:.2f} times as long as its forwards")
P

compare() { # NODES STRATEGY FACTOR [SLOWDOWN]
    local nodes=$1 strategy=$2 factor=$3 try
    for try in 1 2 3 4; do
        spread "plain-$try" mlp.yaml "$nodes" "$strategy" "${settings[@]}"
        spread "slow-$try" mlp.yaml "$nodes" "$strategy" "${settings[@]}" --set "cluster.slowdown=${4:-$factor}"
        same "$strategy on $nodes" "plain-$try" "slow-$try"
        python3 factors.py "$factor" $try >wrong || fail "$strategy: no summary"
        [ -s wrong ] || return
    done
    fail "$strategy on $nodes, slowdown ${4:-$factor}: $(cat wrong)"
}
compare 1 sgd 30
for strategy in ring ps-sync allreduce-rd; do
    compare 1 $strategy 30
    compare 2 $strategy 30
done
compare 3 ps-sync,dedicated=true 30
compare 4 hybrid,rings=2 30

# From an update on: the first ten go at full speed, and the thirty after them slowly, by every node or by one.
compare 1 sgd 30.25 '[{node: 0, from_update: 11, factor: 40}]'
for strategy in ring ps-sync; do
    spread slow mlp.yaml 2 $strategy "${settings[@]}" --set 'cluster.slowdown=[1, 1, {node: 1, from_update: 11, factor: 100}]'
    same "a node that gets slower, $strategy" plain-1 slow
    python3 - >wrong <<'P'
import json
master, worker = ([node["states"][s] for s in ("forward", "backward", "weight")]
                  for node in json.load(open("slow/summary.json"))["per_node"])
if sum(worker) < 5 * sum(master):
    print(f"it computes for {worker} s, the master for {master}")
P
    [ ! -s wrong ] || fail "a node that gets slower, $strategy: $(cat wrong)"
done

# ---- a slower network ----
# The bytes that a device received, by the rate, are the least time they can have taken; the plan measures that rate.
for strategy in ring ps-sync allreduce-rd; do
    spread plain mlp.yaml 2 $strategy "${settings[@]}"
    spread slow mlp.yaml 2 $strategy "${settings[@]}" --set cluster.bandwidth=40M --set cluster.latency=[1ms,2ms]
    same "$strategy over a slower network" plain slow
    python3 - >wrong <<'P'
import json
run = json.load(open("slow/summary.json"))
kinds = {"gradients", "activations", "parameters"}
for node in run["per_node"]:
    data = sum(count for link in node["received"].values() for kind, count in link.items() if kind in kinds)
    if run["wall_seconds"] < 0.9 * data / 5e6:
        print(f"node {node['node']}: {data} bytes in {run['wall_seconds']} s")
if run["seconds"] < 40 * 3e-3:
    print(f"40 updates in {run['seconds']} s, each of them with two messages of 1 and 2 ms")
P
    [ ! -s wrong ] || fail "$strategy over a slower network: $(cat wrong)"
done

# It is checked on one device as on several.
run 2 train mlp.yaml --strategy sgd --quiet --out bad --set 'cluster.slowdown=[1, 2]'
says err "cluster.slowdown is a factor, or a list of 1 factor, for the one process"
run 2 train mlp.yaml --nodes 2 --quiet --out bad --set 'cluster.slowdown=[{node: 2, from_update: 1, factor: 4}]'
says err "there is no local process 2: they are 0 to 1"
run 2 train mlp.yaml --nodes 2 --quiet --out bad --set cluster.bandwidth=fast
says err "cluster.bandwidth must be bits per second, from 10K to 1T, as 100M; or 0, which is no limit; not 'fast'"
run 2 train mlp.yaml --strategy sgd --quiet --out bad --set cluster.latency=[1ms,1ms]
says err "cluster.latency is one value, or a list of 1, one for each local process"
run 2 train mlp.yaml --nodes 2 --quiet --out bad --set cluster.latency=1h
says err "cluster.latency must be a time of at most 250ms, as 1ms or 200us; not '1h'"
finish
