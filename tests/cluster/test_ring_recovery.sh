#!/usr/bin/env bash
# A ring that loses devices goes on without them, from replicas or the last checkpoint, and ends with the parameters of one device.
recover=true
. "$(dirname "$0")/lib.sh"
write_models
updates=3000
sed -i "s/updates: 12/updates: $updates, epochs: 1000000000, checkpoint_seconds: 0.1/" dropout.yaml
run 0 train dropout.yaml --out whole --strategy sgd --quiet

# recovered DIRECTORY NODES RECOVERIES [FROM]: the run on $master ended well, on so many nodes, with the parameters of one device
recovered() {
    ends "$master" 0 60
    [ "$(field updates "$1/summary.json")" = $updates ] || fail "$1: not $updates updates: $(cat run.err)"
    [ "$(field nodes "$1/summary.json")" = "$2" ] || fail "$1: on $(field nodes "$1/summary.json") nodes, not $2: $(cat run.err)"
    [ "$(field recoveries "$1/summary.json")" -ge "$3" ] || fail "$1: $(field recoveries "$1/summary.json") recoveries, not $3"
    grep -q '"event": "recovery"' "$1/journal.jsonl" || fail "$1: the journal has no recovery"
    [ -z "${4:-}" ] || says "$1/journal.jsonl" "\"from\": \"$4\""
    same "$1" whole "$1"
    accounted "$1" 0 # its neighbour may be the one who takes over its layers
}

# ---- one dies: the first, in the middle, the last; a moment after a checkpoint, wherever the run is then ----
nodes a b c
for place in 0 1 2; do
    begin killed-$place "${others[@]}"
    sleep "0.$((RANDOM % 5))"
    destroy "${node[place]}"
    recovered killed-$place 3 1
    says run.err "${at[place]}) is lost: "
    says run.err "continuing on 3 devices"
    # the others are free again, and one that comes back takes part in the next run
    start_node again --name node-again
    node[place]=$pid at[place]="127.0.0.1:$port"
    others=()
    for i in 0 1 2; do others+=(--node "${at[i]}"); done
done

# ---- two at a time, neighbours or not; all of them ----
for gone in "0 1" "0 2" "0 1 2"; do
    begin "killed ${gone}" "${others[@]}"
    left=4
    for i in $gone; do
        destroy "${node[i]}"
        left=$((left - 1))
    done
    recovered "killed ${gone}" $left 1
    for i in $gone; do
        start_node back --name node-back
        node[i]=$pid at[i]="127.0.0.1:$port"
    done
    others=()
    for i in 0 1 2; do others+=(--node "${at[i]}"); done
done

# ---- from replicas alone: at neighbours, in memory or on the disk; no more updates than lie between two of them are made again ----
renewed() { # DIRECTORY: three replicas have been made
    until_true 60 holds "$1/journal.jsonl" '"event": "start"' || fail "$1: does not start: $(cat run.err)"
    sleep 0.3
}
for place in 0 1 2; do
    kind=memory
    [ $place != 1 ] || kind=disk
    start_master run dropout.yaml --out replica-$place --quiet "${others[@]}" --set train.checkpoint_seconds=0 \
        --set cluster.replica=$kind --set cluster.replica_every=5
    master=$pid
    renewed replica-$place
    destroy "${node[place]}"
    recovered replica-$place 3 1 replica
    [ "$(field replayed_updates replica-$place/summary.json)" -le 15 ] || fail "replica-$place: $(cat run.err)"
    start_node back --name node-back
    node[place]=$pid at[place]="127.0.0.1:$port"
    others=()
    for i in 0 1 2; do others+=(--node "${at[i]}"); done
done

# ---- neighbours are lost, and with them a part and its replica: from the checkpoint ----
begin neighbours "${others[@]}" --set cluster.replica_every=5
kill -STOP "${node[1]}" # both are lost at a time
destroy "${node[0]}"
destroy "${node[1]}"
recovered neighbours 2 1 checkpoint
for i in 0 1; do
    start_node back --name node-back
    node[i]=$pid at[i]="127.0.0.1:$port"
done
others=()
for i in 0 1 2; do others+=(--node "${at[i]}"); done

# ---- before there is any of them: from the beginning ----
start_master run dropout.yaml --out early --quiet "${others[@]}" --set train.checkpoint_seconds=0 --set cluster.replica=off
master=$pid
until_true 60 holds early/journal.jsonl '"event": "start"' || fail "early: does not start: $(cat run.err)"
destroy "${node[2]}"
recovered early 3 1 start
says run.err "from update 0"

# ---- local processes ----
begin local --nodes 3
locals=($(children_of "$master"))
kill -KILL "${locals[0]}"
recovered local 2 1
says run.err "local 1 is lost: "
says run.err "it was ended by signal 9 (Killed)"

# ---- one that stops is given up; when it wakes it learns that its view is over, and serves others ----
start_node d --name node-d
sleeper=$pid
begin silent --node "${at[0]}" --node "127.0.0.1:$port" --node "${at[1]}"
kill -STOP "$sleeper"
recovered silent 3 1
says run.err "(127.0.0.1:$port) is lost: "
kill -CONT "$sleeper"
until_true 20 holds d.err " ended" || until_true 20 holds d.err " over" || fail "the node that woke up goes on with its run: $(cat d.err)"

# ---- a run that is stopped, or whose master is killed, is resumed at once: its nodes wait for nobody else ----
for signal in INT KILL; do
    start_node e --name node-e
    others=(--node "${at[0]}" --node "${at[1]}" --node "127.0.0.1:$port")
    begin resumed-$signal "${others[@]}" --set train.updates=1000000000
    { kill -$signal "$master" && wait "$master"; } 2>/dev/null
    run 0 train dropout.yaml --out resumed-$signal --resume --quiet "${others[@]}" --set train.updates=$((2 * $(last_checkpoint resumed-$signal) + 200))
    [ "$(field nodes resumed-$signal/summary.json)" = 4 ] || fail "resumed-$signal: not on 4 nodes"
done

# ---- a run that is to end instead ----
begin strict "${others[@]:0:4}" --set cluster.recover=false --set train.updates=1000000000
destroy "${node[0]}"
ends "$master" 1 20
says run.err "${at[0]}"
says run.err "is lost: "
says run.err "--out strict --resume"
finish
