#!/usr/bin/env bash
# Several rings lose devices, and the run goes on with as many rings as the others can form: every update is counted once, and
# where the rings share each batch the parameters are those of one device, whoever is lost. Devices that come back take part again.
# With ALL=1, as in tests/long, every combination; else those that differ most.
recover=true
. "$(dirname "$0")/lib.sh"
write_models
updates=3000
sed -i "s/updates: 12/updates: $updates, epochs: 1000000000, checkpoint_seconds: 0/" dropout.yaml

# starts DIRECTORY OPTIONS WORD...: a run of hybrid in the background that has begun; its id is $master
starts() {
    local directory=$1 options=$2
    shift 2
    start_master run dropout.yaml --out "$directory" --quiet --strategy "hybrid,$options" --set cluster.replica_every=7 "$@"
    master=$pid
    until_true 60 holds "$directory/journal.jsonl" '"event": "first_step"' || fail "$directory: does not start: $(cat run.err)"
    sleep "0.$((1 + RANDOM % 4))"
}

# recovered DIRECTORY NODES [FROM]: the run on $master ended well, on so many nodes, with every update made once
recovered() {
    ends "$master" 0 60
    [ "$(field updates "$1/summary.json")" = $updates ] || fail "$1: not $updates updates: $(cat run.err)"
    [ "$(field nodes "$1/summary.json")" = "$2" ] || fail "$1: on $(field nodes "$1/summary.json") nodes, not $2: $(cat run.err)"
    case $1 in *backup* | *cut*) ;; # those drop gradients of slow rings, or end epochs early
    *) [ "$(field samples "$1/summary.json")" = "$(field samples whole/summary.json)" ] || fail "$1: other examples than one device" ;;
    esac
    [ "$(field recoveries "$1/summary.json")" -ge 1 ] || fail "$1: no recovery: $(cat run.err)"
    says "$1/journal.jsonl" '"event": "recovery"'
    says "$1/journal.jsonl" "\"from\": \"${3:-replica}\""
}

# again PLACE...: those nodes are started anew
again() {
    local i
    for i in "$@"; do
        start_node "back$i" --name "node-back$i"
        node[i]=$pid at[i]="127.0.0.1:$port"
    done
    others=()
    for i in "${!node[@]}"; do others+=(--node "${at[i]}"); done
}

# lose PLACE...: at a time
lose() {
    local place
    kill -STOP $(for place in "$@"; do echo "${node[place]}"; done)
    for place in "$@"; do destroy "${node[place]}"; done
}

run 0 train dropout.yaml --out whole --strategy sgd --quiet --set train.shards=2
nodes a b c # two rings: the master and a, b and c

# ---- the bits of one device: a worker of ring 0, the leader of the other ring, a worker there; two, and all but the master ----
cases=(1 "0 2" "0 1 2")
[ -z "${ALL:-}" ] || cases=(0 1 2 "0 2" "1 2" "0 1" "0 1 2")
for gone in "${cases[@]}"; do
    starts "bits $gone" rings=2 "${others[@]}"
    lose $gone
    recovered "bits $gone" $((4 - $(wc -w <<<"$gone")))
    same "bits $gone" whole "bits $gone"
    again $gone
done
says run.err "now 1 ring of 1 device; continuing on 1 device after "

# ---- the two that are left may be two rings of one ----
starts apart rings=2,exchange=allreduce-ring "${others[@]}" --set cluster.keep_all=false
lose 0 1
ends "$master" 0 60
same apart whole apart
again 0 1

# ---- one that stops is given up ----
starts silent rings=2,exchange=ps-sync "${others[@]}" --set cluster.silence=1 --set train.shards=4
kill -STOP "${node[1]}"
recovered silent 3
rm -rf four
run 0 train dropout.yaml --out four --strategy sgd --quiet --set train.shards=4
same silent four silent
destroy "${node[1]}" # awake it may wait for a master for a minute
again 1

# ---- samples that the master sends; before there is an image; local processes ----
if [ -n "${ALL:-}" ]; then
    starts sent rings=2 "${others[@]}" --set data.send=true --set cluster.replica=disk
    lose 1
    recovered sent 3
    same sent whole sent
    again 1
    starts early rings=2 "${others[@]}" --set cluster.replica=off
    lose 2
    recovered early 3 start
    same early whole early
    again 2
    starts local rings=2 --nodes 4
    locals=($(children_of "$master"))
    kill -KILL "${locals[1]}"
    recovered local 3
    same local whole local
    says run.err "it was ended by signal 9 (Killed)"
fi

# ---- rings that have batches or servers of their own: nothing is counted twice ----
place=0
strategies=(ps-async)
[ -z "${ALL:-}" ] || strategies=(ps-async ps-ssp downpour ps-backup ps-cut,cut=0.75)
for strategy in "${strategies[@]}"; do
    starts "$strategy" "rings=2,exchange=$strategy" "${others[@]}"
    lose $place
    recovered "$strategy" 3
    again $place
    place=$(((place + 1) % 3))
done

# ---- one that comes back takes part again: beside others, and where the master has gone on alone ----
cases=("0 1 2")
[ -z "${ALL:-}" ] || cases=(1 "0 1 2")
for gone in "${cases[@]}"; do
    starts "back $gone" rings=2 "${others[@]}" --set train.updates=1000000000
    lose $gone
    until_true 30 holds "back $gone/journal.jsonl" '"event": "new_update"' || fail "back $gone: no new update: $(cat run.err)"
    "$RINGTMP" node --listen "${at[1]}" --threads 1 --name node-returned >back.out 2>back.err &
    node[1]=$!
    children+=("$!")
    until_true 30 holds run.err "(${at[1]}) is back; now " || fail "back $gone: $(cat run.err)"
    says run.err "; continuing on $((5 - $(wc -w <<<"$gone"))) devices"
    kill -INT "$master"
    ends "$master" 1 60
    again ${gone/1/}
done

# ---- three rings stay three, and add as before ----
nodes a b c d e
starts three rings=3 "${others[@]}"
lose 3
recovered three 3
run 0 train dropout.yaml --out undisturbed --quiet --nodes 6 --strategy hybrid,rings=3
same three undisturbed three

# ---- three rings of one: two are left, which share batches in another way than three or one ----
starts fewer rings=3 --nodes 3
locals=($(children_of "$master"))
kill -KILL "${locals[1]}"
recovered fewer 2
finish
