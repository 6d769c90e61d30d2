#!/usr/bin/env bash
# Five nodes in five network namespaces, each with an address of its own, joined by a bridge in a sixth, where all that
# they say is captured. They learn what a single device does, to the bit; while they train nobody but neighbours
# exchanges a byte, also after one is lost and after it is back, and where nobody can connect to two of them; and neither inputs nor labels are in what was captured (traffic.py).
. "$(dirname "$0")/lib.sh"
last_place=4
. "$tests/namespaces.sh"
addresses=$(IFS=, && echo "${ring[*]}")

# start_nodes WORD...: nodes 1 to 4 in their namespaces; their ids are in $nodes
dialled=(1 2 3 4) # those that the master connects to
start_nodes() {
    local i
    nodes=()
    for i in 1 2 3 4; do start_place "$i" "$@"; done
}
start_place() { # N WORD...
    local i=$1
    shift
    : >"node$i.out"
    $in-"$i" "$RINGTMP" node --listen "${ring[i]}:7117" --threads 1 "$@" >"node$i.out" 2>"node$i.err" &
    nodes[i - 1]=$!
    children+=("$!")
    wait_for "node$i.out" "listening at ${ring[i]}:7117" || exit 1
}

# begin_training DIRECTORY WORD...: on the ring of all five, the master in namespace 0, with all traffic in DIRECTORY.traffic;
# end_training DIRECTORY
begin_training() {
    local directory=$1 i others=()
    shift
    for i in "${dialled[@]}"; do others+=(--node "${ring[i]}:7117"); done
    : >capture.out
    $in-bridge python3 "$tests/capture.py" "$directory.traffic" br0 >capture.out 2>capture.err &
    capture=$!
    children+=("$capture")
    wait_for capture.out capturing || exit 1
    $in-0 "$RINGTMP" train dropout.yaml --quiet --out "$directory" "${others[@]}" "$@" >run.out 2>run.err &
    master=$!
    children+=("$master")
}
end_training() {
    ends "$master" 0 60
    kill -TERM "$capture"
    ends "$capture" 0 30
    [ "$(field nodes "$1/summary.json")" = 5 ] || fail "$1: not on 5 nodes: $(cat run.err)"
}
train() {
    begin_training "$@"
    end_training "$1"
}

recover=true
# The examples come in the order of the file, so that the labels of a micro-batch are known; the scale is one that
# changes no digit. A line of metrics goes round with every report.
write_models
sed -i 's/^data:/&\n  shuffle: false/; s/scale: .*/scale: 0.00390625/
    s/batch: 20, updates: 12/batch: 48, micro_batch: 16, updates: 40, report_seconds: 0, checkpoint_seconds: 0.05/' \
    dropout.yaml
run 0 train dropout.yaml --quiet --out alone --strategy sgd

# ---- in clear ----
start_nodes --insecure
train plain
same "five namespaces" alone plain
python3 "$tests/traffic.py" plain plain.traffic --ring "$addresses" --images images --labels labels \
    --scale 0.00390625 --micro-batch 16 || fail "what was captured, see above"
# Whoever would look for neighbours in another order would notice.
python3 "$tests/traffic.py" plain plain.traffic --ring "${ring[0]},${ring[2]},${ring[1]},${ring[3]},${ring[4]}" >out 2>err &&
    fail "every pair of nodes passes as neighbours"
says err "bytes between nodes 0 and 2, which are not neighbours"
destroy "${nodes[@]}"

# ---- with a key ----
run 0 keygen cluster.key
start_nodes --key cluster.key
train secret --key cluster.key
same "five namespaces with a key" alone secret
python3 "$tests/traffic.py" secret secret.traffic --ring "$addresses" || fail "what was captured, see above"
destroy "${nodes[@]}"

# ---- one is lost, and comes back: three views, and in each of them nobody but its neighbours ----
sed -i 's/batch: 48, micro_batch: 16, updates: 40, report_seconds: 0, checkpoint_seconds: 0.05/batch: 8, updates: 4000, epochs: 1000000, report_seconds: 0.1, checkpoint_seconds: 0/' dropout.yaml
run 0 train dropout.yaml --quiet --out longer --strategy sgd
start_nodes --insecure
begin_training views --set cluster.replica_every=50
until_true 30 holds views/journal.jsonl '"event": "first_step"' || fail "views: does not start: $(cat run.err)"
sleep 0.3
destroy "${nodes[1]}"
until_true 30 holds views/journal.jsonl '"event": "new_update"' || fail "views: no new update: $(cat run.err)"
start_place 2 --insecure
end_training views
[ "$(field recoveries views/summary.json)" = 1 ] || fail "views: $(field recoveries views/summary.json) recoveries"
same "three views" longer views
python3 "$tests/traffic.py" plain views.traffic --ring "$addresses" --views 3 || fail "what was captured of three views, see above"
destroy "${nodes[@]}"

# ---- two connect to the master, and listen nowhere: each lies between two that listen ----
sed -i 's/batch: 8, updates: 4000/batch: 8, updates: 200/' dropout.yaml
run 0 train dropout.yaml --quiet --out short --strategy sgd
nodes=()
for i in 2 4; do start_place $i --key cluster.key; done
for i in 1 3; do
    $in-$i "$RINGTMP" node --join "${ring[0]}:7117" --key cluster.key --name "${ring[i]}" --threads 1 >node$i.out 2>node$i.err &
    nodes[i - 1]=$!
    children+=("$!")
done
dialled=(2 4)
train joined --key cluster.key --listen "${ring[0]}:7117" --wait-nodes 2
same "two that join" short joined
for i in 1 3; do
    [ -z "$($in-$i ss -Hltn)" ] || fail "node $i listens: $($in-$i ss -Hltn)"
done
finish
