#!/usr/bin/env bash
# A full disk: it is told, and the run goes on. Only the model at the end that cannot be written ends it, with a sentence and exit status 1, and
# then its state is kept; what was good before stays good. The disk is a small file system in memory: root can mount one, and where the
# kernel allows it everybody can in a space of their own. Elsewhere a limit on the size of files stands in for it, where one does.
. "$(dirname "$0")/../cluster/lib.sh"
if [ "$(id -u)" -ne 0 ] && [ -z "${RT_OWN_SPACE:-}" ] && unshare -rm true 2>/dev/null; then
    cd "$OLDPWD" && rm -rf "$work"
    RT_OWN_SPACE=1 exec unshare -rm bash "$0"
fi
mkdir small
mounted=no
mount -t tmpfs -o size=256k ringtmp-test small 2>/dev/null && mounted=yes
end_disk() {
    local child
    for child in "${children[@]}"; do
        { kill -KILL "$child" && wait "$child"; } 2>/dev/null
    done
    umount "$work/small"
    rm -rf "$work"
}
[ $mounted = no ] || trap end_disk EXIT
write_run 2

# The kilobytes that a file may have where nothing could be mounted: fill and empty set it.
limit=unlimited
fill() {
    limit=0
    [ $mounted = no ] || head -c 1M /dev/zero >small/filler 2>/dev/null
}
empty() {
    limit=200
    rm -f small/filler
}
# cramped STATUS OUTPUT WORD...: as run, on the full disk; the command's output goes to OUTPUT
cramped() {
    local expected=$1 output=$2 status
    shift 2
    { # the messages go through a pipe, which has no limit
        status=0
        (
            [ $mounted = yes ] || ulimit -f $limit
            exec "$RINGTMP" "$@" >"$output"
        ) || status=$?
        echo "$status" >&3
    } 3>status 2>&1 | cat >err
    status=$(cat status)
    [ "$status" -eq "$expected" ] || fail "ringtmp $*: exit status $status, not $expected: $(cat err)"
}
if [ $mounted = yes ]; then reason="space"; else reason="too large"; fi
echo "a file system of 256 kB mounted: $mounted"
# times COUNT FILE TEXT: the file has so many lines with the text
times() { [ "$(grep -c -- "$3" "$2")" = "$1" ] || fail "not $1 times '$3' in $2: $(cat "$2")"; }
# whole_lines FILE: every line of the journal is one
whole_lines() { ! grep -v '^{"event": ".*}$' "$1" || fail "torn lines in $1"; }

run 0 train run.yaml --out small/good --quiet
cp small/good/model.safetensors kept

# ---- no room for anything: the run comes to its end, and can leave nothing ----
fill
cramped 1 /dev/null train run.yaml --out small/none --quiet
says err "ringtmp: small/none/model.safetensors: "
says err "$reason"
times 1 err "journal.jsonl: cannot be written: .*; the run goes on"
times 1 err "the checkpoint of update 36 could not be written (.*); the run goes on, and there is none yet"
[ ! -e small/none/model.safetensors ] || fail "a model on a full disk"
find small -name '*.tmp*' -o -name '*XXXX*' | grep . && fail "temporary files are left"

# the model that was there before is as it was
cmp -s kept small/good/model.safetensors || fail "the old model was touched"
run 0 eval small/good/model.safetensors run.yaml

# ---- room for the journal, but not for the checkpoint or the model of a larger network ----
empty
sed 's/dense: 16/dense: 20000/' run.yaml >large.yaml
cramped 1 /dev/null train large.yaml --out small/large --quiet --set train.updates=3
says err "ringtmp: small/large/model.safetensors: "
times 1 err "could not be written"
[ ! -e small/large/model.safetensors ] || fail "half a model"
whole_lines small/large/journal.jsonl
rm -rf small/large

# ---- a run that has left a checkpoint says that it is good, and how to go on ----
empty
run 0 train run.yaml --out whole --quiet --set train.updates=9
run 0 train run.yaml --out small/begun --quiet --set train.updates=3
fill
cramped 1 /dev/null train run.yaml --out small/begun --resume --quiet --set train.updates=9
says err "the checkpoint of update 9 could not be written"
says err "the last one is of update 3"
says err "ringtmp: small/begun/model.safetensors: "
says err "the last checkpoint is in small/begun/checkpoint. To go on, once files can be written again:"
tail -1 err | grep -q -- "--out small/begun --resume" || fail "how to go on: $(tail -1 err)"
empty
limit=unlimited
run 0 train run.yaml --out small/begun --resume --quiet --set train.updates=9
same "from a full disk" whole small/begun
limit=200

