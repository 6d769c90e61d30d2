#!/usr/bin/env bash
# While a device is lost and comes back, strangers bother every node: garbage, halves of messages, crowds, slow senders, all that a node
# was sent in an earlier view; and with a key, masters and nodes of another cluster. The result is that of an undisturbed run.
# labels: once
recover=true
. "$(dirname "$0")/lib.sh"
write_models
sed -i "s/updates: 12/updates: 3000, shards: 4, epochs: 1000000000, checkpoint_seconds: 0.1/; s/, plan: even//" dropout.yaml
run 0 train dropout.yaml --out whole --strategy sgd --quiet

# well DIRECTORY NODES: the run on $master ended well, on so many nodes, with the parameters of one device
well() {
    ends "$master" 0 90
    [ "$(field nodes "$1/summary.json")" = "$2" ] || fail "$1: on $(field nodes "$1/summary.json") nodes, not $2: $(cat run.err)"
    [ "$(field recoveries "$1/summary.json")" -ge 1 ] || fail "$1: no recovery: $(cat run.err)"
    same "$1" whole "$1"
}

# ---- in clear: what node b is sent is kept, and sent to all nodes while the next views are formed ----
for strategy in ring allreduce-rd; do
    nodes a b c
    mkdir kept-$strategy
    : >meddle.out
    "$tests/meddle.py" "${at[1]}" from 0 1 body kept-$strategy >meddle.out 2>meddle.err &
    children+=("$!")
    wait_for meddle.out "listening at 127.0.0.1:" || exit 1
    others[3]=$(sed -n 's/^listening at //p' meddle.out)
    begin $strategy "${others[@]}" --strategy $strategy
    "$tests/hostile.py" kept-$strategy "${at[@]}" >hostile.out 2>hostile.err &
    hostile=$!
    children+=("$hostile")
    until_true 20 holds hostile.out again || fail "nobody bothers: $(cat hostile.err)"
    destroy "${node[2]}"
    well $strategy 3
    destroy "$hostile" "${node[@]:0:2}"
done

# ---- with a key: a node of another cluster at the address of the one that is lost, and masters of it at the others ----
run 0 keygen ours.key
run 0 keygen other.key
node=() at=() others=()
for name in a b c; do
    start_node $name --key ours.key
    node+=("$pid") at+=("127.0.0.1:$port") others+=(--node "127.0.0.1:$port")
done
begin keyed "${others[@]}" --key ours.key --set train.updates=10000
rm -rf whole
run 0 train dropout.yaml --out whole --strategy sgd --quiet --set train.updates=10000
destroy "${node[2]}"
start_node other --key other.key --listen "${at[2]}"
for i in 1 2 3; do run 1 train dropout.yaml --out never --quiet --key other.key "${others[@]:0:4}"; done
[ ! -e keyed/summary.json ] || fail "the run was over before anybody called"
well keyed 3
finish
