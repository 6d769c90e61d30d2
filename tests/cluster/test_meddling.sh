#!/usr/bin/env bash
# A node that sends nonsense in the middle of a run: the master names it, ends with status 1, says how to resume, and
# leaves no model. Numbers that are not finite are no exception, wherever they come: in the middle, at a checkpoint, or
# with the last parameters. Nobody is told to lower the learning rate.
# labels: once
. "$(dirname "$0")/lib.sh"
write_models
sed 's/updates: 12/updates: 12, checkpoint_seconds: 0, report_seconds: 0/' mlp.yaml >ring.yaml
sed 's,^cluster:.*,cluster: {recover: false},' ring.yaml >exchange.yaml

# between WHO DIRECTION TYPE NTH HOW: three nodes, of which one has a meddle.py before it
between() {
    local name
    node=() at=() others=()
    for name in a b c; do
        start_node "$name" --name "node-$name"
        node+=("$pid")
        if [ "$name" = "$1" ]; then
            : >meddle.out
            "$tests/meddle.py" "127.0.0.1:$port" "${@:2}" >meddle.out 2>meddle.err &
            node+=("$!") children+=("$!")
            wait_for meddle.out "listening at 127.0.0.1:" || exit 1
            port=$(sed -n 's/^listening at 127\.0\.0\.1:\([0-9]*\)$/\1/p' meddle.out)
        fi
        at+=("node-$name (127.0.0.1:$port)") others+=(--node "127.0.0.1:$port")
    done
}

# meddled STRATEGY GUILTY WHO DIRECTION TYPE NTH HOW WHY: whom the master blames; guilty: 1 to 3
meddled() {
    local name="$1, $3, $4 $5 $6 $7" file=exchange
    case $1 in ring* | hybrid*) file=ring ;; esac
    between "${@:3:5}"
    run 1 train $file.yaml --quiet --strategy "$1" --out "$name" "${others[@]}"
    says err "ringtmp: ${at[$2 - 1]} is lost: "
    says err "$8"
    ! grep -q "learning rate" err || fail "$name: the learning rate is blamed: $(cat err)"
    [ ! -e "$name/model.safetensors" ] && [ ! -e "$name/summary.json" ] || fail "$name: a model was left"
    destroy "${node[@]}"
}

between c from 0 1 body # of which there are none
run 0 train ring.yaml --quiet --strategy ring --out honest "${others[@]}"
destroy "${node[@]}"

# ---- numbers that are not finite, among those of the checkpoint at the end and those of the model ----
meddled ring 3 c from 66 1 nan "it sent a non-finite value in state tensor 0"
meddled ring 3 c from 66 6 nan "it sent a non-finite value in state tensor 0"
meddled ring 2 c to 66 1 nan "it sent a non-finite value in state tensor 0"
meddled hybrid,rings=2 1 a from 66 1 nan "it sent a non-finite value in state tensor 0"

# ---- what is not a message, or not the expected one ----
meddled ring 3 c from 32 9 head "not a RingTMP message"
meddled ring 2 b from 48 9 type "the go must not carry tensors"
meddled ring 3 c from 65 1 body "metrics"
meddled allreduce-rd 3 c from 96 9 head "not a RingTMP message"
meddled ps-sync 2 b from 96 9 type "the go must not carry tensors"
meddled ps-async 3 c from 112 2 type "the go has unknown flags"
meddled ps-async 3 c from 81 2 type "go"
meddled ps-shard,k=2,base=async 1 a from 114 2 head "not a RingTMP message"
meddled hybrid,rings=2 2 b from 96 9 type "the go must not carry tensors"
finish
