#!/usr/bin/env bash
# A ring that learns from a stream goes on when devices are lost: with the parameters that one device has from the same examples,
# also from those that came since the last replica. What only a checkpoint could bring back is lost, and counted.
# labels: once
recover=true
. "$(dirname "$0")/lib.sh"
total=6005 batch=20
awk -v n=$total 'BEGIN {
    srand(1)
    for (i = 0; i < n; i++) {
        a = int(rand() * 1000); b = int(rand() * 1000); c = int(rand() * 1000); d = int(rand() * 1000)
        print a "," b "," c "," d "," (a + b < 800 ? 0 : c > d ? 1 : 2)
    }
}' >examples.csv
cat >model.yaml <<END
model: {input: 4, layers: [dense: 16, relu, dense: 12, relu, dense: 8, relu, dense: 3], loss: cross_entropy}
data: {train: {DATA}, scale: 0.001, shuffle: false}
train: {batch: $batch, epochs: 1, threads: 1, report_seconds: 0.1, optimizer: {adam: {lr: 0.002}}}
cluster: {keep_all: true}
END
sed 's/{DATA}/{stream: {from: pipe}}/; s/shuffle: false/shuffle: true/; s/epochs: 1, //' model.yaml >stream.yaml
sed 's/{DATA}/{csv: {file: examples.csv, header: false, label: 4}}/' model.yaml >file.yaml
run 0 train file.yaml --out whole --strategy sgd --quiet

# Sends examples through the pipe, at about 2000 a second, so that there is a middle. send [FIRST [COUNT]]
mkfifo pipe
send() {
    python3 - "${1:-0}" "${2:-$total}" <<'END' &
import sys, time
first, count = int(sys.argv[1]), int(sys.argv[2])
lines = open("examples.csv").readlines()[first:first + count]
with open("pipe", "w") as pipe:
    for begin in range(0, len(lines), 17):
        pipe.writelines(lines[begin:begin + 17])
        pipe.flush()
        time.sleep(17 / 2000)
END
    sender=$!
    children+=($!)
}
# streams DIRECTORY WORD...: a run in the background, until it has made some updates
streams() {
    local directory=$1
    shift
    start_master run stream.yaml --out "$directory" --quiet "$@"
    master=$pid
    send
    until_true 30 holds "$directory/journal.jsonl" '"event": "step"' || fail "$directory: does not start: $(cat run.err)"
    sleep 0.6
}
# past_checkpoint DIRECTORY: some updates have been made since the last one
past_checkpoint() {
    has_checkpoint "$1" && [ "$(reached "$1")" -gt $((($(last_checkpoint "$1") + 20) * batch)) ]
}
reached() { sed -n 's/.*"event": "step".*"samples": \([0-9]*\).*/\1/p' "$1/journal.jsonl" | tail -1; }
# recovered DIRECTORY NODES FROM
recovered() {
    ends "$master" 0 60
    wait "$sender" || fail "$1: the sender failed"
    [ "$(field nodes "$1/summary.json")" = "$2" ] || fail "$1: on $(field nodes "$1/summary.json") nodes, not $2: $(cat run.err)"
    [ "$(field recoveries "$1/summary.json")" -ge 1 ] || fail "$1: no recovery"
    says "$1/journal.jsonl" "\"from\": \"$3\""
    [ "$(field stream_read "$1/summary.json")" = $total ] || fail "$1: read $(field stream_read "$1/summary.json") examples"
    [ $(($(field samples "$1/summary.json") + $(field rows_lost "$1/summary.json"))) = $total ] ||
        fail "$1: $(field samples "$1/summary.json") samples and $(field rows_lost "$1/summary.json") lost are not $total"
}
# kept DIRECTORY: no example was lost; the loss before each update is counted once
kept() {
    [ "$(field rows_lost "$1/summary.json")" = 0 ] || fail "$1: $(field rows_lost "$1/summary.json") examples lost: $(cat run.err)"
    same "$1" whole "$1"
    [ "$(field progressive_loss "$1/summary.json")" = "$(field train_loss whole/summary.json)" ] || fail "$1: another progressive loss"
}
# lost_rows DIRECTORY: those after the update it went back to, and no others: the result is that of the stream without them
lost_rows() {
    local lost update
    lost=$(field rows_lost "$1/summary.json")
    update=$(sed -n 's/.*"event": "recovery".*"update": \([0-9]*\).*/\1/p' "$1/journal.jsonl")
    [ "$lost" -gt 0 ] || fail "$1: nothing is lost, so this shows nothing"
    says run.err "; $lost examples of the stream are lost"
    { head -n $((update * batch)) examples.csv; tail -n +$((update * batch + lost + 1)) examples.csv; } >rest.csv
    sed 's/examples.csv/rest.csv/' file.yaml >rest.yaml
    rm -rf rest
    run 0 train rest.yaml --out rest --strategy sgd --quiet
    same "$1" rest "$1"
}
again() { # PLACE: the node there is started again
    start_node back --name node-back
    node[$1]=$pid at[$1]="127.0.0.1:$port"
    others=()
    for i in 0 1 2; do others+=(--node "${at[i]}"); done
}

