#!/usr/bin/env bash
# Rings side by side, by real processes over TCP: with train.shards the parameters are those of one device, to the bit,
# for any number of rings that divides the shards, wherever the rings are cut; also after a run was broken off and
# resumed in another shape. What goes wrong in any ring is said by the master, and names the node.
. "$(dirname "$0")/lib.sh"
write_models
started=$SECONDS

# rings NAME RUN NODES STRATEGY WORD...: the result goes to NAME
rings() {
    local name=$1 file=$2 nodes=$3 strategy=$4
    shift 4
    rm -rf "$name"
    run 0 train "$file" --nodes "$nodes" --strategy "$strategy" --quiet --out "$name" "$@"
    [ "$(field nodes "$name/summary.json")" = "$nodes" ] || fail "$name: not on $nodes nodes"
}

# ---- one result ----
# Batches of 20 over 87 examples: the last of an epoch has 7, so some slices are empty.
eight='--set train.shards=8 --set data.hold_out=0.1 --set train.validate_updates=4'
for model in mlp cnn dropout; do
    case $model in mlp) optimizer=adam ;; cnn) optimizer=momentum ;; *) optimizer=adagrad ;; esac
    settings="$eight --set train.optimizer=$optimizer"
    run 0 train $model.yaml --strategy sgd --quiet --out alone-$model $settings
    for shape in "2 2" "4 2" "8 4"; do
        rings result $model.yaml ${shape% *} hybrid,rings=${shape#* } $settings
        same "$model, ${shape#* } rings of ${shape% *} nodes" alone-$model result
    done
done
adam="$eight --set train.optimizer=adam"
for way in allreduce-hd ps-sync ps-tree; do
    rings result mlp.yaml 8 hybrid,rings=4,exchange=$way $adam
    same "$way between rings" alone-mlp result
done
rings result mlp.yaml 6 hybrid,rings=2 $adam --set train.micro_batch=1 --set cluster.master_tail=2
same "micro-batches of one, and a tail" alone-mlp result
rings result mlp.yaml 3 hybrid,rings=1 $adam
same "one ring" alone-mlp result
run 0 train mlp.yaml --strategy sgd --quiet --out alone-clip $eight --set train.clip_norm=0.3
rings result mlp.yaml 4 hybrid,rings=2 $eight --set train.clip_norm=0.3
same "clipping" alone-clip result
rings result mlp.yaml 6 hybrid,rings=2 $eight --set train.clip_norm=0.3 --set cluster.master_tail=1
same "clipping with a tail" alone-clip result
# Every node has a row, with the examples of its ring.
[ "$(grep -c '"role"' result/summary.json)" -eq 6 ] || fail "the summary has not 6 nodes"
grep -q '"role": "head"' result/summary.json || fail "no head in the summary"

# ---- another order of additions ----
# The same again and again. Some ways give a part of a node's gradient to each ring: with those it counts where the
# rings are cut, which the plan decides, so there is one node in each here.
for way in allreduce-rd ps-hier; do
    rings result mlp.yaml 6 hybrid,rings=3,exchange=$way --set train.optimizer=adam
    rings again mlp.yaml 3 hybrid,rings=3,exchange=$way --set train.optimizer=adam --set train.micro_batch=2
    same "three rings by $way, twice" result again
done
for way in allreduce-ring ps-peer ps-scatter; do
    rings result mlp.yaml 3 hybrid,rings=3,exchange=$way --set train.optimizer=adam
    rings again mlp.yaml 3 hybrid,rings=3,exchange=$way --set train.optimizer=adam --set train.micro_batch=2
    same "three rings by $way, twice" result again
    rings result mlp.yaml 6 hybrid,rings=3,exchange=$way --set train.optimizer=adam
done
echo "one result after $((SECONDS - started)) s"

# ---- numbers that come from a file ----
run 0 train mlp.yaml --strategy sgd --quiet --out first $adam --set train.seed=7
run 0 train mlp.yaml --strategy sgd --quiet --out alone-init $adam --set model.init=first/model.safetensors
rings result mlp.yaml 4 hybrid,rings=2 $adam --set model.init=first/model.safetensors
same "model.init" alone-init result

# ---- resumed in another shape ----
last_checkpoint() { sed -n 's/.*"event": "checkpoint".*"update": \([0-9]*\).*/\1/p' "$1/journal.jsonl" | tail -1; }
under_way() { [ "$(wc -l <"$1")" -gt 5 ]; }
sed 's/updates: 12/epochs: 1000000000, optimizer: adam, shards: 4/' dropout.yaml >long.yaml
start_master run long.yaml --nodes 4 --strategy hybrid,rings=2 --out broken --set train.report_seconds=0
master=$pid
until_true 60 under_way run.out || fail "the run does not get under way: $(cat run.err)"
kill -INT "$master"
ends "$master" 1 60
reached=$(last_checkpoint broken)
[ "${reached:-0}" -gt 0 ] || fail "no checkpoint after SIGINT: $(cat run.err)"
for shape in "--nodes 4 --strategy hybrid,rings=4" "--nodes 4 --strategy hybrid,rings=2" "--nodes 2 --strategy ring"; do
    rm -rf resumed && cp -r broken resumed
    run 0 train long.yaml --out resumed --resume --quiet $shape --set train.updates=$((reached + 20))
    [ -d whole ] || run 0 train long.yaml --out whole --strategy sgd --quiet --set train.updates=$((reached + 20))
    same "resumed with $shape" whole resumed
done
echo "resumed after $((SECONDS - started)) s"

# ---- somebody dies: in ring 0, the head of another ring, another node of it ----
for place in 1 2 3; do
    node=() at=() words=()
    for i in 1 2 3; do
        start_node "n$i" --name "node-$i" --data .
        node+=("$pid") at+=("127.0.0.1:$port") words+=(--node "127.0.0.1:$port")
    done
    start_master run long.yaml --strategy hybrid,rings=2 --out killed-$place --set train.report_seconds=0 "${words[@]}"
    master=$pid
    until_true 60 under_way run.out || fail "killed-$place: not under way: $(cat run.err)"
    destroy "${node[place - 1]}"
    ends "$master" 1 10
    says run.err "ringtmp: ${at[place - 1]} is lost: "
    says run.err "node $place"
    # the others are there for the next
    survivors=()
    for i in 1 2 3; do [ $i -eq $place ] || survivors+=(--node "${at[i - 1]}"); done
    run 0 train mlp.yaml --quiet --out next-$place --nodes 2 "${survivors[@]}" --strategy hybrid --set train.shards=2
    for i in 1 2 3; do [ $i -eq $place ] || destroy "${node[i - 1]}"; done
done
echo "deaths after $((SECONDS - started)) s"

# ---- what cannot be ----
refuses 2 "rings: 5 nodes cannot be 2 rings of equal length" train mlp.yaml --nodes 5 --strategy hybrid,rings=2 --out never
refuses 2 "the last batch of an epoch has 1 example, fewer than there are rings (2)" \
    train mlp.yaml --nodes 2 --strategy hybrid --out never --set train.batch=19
mkdir other && cp images labels other/ && printf '\377' | dd of=other/images bs=1 seek=300 conv=notrunc 2>/dev/null
start_node stranger --data other
refuses 2 "its training data differ from the master's" train mlp.yaml --node "127.0.0.1:$port" --strategy hybrid --out never
destroy "$pid"

finish
