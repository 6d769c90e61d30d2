#!/usr/bin/env bash
# labels: once
# A node whose computing thread hangs, while its network thread sends heartbeats as ever: the master names it, whatever
# the strategy, and not one who waits for it. A master that hangs is waited for; one that was stopped as a whole for so
# long that the nodes gave it up blames nobody.
. "$(dirname "$0")/lib.sh"
write_models
sed -i 's/updates: 12/epochs: 1000000000, checkpoint_seconds: 0.02, shards: 4/' dropout.yaml
sed 's,^cluster:.*,cluster: {recover: false},' dropout.yaml >exchange.yaml
sed 's/, shards: 4//' dropout.yaml >flow.yaml
# file_of STRATEGY: the run file; only rings are planned, and not all have shards
file_of() { case $1 in ring-flow) echo flow.yaml ;; ring | hybrid*) echo dropout.yaml ;; *) echo exchange.yaml ;; esac; }
"$CC" -Wall -Wextra -Werror -o freeze "$tests/freeze.c" || fail "freeze.c does not compile"
timeout=2

# hang NAME NODE STRATEGY: a run on four nodes, of which one (0: the master) hangs once there is a checkpoint. The helper's
# id is $pid, the run's own $master, the thread's $thread.
hang() {
    local name=$1 node=$2 strategy=$3 all
    mkfifo "$name.orders"
    ./freeze "$name.orders" "$RINGTMP" train "$(file_of "$strategy")" --out "$name" --quiet --nodes 4 \
        --strategy "$strategy" --set cluster.timeout=$timeout >"$name.out" 2>"$name.err" &
    pid=$!
    children+=("$pid")
    until_true 60 has_checkpoint "$name" || { fail "$name: no checkpoint: $(cat "$name.err")"; return; }
    master=$(children_of "$pid")
    all=("${master// /}" $(children_of "${master// /}"))
    thread=${all[node]}
    echo "+$thread" >"$name.orders"
    cases+=("$name") processes+=("$pid") guilty+=("$node") since+=("$(date +%s)")
}

# Each hangs while the next is started: from then on a run needs no time of the processor.
cases=() processes=() guilty=() since=()
for node in 1 2 3; do
    hang ring-$node $node ring
    hang hybrid-$node $node hybrid,rings=2
done
hang flow 2 ring-flow
hang apart 2 hybrid,rings=2,exchange=ps-async
hang allreduce 2 allreduce-ring
hang sync 2 ps-sync
hang async 2 ps-async
for i in "${!cases[@]}"; do
    name=${cases[i]}
    ends "${processes[i]}" 1 30
    says "$name.err" "ringtmp: local ${guilty[i]} is lost: "
    says "$name.err" "made no progress for $timeout seconds"
    took=$(($(stat -c %Y "$name.err") - since[i]))
    [ "$took" -le $((timeout + 10)) ] || fail "$name: named after $took s"
done

# ---- the master hangs, for much longer than the timeout: nobody is lost, and the result is the same ----
masters=()
for strategy in ring allreduce-rd hybrid,rings=2; do
    name=master-$strategy
    hang "$name" 0 "$strategy"
    masters+=("$name $pid $thread $master")
done
sleep $((4 * timeout))
for line in "${masters[@]}"; do
    read -r name pid thread master <<<"$line"
    [ ! -s "$name.err" ] || fail "$name: $(cat "$name.err")"
    before=$(last_checkpoint "$name")
    echo "-$thread" >"$name.orders"
    goes_on() { [ "$(last_checkpoint "$name")" -gt "$before" ]; }
    until_true 20 goes_on || fail "$name: does not go on: $(cat "$name.err")"
    kill -INT "$master"
    ends "$pid" 1 20
    resumes "$name" $(($(last_checkpoint "$name") + 60)) --nodes 2 --strategy ring
done

# ---- the master is stopped as a whole, and given up: it blames nobody ----
stopped=()
for strategy in ring allreduce-ring ps-async hybrid,rings=2; do
    start_master "stopped-$strategy" "$(file_of "$strategy")" --out "stopped-$strategy" --quiet --strategy "$strategy" --nodes 4
    until_true 60 has_checkpoint "stopped-$strategy" || fail "$strategy: no checkpoint"
    kill -STOP "$pid"
    stopped+=("$strategy $pid")
done
sleep 8
for line in "${stopped[@]}"; do
    read -r strategy pid <<<"$line"
    kill -CONT "$pid"
    ends "$pid" 1 20
    says "stopped-$strategy.err" "ringtmp: this machine did not run for "
    ! grep -q "is lost" "stopped-$strategy.err" || fail "$strategy: somebody is blamed: $(cat "stopped-$strategy.err")"
    says "stopped-$strategy.err" "--out stopped-$strategy --resume"
done
finish