# ---- one dies: first, last; from a replica, with the examples since then ----
nodes a b c
for place in 0 2; do
    streams one-$place "${others[@]}" --set cluster.replica_every=$((7 + 13 * place))
    destroy "${node[place]}"
    recovered one-$place 3 replica
    kept one-$place
    again $place
done

# ---- neighbours: from the checkpoint; what came between that and the last replica is gone ----
streams two "${others[@]}" --set cluster.replica_every=5 --set train.checkpoint_seconds=1
until_true 20 past_checkpoint two || fail "two: no checkpoint"
kill -STOP "${node[1]}"
destroy "${node[0]}" "${node[1]}" 2>/dev/null
recovered two 2 checkpoint
lost_rows two
again 0
again 1

# ---- neighbours, and no replica has been complete yet: every example is still there ----
streams early "${others[@]}" --set cluster.replica_every=1000000 --set train.checkpoint_seconds=0
destroy "${node[1]}" "${node[2]}"
recovered early 2 start
kept early
again 1
again 2

# ---- without replicas no examples are kept ----
streams off "${others[@]}" --set cluster.replica=off --set train.checkpoint_seconds=1
until_true 20 past_checkpoint off || fail "off: no checkpoint"
destroy "${node[1]}"
recovered off 3 checkpoint
lost_rows off
again 1

# ---- checkpoints and replicas of one version, over and over: the stream never waits for a replica that does not come ----
streams both "${others[@]}" --set cluster.replica_every=2 --set train.checkpoint_seconds=0.1
ends "$master" 0 60
wait "$sender" || fail "both: the sender failed"
same both whole both

# ---- there is hardly room for examples: the stream waits for replicas; the master is left alone, and a device comes back ----
streams tight --node "${at[0]}" --set cluster.replica_every=1
destroy "${node[0]}"
until_true 20 holds tight/journal.jsonl '"event": "recovery"' || fail "tight: no recovery: $(cat run.err)"
start_node back --name node-back --listen "${at[0]}"
node[0]=$pid
until_true 20 holds tight/journal.jsonl '"event": "view"' || fail "tight: the device was not taken in: $(cat run.err)"
recovered tight 2 replica
kept tight
mkfifo quick
cat examples.csv >quick &
run 0 train stream.yaml --out quick-run --quiet --node "${at[0]}" --set cluster.replica_every=1 --set 'data.train={stream: {from: quick}}'
same quick-run whole quick-run
run 0 plan stream.yaml --node "${at[0]}" --set cluster.replica_every=30
says out "The master keeps the examples that are in no replica yet: 1200 examples at most, "

# ---- the master is killed: what came after the checkpoint is lost, and said as far as it is known ----
streams resumed --nodes 2 --set train.checkpoint_seconds=1
until_true 20 past_checkpoint resumed || fail "resumed: no checkpoint"
destroy "$master"
{ kill "$sender" && wait "$sender"; } 2>/dev/null
at_checkpoint=$(last_checkpoint resumed) reached=$(reached resumed)
start_master run stream.yaml --out resumed --resume --nodes 2
master=$pid
send $((at_checkpoint * batch))
ends "$master" 0 60
[ "$reached" -gt $((at_checkpoint * batch)) ] || fail "resumed: nothing was lost, so this shows nothing"
says run.err "the state is that after $((at_checkpoint * batch)) examples of the stream; at least $((reached - at_checkpoint * batch)) later ones"
[ "$(field rows_lost resumed/summary.json)" = $((reached - at_checkpoint * batch)) ] || fail "resumed: $(field rows_lost resumed/summary.json) lost"
same resumed whole resumed

finish
