#!/usr/bin/env bash
# What goes wrong in a cluster is said in a sentence that names the node and the reason, within a bounded time, with exit
# status 1; the last checkpoint is good; and the nodes go on serving others.
. "$(dirname "$0")/lib.sh"
write_models
sed -i 's/updates: 12/epochs: 1000000000, checkpoint_seconds: 0.02/' dropout.yaml
has_checkpoint() { grep -q '"event": "checkpoint"' "$1/journal.jsonl" 2>/dev/null; }
last_checkpoint() { sed -n 's/.*"event": "checkpoint".*"update": \([0-9]*\).*/\1/p' "$1/journal.jsonl" | tail -1; }

# nodes NAME...: starts them: ids in $node, addresses in $at, the options for a master in $ring
nodes() {
    node=() at=() ring=()
    for name in "$@"; do
        start_node "$name" --name "node-$name"
        node+=("$pid") at+=("127.0.0.1:$port") ring+=(--node "127.0.0.1:$port")
    done
}

# begin DIRECTORY WORD...: a run in the background that has left a checkpoint; its id is $master
begin() {
    local directory=$1
    shift
    start_master run dropout.yaml --out "$directory" --quiet "$@"
    master=$pid
    until_true 60 has_checkpoint "$directory" || fail "$directory: no checkpoint: $(cat run.err)"
}

# resumes DIRECTORY: with the command that was printed, on other nodes, to the parameters of one device
resumes() {
    local updates=$((2 * $(last_checkpoint "$1") + 200))
    run 0 train dropout.yaml --out "$1" --resume --quiet --nodes 2 --set train.updates="$updates"
    rm -rf whole
    run 0 train dropout.yaml --out whole --strategy sgd --quiet --set train.updates="$updates"
    same "$1" whole "$1"
}

# lost WHO WHY DIRECTORY: the master says so, and how to go on
lost() {
    says run.err "ringtmp: $1 is lost: "
    says run.err "$2"
    says run.err "the last checkpoint is in $3/checkpoint"
    tail -1 run.err | grep -q -- "--out $3 --resume" || fail "$3: how to go on: $(tail -1 run.err)"
    ! grep -q "learning rate" run.err || fail "$3: the learning rate is blamed: $(cat run.err)"
}

# ---- a node dies: at the beginning, in the middle and at the end of the ring ----
for place in 0 1 2; do
    nodes a b c
    begin killed-$place "${ring[@]}"
    destroy "${node[place]}"
    ends "$master" 1 10
    lost "${at[place]}" "node $((place + 1))" killed-$place
    resumes killed-$place
    # the others are told, and are there for the next
    survivors=()
    for i in 0 1 2; do [ $i -eq $place ] || survivors+=(--node "${at[i]}"); done
    run 0 train mlp.yaml --quiet --out next-$place "${survivors[@]}" --nodes 2
    [ "$(field nodes next-$place/summary.json)" = 4 ] || fail "the run after the death of node $place is not on 4 nodes"
    for i in 0 1 2; do [ $i -eq $place ] || destroy "${node[i]}"; done
done

# ---- a node is told to end, in good order: for the others it is lost ----
nodes a b
begin ended "${ring[@]}"
kill -TERM "${node[0]}"
ends "$master" 1 10
lost "${at[0]}" "node 1 (node-a): the node is stopped" ended
ends "${node[0]}" 0 10
destroy "${node[1]}"

# ---- a local one dies ----
begin local --nodes 3
locals=($(children_of "$master"))
[ ${#locals[@]} -eq 2 ] || fail "the master has started '${locals[*]}', not two nodes"
children+=("${locals[@]}")
kill -KILL "${locals[1]}"
ends "$master" 1 10
lost "local 2" "node 2" local
until_true 10 not_alive "${locals[0]}" || fail "the other local node is still there"
resumes local

# ---- a node stops to answer: nothing is heard of it, and it goes on serving when it wakes ----
nodes a b c
begin silent "${ring[@]}"
kill -STOP "${node[1]}"
ends "$master" 1 15
lost "${at[1]}" "nothing was heard of it for 5 seconds" silent
kill -CONT "${node[1]}"
until_true 10 holds b.err " ended" || fail "the node that woke up does not end its run: $(cat b.err)"
run 0 train mlp.yaml --quiet --out awake "${ring[@]}"
[ "$(field nodes awake/summary.json)" = 4 ] || fail "the node that woke up does not serve"

# ---- a node answers but gets nothing done ----
start_node slow --name node-slow --slowdown 1000000
sed 's/checkpoint_seconds: 0.02/updates: 3/' dropout.yaml >slow.yaml
start_master run slow.yaml --out slow --quiet --node "127.0.0.1:$port" --set cluster.patience=1
ends "$pid" 1 20
says run.err "127.0.0.1:$port"
says run.err "nothing came from it for 1 seconds"

# ---- two masters for one node: the second is told with whom it is busy, the first goes on ----
begin first --node "${at[0]}"
refuses 1 "node-a is busy with a run of 127.0.0.1:" train mlp.yaml --quiet --out second --node "${at[0]}"
says err "${at[0]}"
[ ! -e second/summary.json ] || fail "the second master has a result"
kill -INT "$master"
ends "$master" 1 20
resumes first

# ---- who is not there ----
destroy "${node[2]}"
refuses 1 "nothing listens at ${at[2]}" train mlp.yaml --quiet --out nobody --node "${at[2]}" --set cluster.patience=2
refuses 1 "nohost.invalid" train mlp.yaml --quiet --out nobody --node nohost.invalid:7117
refuses 2 "${at[0]}" train mlp.yaml --quiet --out twice --node "${at[0]}" --node "${at[0]}"
says err "named twice"

# ---- keys ----
run 0 keygen one.key
run 0 keygen other.key
start_node guarded --key one.key
refuses 1 "cluster keys differ" train mlp.yaml --quiet --out keys --node "127.0.0.1:$port" --key other.key
refuses 1 "127.0.0.1:$port" train mlp.yaml --quiet --out keys --node "127.0.0.1:$port"
run 0 train mlp.yaml --quiet --out keys --node "127.0.0.1:$port" --key one.key
run 0 train mlp.yaml --quiet --out plain --strategy sgd
same "with a key" plain keys
refuses 1 "${at[0]}" train mlp.yaml --quiet --out keys2 --node "${at[0]}" --key one.key

# ---- what cannot be planned ----
start_node small --memory 1M
refuses 2 "the 1.0 MiB offered" train mlp.yaml --quiet --out small --node "127.0.0.1:$port"
refuses 2 "13 nodes are more than this model has parts for: it has 12 layers" train mlp.yaml --quiet --out many --nodes 13
finish