# ---- of two checkpoints the older gives way at the end of a run, to the state of the end, and to the model ----
if [ $mounted = yes ]; then
    run 0 train run.yaml --out small/two --quiet --set train.updates=3
    run 0 train run.yaml --out small/two --quiet --resume --set train.updates=5
    fill
    cramped 0 /dev/null train run.yaml --out small/two --resume --quiet --set train.updates=9
    same "the older checkpoint gave way" whole small/two
    [ ! -e small/two/checkpoint/previous.safetensors ] || fail "the older checkpoint is there still"
    empty
    rm -rf small/two
fi

# ---- predictions into a full disk ----
cut -d, -f1-6 table.csv >inputs.csv
fill
cramped 1 small/predictions predict small/good/model.safetensors inputs.csv
says err "could not be written"
empty

# ---- the disk is full for a while in the middle of a run: on one device, in a ring, with servers ----
endless=(--set train.updates=1000000000 --set train.epochs=1000000000 --set train.validate_epochs=0 --set data.hold_out=0.2)
during() { # NAME WORD...
    local name=$1
    shift
    rm -rf small/*
    start_master full run.yaml --out "small/$name" --quiet "${endless[@]}" --set train.checkpoint_seconds=0.05 \
        --set train.report_seconds=0.1 "$@"
    until_true 60 has_checkpoint "small/$name" || fail "$name: no checkpoint: $(cat full.err)"
    head -c 1M /dev/zero >small/filler 2>/dev/null
    until_true 30 holds full.err "could not be written" || fail "$name: not told: $(cat full.err)"
    until_true 30 holds full.err "cannot be written: " || fail "$name: the journal: $(cat full.err)"
    kill -0 "$pid" || fail "$name: the run has ended"
    rm small/filler
    until_true 30 holds full.err "checkpoints can be written again: the last is of update " || fail "$name: not again: $(cat full.err)"
    until_true 30 holds full.err "journal.jsonl can be written again; " || fail "$name: not again: $(cat full.err)"
    kill -INT "$pid"
    ends "$pid" 1 30
    times 1 full.err "the checkpoint of update .* could not be written (.*space.*); the run goes on, and the last one is of update "
    whole_lines "small/$name/journal.jsonl"
    says "small/$name/journal.jsonl" '"event": "end"'
    find small -name '*.tmp*' | grep . && fail "$name: temporary files are left"
    run 0 train run.yaml --out "small/$name" --quiet --resume "${endless[@]}" \
        --set train.updates=$(($(last_checkpoint "small/$name") + 5)) "$@"
}
if [ $mounted = yes ]; then
    during device
    during ring --nodes 3 --set cluster.keep_all=true
    during servers --nodes 2 --strategy ps-sync
    # the best model is kept in memory meanwhile
    best=("${endless[@]}" --set train.updates=40000 --set train.validate_updates=500)
    run 0 train run.yaml --out best --quiet "${best[@]}"
    rm -rf small/*
    fill
    start_master full run.yaml --out small/best --quiet "${best[@]}"
    until_true 30 holds full.err "best.safetensors: No space left on device); it is kept in memory" || fail "best: $(cat full.err)"
    empty
    ends "$pid" 0 60
    same "best" best small/best
    cmp -s best/model.safetensors small/best/model.safetensors || fail "best: another model"
fi

# ---- a limit on the size of files (ulimit -f) is met in the same way, whatever the disk is: no signal ends the command ----
mounted=no limit=8
cramped 1 /dev/null train large.yaml --out limited --quiet --set train.updates=3
says err "ringtmp: limited/"
says err "too large"
[ ! -e limited/model.safetensors ] || fail "half a model behind a limit"
find limited -name '*.tmp*' | grep . && fail "temporary files are left behind a limit"
seq 1 20000 | awk '{print $1 % 7 "," $1 % 5 "," $1 % 3 "," $1 % 2 "," 1 "," 2}' >many.csv
cp kept model.safetensors
cramped 1 predictions predict model.safetensors many.csv
says err "could not be written"
finish
