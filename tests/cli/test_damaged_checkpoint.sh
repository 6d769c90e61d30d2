#!/usr/bin/env bash
# A checkpoint that is torn, cut short or altered in one bit is refused, and the one before it used: when a run is resumed, when it goes on
# after a loss, and when another one starts from it. One sentence says which, why, and what is used instead, also with --quiet.
recover=true
. "$(dirname "$0")/../cluster/lib.sh"
write_run 100000
run 0 train run.yaml --out whole --quiet --set train.updates=60
for updates in 20 40; do
    resume=()
    [ $updates = 20 ] || resume=(--resume)
    run 0 train run.yaml --out good --quiet --set train.updates=$updates "${resume[@]}"
done

# damages KIND FILE
damages() {
    python3 - "$@" <<'END2'
import os, sys
kind, name = sys.argv[1:]
size = os.path.getsize(name)
with open(name, "r+b") as file:
    if kind == "empty":
        file.truncate(0)
    elif kind == "cut short":
        file.truncate(size - 1)
    elif kind == "torn":
        file.truncate(size // 2)
        file.truncate(size)
    else:
        file.seek(size - 100)
        byte = file.read(1)[0]
        file.seek(size - 100)
        file.write(bytes([byte ^ 16]))
END2
}
# told FILE WHO WHY OLDER: the one sentence in it
told() {
    [ "$(grep -c . "$1")" -eq 1 ] || fail "not one sentence: $(cat "$1")"
    grep -q "^ringtmp: note: $2 cannot be used (.*/state.safetensors: .*$3.*); .*/previous.safetensors is$4" "$1" || fail "what is told: $(cat "$1")"
}

# ---- a run is resumed; another starts from the checkpoint ----
for kind in empty "cut short" torn "one bit"; do
    case $kind in
    "one bit") why="does not match its hash: it is damaged or was altered" ;;
    *) why="" ;; # the file says itself that something is missing
    esac
    rm -rf damaged fresh
    cp -r good damaged
    damages "$kind" damaged/checkpoint/state.safetensors
    run 0 train run.yaml --out fresh --quiet --set train.updates=5 --set model.init=damaged/checkpoint/state.safetensors
    told err model.init "$why" "\$"
    run 0 train run.yaml --out previous$$ --quiet --set train.updates=5 --set model.init=damaged/checkpoint/previous.safetensors
    same "model.init, $kind" fresh previous$$
    rm -rf previous$$
    run 0 train run.yaml --out damaged --quiet --resume --set train.updates=60
    told err "the newest checkpoint" "$why" ", of update 20\$"
    says damaged/journal.jsonl '"event": "notice"'
    same "resume, $kind" whole damaged
    cmp -s <(head -c 50 damaged/checkpoint/damaged.safetensors) <(head -c 50 good/checkpoint/state.safetensors) || [ "$kind" = empty ] ||
        fail "$kind: the damaged file is not kept"
done

# ---- both are damaged: nothing is guessed ----
for file in state previous; do damages "one bit" damaged/checkpoint/$file.safetensors; done
refuses 2 "no checkpoint can be used: damaged/checkpoint/state.safetensors: " train run.yaml --out damaged --quiet --resume --set train.updates=70
says err "; damaged/checkpoint/previous.safetensors: "
refuses 2 "damaged/checkpoint/state.safetensors: " train run.yaml --out none --quiet --set model.init=damaged/checkpoint/state.safetensors

# ---- a device is lost, and the checkpoint that the run wrote last has been damaged since ----
write_models
sed -i "s/updates: 12/updates: 3000, epochs: 1000000000/" dropout.yaml
run 0 train dropout.yaml --out whole-ring --strategy sgd --quiet
run 0 train dropout.yaml --out ring --quiet --nodes 3 --set train.updates=100
run 0 train dropout.yaml --out ring --quiet --nodes 3 --set train.updates=200 --resume
start_master run dropout.yaml --out ring --quiet --nodes 3 --set train.checkpoint_seconds=0 --set cluster.replica=off --resume
master=$pid
begun() { [ "$(grep -c '"event": "first_step"' ring/journal.jsonl)" = 3 ]; }
until_true 30 begun || fail "ring: does not start: $(cat run.err)"
damages "one bit" ring/checkpoint/state.safetensors
locals=($(children_of "$master"))
kill -KILL "${locals[0]}"
ends "$master" 0 60
grep "newest checkpoint" run.err >refused
told refused "the newest checkpoint" "does not match its hash" ", of update 100\$"
says run.err "from update 100 (checkpoint)"
same "after a loss" whole-ring ring
finish
