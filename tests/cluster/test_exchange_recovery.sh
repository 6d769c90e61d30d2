#!/usr/bin/env bash
# Workers and servers of an exchange are lost, and the run goes on without them, from the image on the master. Every update is
# counted once; where the sums are those of one device, the parameters are those of one device. With ALL=1, as in tests/long, all strategies.
recover=true
. "$(dirname "$0")/lib.sh"
write_models
updates=5000
sed -i "s/updates: 12/updates: $updates, epochs: 1000000000, checkpoint_seconds: 0/; s/, plan: even//" dropout.yaml

# starts DIRECTORY STRATEGY WORD...: a run in the background that has made an image; its id is $master
starts() {
    local directory=$1 strategy=$2
    shift 2
    start_master run dropout.yaml --out "$directory" --quiet --strategy "$strategy" --set cluster.replica_every=7 "$@"
    master=$pid
    until_true 60 holds "$directory/journal.jsonl" '"event": "first_step"' || fail "$directory: does not start: $(cat run.err)"
    sleep "0.$((3 + RANDOM % 3))"
}

# recovered DIRECTORY NODES [FROM]: the run on $master ended well, on so many nodes, with every update made once
recovered() {
    ends "$master" 0 60
    [ "$(field updates "$1/summary.json")" = $updates ] || fail "$1: not $updates updates: $(cat run.err)"
    [ "$(field nodes "$1/summary.json")" = "$2" ] || fail "$1: on $(field nodes "$1/summary.json") nodes, not $2: $(cat run.err)"
    case $1 in # those drop gradients of slow workers, or end epochs early
    ps-backup | ps-cut) ;;
    *) [ "$(field samples "$1/summary.json")" = "$(field samples whole/summary.json)" ] || fail "$1: other examples than one device" ;;
    esac
    [ "$(field recoveries "$1/summary.json")" -ge 1 ] || fail "$1: no recovery: $(cat run.err)"
    says "$1/journal.jsonl" "\"from\": \"${3:-replica}\""
    local moved=$(($2 > 1)) # the state goes to every device that is left, but for that of the seed
    [ "${3:-replica}" != start ] || moved=0
    accounted "$1" $moved
}

# again PLACE...: those nodes are started anew
again() {
    local i
    for i in "$@"; do
        start_node "back$i" --name "node-back$i"
        node[i]=$pid at[i]="127.0.0.1:$port"
    done
    others=()
    for i in 0 1 2; do others+=(--node "${at[i]}"); done
}

run 0 train dropout.yaml --out whole --strategy sgd --quiet
nodes a b c

# ---- every kind: a worker, at any moment; with several servers the lost one has a part of the parameters ----
place=0
strategies=(allreduce-ring ps-tree ps-peer ps-backup ps-async ps-shard,k=2,base=async)
[ -z "${ALL:-}" ] || strategies=(allreduce-ring allreduce-hd allreduce-tree allreduce-auto ps-sync ps-tree ps-scatter ps-peer ps-shard,k=4 ps-hier
    ps-backup ps-async ps-ssp ps-vap downpour ps-cut ps-shard,k=2,base=async ps-shard,k=2,base=ssp)
for strategy in "${strategies[@]}"; do
    starts "$strategy" "$strategy" "${others[@]}"
    destroy "${node[place]}"
    recovered "$strategy" 3
    says run.err "${at[place]}) is lost: "
    again $place
    place=$(((place + 1) % 3))
done

# ---- the bits of one device, whoever is left: one of four, two, all but the master ----
rm -rf whole
run 0 train dropout.yaml --out whole --strategy sgd --quiet --set train.shards=4
for bits in "allreduce-rd 0 2" "allreduce-hd 1" "ps-sync 0" "ps-tree 2" "ps-shard,k=4 1" "allreduce-rd 0 1 2"; do
    read -r strategy gone <<<"$bits"
    starts "bits $bits" "$strategy" "${others[@]}" --set train.shards=4
    left=4
    kill -STOP $(for i in $gone; do echo "${node[i]}"; done) # they are lost at a time
    for i in $gone; do
        destroy "${node[i]}"
        left=$((left - 1))
    done
    recovered "bits $bits" $left
    [ $left -eq 3 ] || says run.err "; without node-"
    [ "$(field recoveries "bits $bits/summary.json")" = $((4 - left)) ] || fail "bits $bits: not $((4 - left)) devices counted"
    same "bits $bits" whole "bits $bits"
    again $gone
done

# ---- samples that the master sends; local processes; an image on the disk; before there is an image ----
starts sent ps-sync "${others[@]}" --set data.send=true --set cluster.replica=disk --set train.shards=4
destroy "${node[1]}"
recovered sent 3
same "samples that are sent" whole sent
again 1
# The files of the data are read once in a run, not for each view: they are gone, and nobody misses them.
starts kept allreduce-ring "${others[@]}"
mkdir -p away && mv images labels away
destroy "${node[2]}"
recovered kept 3
mv away/* .
again 2
starts local ps-async --nodes 3
locals=($(children_of "$master"))
kill -KILL "${locals[1]}"
recovered local 2
says run.err "it was ended by signal 9 (Killed)"
starts early allreduce-ring "${others[@]}" --set cluster.replica=off
destroy "${node[2]}"
recovered early 3 start
says run.err "from update 0 (start)"
again 2

# ---- no room for an image: training goes on without, and from a checkpoint or the beginning when a device is lost ----
TMPDIR=$work/nowhere starts roomless allreduce-ring "${others[@]}" --set cluster.replica=disk
destroy "${node[2]}"
recovered roomless 3 start
says run.err "the master keeps no image of the state"
again 2

# ---- one that comes back takes part again: beside others, and where the master has gone on alone ----
# returns PLACE: a node at the address of the one that was lost
returns() {
    "$RINGTMP" node --listen "${at[$1]}" --threads 1 --name "node-returned$1" >back.out 2>back.err &
    node[$1]=$!
    children+=("$!")
}
for gone in 1 "0 1 2"; do
    starts "back $gone" ps-sync "${others[@]}" --set train.updates=1000000000
    for i in $gone; do destroy "${node[i]}"; done
    until_true 30 holds "back $gone/journal.jsonl" '"event": "new_update"' || fail "back $gone: no new update: $(cat run.err)"
    returns 1
    until_true 30 holds run.err "(${at[1]}) is back; continuing on $((5 - $(wc -w <<<"$gone"))) devices" || fail "back $gone: $(cat run.err)"
    kill -INT "$master"
    ends "$master" 1 60
    again ${gone/1/}
done

# ---- one that stops is given up; when it wakes it serves others ----
starts silent ps-sync "${others[@]}" --set cluster.silence=1
kill -STOP "${node[0]}"
recovered silent 3
kill -CONT "${node[0]}"
starts after allreduce-ring "${others[@]}"
destroy "${node[2]}"
recovered after 3
again 2

# ---- Ctrl-C while a device is waited for: the image becomes the checkpoint, and the run is resumed ----
starts stopped ps-sync "${others[@]}"
kill -STOP "${node[0]}"
destroy "${node[2]}"
sleep 0.3
kill -INT "$master"
ends "$master" 1 20
says run.err "the checkpoint is in stopped/checkpoint"
kill -CONT "${node[0]}"
again 2
run 0 train dropout.yaml --out stopped --resume --quiet --strategy ps-sync "${others[@]}"
[ "$(field samples stopped/summary.json)" = "$(field samples whole/summary.json)" ] || fail "stopped: other examples than one device"
finish
