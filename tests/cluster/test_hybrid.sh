#!/usr/bin/env bash
# Rings side by side, by real processes over TCP: with train.shards the parameters are those of one device, to the bit,
# for any number of rings that divides the shards, wherever the rings are cut; also after a run was broken off and
# resumed in another shape. What goes wrong in any ring is said by the master, and names the node.
. "$(dirname "$0")/lib.sh"
write_models
started=$SECONDS

# ---- one result ----
# Batches of 20 over 87 examples: the last of an epoch has 7, so some slices are empty.
eight='--set train.shards=8 --set data.hold_out=0.1 --set train.validate_updates=4'
for model in mlp cnn dropout; do
    case $model in mlp) optimizer=adam ;; cnn) optimizer=momentum ;; *) optimizer=adagrad ;; esac
    settings="$eight --set train.optimizer=$optimizer"
    run 0 train $model.yaml --strategy sgd --quiet --out alone-$model $settings
    for shape in "2 2" "4 2" "8 4"; do
        spread result $model.yaml ${shape% *} hybrid,rings=${shape#* } $settings
        same "$model, ${shape#* } rings of ${shape% *} nodes" alone-$model result
    done
done
adam="$eight --set train.optimizer=adam"
for strategy in allreduce-hd ps-sync ps-tree; do
    spread result mlp.yaml 8 hybrid,rings=4,exchange=$strategy $adam
    same "$strategy between rings" alone-mlp result
done
spread result mlp.yaml 6 hybrid,rings=2 $adam --set train.micro_batch=1 --set cluster.master_tail=2
same "micro-batches of one, and a tail" alone-mlp result
spread result mlp.yaml 3 hybrid,rings=1 $adam
same "one ring" alone-mlp result
run 0 train mlp.yaml --strategy sgd --quiet --out alone-clip $eight --set train.clip_norm=0.3
spread result mlp.yaml 4 hybrid,rings=2 $eight --set train.clip_norm=0.3
same "clipping" alone-clip result
spread result mlp.yaml 6 hybrid,rings=2 $eight --set train.clip_norm=0.3 --set cluster.master_tail=1
same "clipping with a tail" alone-clip result
# Every node has a row, with the bytes between rings too.
python3 - result/summary.json <<'END' || fail "the rows of the summary: $(cat result/summary.json)"
import json, sys
summary = json.load(open(sys.argv[1]))
nodes = summary["per_node"]
assert [node["role"] for node in nodes] == ["master", "worker", "worker", "leader", "worker", "worker"]
assert all(node["sent"]["across"]["gradients"] > 0 and node["received"]["across"]["gradients"] > 0 for node in nodes)
assert all(sum(n for link in node["sent"].values() for kind, n in link.items() if kind != "probe") == node["bytes_sent"] for node in nodes)
assert summary["bytes_sent"] == sum(node["bytes_sent"] for node in nodes)
END
# The last batch of an epoch has one example: rings without any go along.
for shape in "2 2" "4 4" "8 4"; do
    [ -d alone-one ] || run 0 train mlp.yaml --strategy sgd --quiet --out alone-one --set train.batch=19 --set train.shards=4
    spread result mlp.yaml ${shape% *} hybrid,rings=${shape#* } --set train.batch=19 --set train.shards=4
    same "a batch of one example" alone-one result
done
spread result mlp.yaml 4 hybrid,wfbp=off $adam
same "layers exchanged all at once" alone-mlp result
spread result mlp.yaml 4 hybrid $adam --set data.send=true
same "examples that are sent" alone-mlp result
says result/journal.jsonl "data.send: examples and their targets are sent to the leaders of 1 other ring, about"

# ---- another order of additions ----
# The same again and again, wherever the rings are cut.
for strategy in allreduce-rd ps-hier allreduce-ring ps-peer ps-scatter; do
    spread result mlp.yaml 6 hybrid,rings=3,exchange=$strategy --set train.optimizer=adam
    spread again mlp.yaml 3 hybrid,rings=3,exchange=$strategy --set train.optimizer=adam --set train.micro_batch=2
    same "three rings by $strategy, twice" result again
done
echo "one result after $((SECONDS - started)) s"

# ---- numbers that come from a file ----
run 0 train mlp.yaml --strategy sgd --quiet --out first $adam --set train.seed=7
run 0 train mlp.yaml --strategy sgd --quiet --out alone-init $adam --set model.init=first/model.safetensors
spread result mlp.yaml 4 hybrid,rings=2 $adam --set model.init=first/model.safetensors
same "model.init" alone-init result

# ---- resumed in another shape ----
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

# begin NAME: two rings of two, of the master and three nodes; the id of the master's process is $master, theirs are in
# $node, their addresses in $at
begin() {
    local i words=()
    node=() at=()
    for i in 1 2 3; do
        start_node "n$i" --name "node-$i" --data .
        node+=("$pid") at+=("127.0.0.1:$port") words+=(--node "127.0.0.1:$port")
    done
    start_master run long.yaml --strategy hybrid,rings=2 --out "$1" --set train.report_seconds=0 --set cluster.wait_master=0 "${words[@]}"
    master=$pid
    until_true 60 under_way run.out || fail "$1: not under way: $(cat run.err)"
}

# lost PLACE WHY: the master has said so
lost() {
    says run.err "ringtmp: node-$1 (${at[$1 - 1]}) is lost: "
    says run.err "$2"
}

# serve: those of the nodes that are there serve another master; then they are ended
serve() {
    local i survivors=()
    for i in "$@"; do survivors+=(--node "${at[i - 1]}"); done
    rm -rf next
    run 0 train mlp.yaml --quiet --out next --nodes $((4 - $#)) "${survivors[@]}" --strategy hybrid --set train.shards=2
    for i in "$@"; do destroy "${node[i - 1]}"; done
}

# ---- somebody dies: in ring 0, the head of another ring, another node of it ----
for place in 1 2 3; do
    begin killed-$place
    destroy "${node[place - 1]}"
    ends "$master" 1 10
    lost $place ""
    serve $(for i in 1 2 3; do [ $i -eq $place ] || echo $i; done)
done
# ---- somebody stops to answer, and goes on serving when it wakes ----
for place in 2 3; do
    begin silent-$place
    kill -STOP "${node[place - 1]}"
    ends "$master" 1 15
    lost $place "has been silent for 5 seconds"
    kill -CONT "${node[place - 1]}"
    until_true 10 holds "n$place.err" " ended" || fail "node $place, awake, does not end its run: $(cat n$place.err)"
    serve 1 2 3
done
# ---- somebody is told to end ----
for place in 2 3; do
    begin ended-$place
    kill -TERM "${node[place - 1]}"
    ends "$master" 1 10
    lost $place "the node is stopped"
    ends "${node[place - 1]}" 0 10
    serve $(for i in 1 2 3; do [ $i -eq $place ] || echo $i; done)
done
# ---- a head is told to end while it waits for somebody who does not answer ----
begin stuck
kill -STOP "${node[2]}"
sleep 0.3
kill -TERM "${node[1]}"
ends "${node[1]}" 0 4
ends "$master" 1 15
lost 2 "is lost: the node is stopped"
kill -CONT "${node[2]}"
destroy "${node[0]}" "${node[2]}"
# ---- the master dies: all end, and serve another ----
begin orphans
destroy "$master"
for i in 1 2 3; do
    until_true 10 holds "n$i.err" " ended" || fail "node $i does not end its run without a master: $(cat n$i.err)"
done
serve 1 2 3
echo "deaths after $((SECONDS - started)) s"

# ---- the plan ----
run 0 plan mlp.yaml --nodes 6 --strategy hybrid,rings=2
says out "2 rings of 3 nodes share each batch; equal places exchange gradients by allreduce-rd, about "
run 0 plan mlp.yaml --nodes 3 --strategy hybrid
! grep -q "rings of" out || fail "three nodes are planned as several rings: $(cat out)"

# ---- what cannot be ----
refuses 2 "rings: 5 nodes cannot be 2 rings of equal length" train mlp.yaml --nodes 5 --strategy hybrid,rings=2 --out never
refuses 2 "rings: 4 nodes cannot be 8 rings of equal length" train mlp.yaml --nodes 4 --strategy hybrid,rings=8 --out never
refuses 2 "a batch of 3 cannot be shared by 4 rings" train mlp.yaml --nodes 4 --strategy hybrid,rings=4 --set train.batch=3 --out never
refuses 2 "rings: 5 nodes cannot be 2 rings of equal length" plan mlp.yaml --nodes 5 --strategy hybrid,rings=2
start_node small --memory 1M --data .
refuses 2 "for rings whose devices are each like the weakest at their place: " \
    train mlp.yaml --node "127.0.0.1:$port" --strategy hybrid --out never
destroy "$pid"
mkdir other && cp images labels other/ && printf '\377' | dd of=other/images bs=1 seek=300 conv=notrunc 2>/dev/null
start_node stranger --data other
refuses 2 "its training data differ from the master's" train mlp.yaml --node "127.0.0.1:$port" --strategy hybrid --out never
destroy "$pid"

finish
