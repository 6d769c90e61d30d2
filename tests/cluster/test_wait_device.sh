#!/usr/bin/env bash
# A ring that loses a device and does not fit into the memory of the others waits for one to come back, and goes on with the parameters of
# one device; where none comes it ends with a sentence, the checkpoint, and the command that resumes it on other devices.
recover=true
. "$(dirname "$0")/lib.sh"
write_pictures 96
write_model wide '[flatten, dense: 512, relu, dense: 512, relu, dense: 512, relu, dense: 512, relu, dense: 512, relu, dense: 512, relu, dense: 4]'
sed -i "s/plan: even, //; s/keep_all: true/memory: 24M/; s/updates: 12/epochs: 1000000000, checkpoint_seconds: 0.2/" wide.yaml
# nothing of it fits on fewer than three such devices
start_node a --name node-a --memory 24M
node=("$pid") at=("127.0.0.1:$port") others=(--node "127.0.0.1:$port")
run 2 plan wide.yaml "${others[@]}"
says err "the model does not fit on these devices"
start_node b --name node-b --memory 24M
node+=("$pid") at+=("127.0.0.1:$port") others+=(--node "127.0.0.1:$port")

# loses DIRECTORY WORD...: a run on $master whose second node is killed, until it waits
loses() {
    local directory=$1
    shift
    start_master run wide.yaml --out "$directory" --quiet "${others[@]}" "$@"
    master=$pid
    until_true 60 has_checkpoint "$directory" || fail "$directory: no checkpoint: $(cat run.err)"
    destroy "${node[1]}"
    until_true 20 holds run.err "is waited for, for " || fail "$directory: does not wait: $(cat run.err)"
    says run.err "note: too few devices are left: the model does not fit on these devices: "
    kill -0 "$master" || fail "$directory: the run has ended"
}
# continues DIRECTORY WORD...: resumed on those devices, to the parameters of one device
continues() {
    local directory=$1 updates
    updates=$(($(last_checkpoint "$1") + 5))
    shift
    run 0 train wide.yaml --out "$directory" --resume --quiet --set train.updates=$updates "$@"
    [ "$(field nodes "$directory/summary.json")" = 3 ] || fail "$directory: on $(field nodes "$directory/summary.json") nodes"
    rm -rf whole
    run 0 train wide.yaml --out whole --strategy sgd --quiet --set cluster.memory=0 --set train.updates=$updates
    same "$directory" whole "$directory"
}
returns() { # with MEMORY
    start_node b --name node-b --memory "$1" --listen "${at[1]}"
    node[1]=$pid
}

# ---- the device comes back; before that it comes back with too little memory ----
loses back --set train.updates=1000000000
returns 14M
sleep 1.5
kill -0 "$master" || fail "back: the run has ended: $(cat run.err)"
destroy "${node[1]}"
returns 24M
until_true 60 holds run.err "continuing on 3 devices after " || fail "back: does not go on: $(cat run.err)"
[ "$(grep -c "is waited for, for " run.err)" -eq 1 ] || fail "back: not told once: $(cat run.err)"
[ "$(grep -c '"event": "recovery"' back/journal.jsonl)" = 1 ] || fail "back: not one recovery: $(cat run.err)"
until_true 20 holds back/journal.jsonl '"event": "new_update"' || fail "back: no update: $(cat run.err)"
kill -INT "$master"
ends "$master" 1 30
continues back "${others[@]}"

# ---- it does not come back; the checkpoint is good for other devices ----
loses gone --set train.updates=1000000000 --set cluster.wait_device=1
ends "$master" 1 20
says run.err "ringtmp: node-b (${at[1]}) is lost: "
says run.err "; too few devices are left: the model does not fit on these devices: "
says run.err "; no other has come back for 1 s"
says run.err "the last checkpoint is in gone/checkpoint. To go on, with another device beside these:"
tail -1 run.err | grep -qF -- "--node ${at[0]} " || fail "gone: how to go on: $(tail -1 run.err)"
! tail -1 run.err | grep -qF -- "${at[1]}" || fail "gone: to go on with the one that is lost: $(tail -1 run.err)"
start_node c --name node-c --memory 24M
continues gone --node "${at[0]}" --node "127.0.0.1:$port"

# ---- Ctrl-C while it waits; and where nothing can come back it does not wait ----
returns 24M
loses stopped --set train.updates=1000000000
kill -INT "$master"
ends "$master" 1 10
says run.err "stopped/checkpoint. To go on:"
start_master run wide.yaml --out locals --quiet --nodes 3 --set train.updates=1000000000
master=$pid
until_true 60 has_checkpoint locals || fail "locals: no checkpoint: $(cat run.err)"
locals=($(children_of "$master"))
kill -KILL "${locals[0]}"
ends "$master" 1 20
says run.err "; too few devices are left: the model does not fit on these devices: "
! grep -q "waited for" run.err || fail "locals: waits for a process that has ended: $(cat run.err)"
tail -1 run.err | grep -q -- "--nodes 3 .*--out locals --resume" || fail "locals: how to go on: $(tail -1 run.err)"
finish
