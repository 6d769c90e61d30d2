#!/usr/bin/env bash
# What goes wrong in a cluster is said in a sentence that names the node and the reason, within a bounded time, with exit
# status 1; the last checkpoint is good; and the nodes go on serving others.
. "$(dirname "$0")/lib.sh"
write_models
sed -i 's/updates: 12/epochs: 1000000000, checkpoint_seconds: 0.02/' dropout.yaml

# ---- a node dies: at the beginning, in the middle and at the end of the ring ----
for place in 0 1 2; do
    nodes a b c
    begin killed-$place "${others[@]}"
    destroy "${node[place]}"
    ends "$master" 1 10
    lost "${at[place]}" "is lost: " killed-$place
    resumes killed-$place $((2 * $(last_checkpoint killed-$place) + 200)) --nodes 2
    # the others are told, and are there for the next
    survivors=()
    for i in 0 1 2; do [ $i -eq $place ] || survivors+=(--node "${at[i]}"); done
    run 0 train mlp.yaml --quiet --out next-$place "${survivors[@]}" --nodes 2
    [ "$(field nodes next-$place/summary.json)" = 4 ] || fail "the run after the death of node $place is not on 4 nodes"
    for i in 0 1 2; do [ $i -eq $place ] || destroy "${node[i]}"; done
done

# ---- the command that is offered goes on without whoever was lost, also where the run file names the nodes ----
goes_on() { # DIRECTORY TEXT: the last line of run.err, which holds the text, leads to the parameters of one device
    local updates=$((2 * $(last_checkpoint "$1") + 200)) line
    line=$(tail -1 run.err)
    case $line in *"$2"*) ;; *) fail "$1: how to go on: $line" ;; esac
    eval "$line --set train.updates=$updates" >out 2>err || fail "$1: '$line' fails: $(cat err)"
    rm -rf whole
    run 0 train dropout.yaml --out whole --strategy sgd --quiet --set train.updates=$updates
    same "$line" whole "$1"
}
nodes a b
begin offered "${others[@]}"
destroy "${node[0]}"
ends "$master" 1 10
lost "${at[0]}" "" offered
goes_on offered "train dropout.yaml --quiet --node ${at[1]} --out offered --resume"
destroy "${node[1]}"
nodes a b
sed "s/^cluster: {/&nodes: 2, node: ['${at[0]}', '${at[1]}'], /" dropout.yaml >named.yaml
start_master run named.yaml --out named --quiet
until_true 60 has_checkpoint named || fail "named: no checkpoint: $(cat run.err)"
destroy "${node[1]}"
ends "$pid" 1 10
lost "${at[1]}" "" named
goes_on named "train named.yaml --quiet --node ${at[0]} --nodes 2 --out named --resume"
rm -rf alone
start_master run named.yaml --out alone --quiet --set "cluster.node=['${at[0]}']"
until_true 60 has_checkpoint alone || fail "alone: no checkpoint: $(cat run.err)"
destroy "${node[0]}"
ends "$pid" 1 10
lost "${at[0]}" "" alone
goes_on alone "--set 'cluster.node=[]' --nodes 1 --out alone --resume"

# ---- a node is told to end, in good order: for the others it is lost ----
nodes a b
begin ended "${others[@]}"
kill -TERM "${node[0]}"
ends "$master" 1 10
lost "${at[0]}" "is lost: the node is stopped" ended
ends "${node[0]}" 0 10
destroy "${node[1]}"

# ---- a local one dies ----
begin local --nodes 3
locals=($(children_of "$master"))
[ ${#locals[@]} -eq 2 ] || fail "the master has started '${locals[*]}', not two nodes"
children+=("${locals[@]}")
kill -KILL "${locals[1]}"
ends "$master" 1 10
lost "local 2" "; it was ended by signal 9 (Killed)" local
until_true 10 not_alive "${locals[0]}" || fail "the other local node is still there"
resumes local $((2 * $(last_checkpoint local) + 200)) --nodes 2

# ---- a node stops to answer: nothing is heard of it, and it goes on serving when it wakes ----
nodes a b c
begin silent "${others[@]}"
kill -STOP "${node[1]}"
ends "$master" 1 15
lost "${at[1]}" "has been silent for 5 seconds" silent
kill -CONT "${node[1]}"
until_true 10 holds b.err " ended" || fail "the node that woke up does not end its run: $(cat b.err)"
run 0 train mlp.yaml --quiet --out awake "${others[@]}"
[ "$(field nodes awake/summary.json)" = 4 ] || fail "the node that woke up does not serve"

# ---- a node runs but gets nothing done ----
start_node slow --name node-slow --slowdown 1000000
sed 's/checkpoint_seconds: 0.02/updates: 3/' dropout.yaml >slow.yaml
start_master run slow.yaml --out slow --quiet --node "127.0.0.1:$port" --set cluster.timeout=1
ends "$pid" 1 30
says run.err "127.0.0.1:$port"
says run.err "runs, but has delivered nothing for"
# The master may take as long as it likes: its node waits.
start_node quick --name node-quick
run 0 train slow.yaml --out slow-master --quiet --node "127.0.0.1:$port" --set cluster.timeout=0.1 \
    --set cluster.slowdown=[1000]

# ---- two masters for one node: the second is told with whom it is busy, the first goes on ----
begin first --node "${at[0]}"
refuses 1 "node-a is busy with a run of 127.0.0.1:" train mlp.yaml --quiet --out second --node "${at[0]}"
says err "${at[0]}"
[ ! -e second/summary.json ] || fail "the second master has a result"
kill -INT "$master"
ends "$master" 1 20
resumes first $((2 * $(last_checkpoint first) + 200)) --nodes 2

# ---- who is not there ----
destroy "${node[2]}"
refuses 1 "${at[2]}: connection refused: nothing is listening there" train mlp.yaml --quiet --out nobody --node "${at[2]}" --set cluster.timeout=2
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
