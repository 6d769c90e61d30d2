#!/usr/bin/env bash
# A full disk: the run ends with a sentence and exit status 1, and what was good before stays good. The disk is a
# small file system in memory: root can mount one, and where the kernel allows it everybody can in a space of their
# own. Elsewhere a limit on the size of files stands in for it, with another sentence from the system.
. "$(dirname "$0")/lib.sh"
mkdir small
if [ "$(id -u)" -ne 0 ] && [ -z "${RT_OWN_SPACE:-}" ] && unshare -rm true 2>/dev/null; then
    cd "$OLDPWD" && rm -rf "$work"
    RT_OWN_SPACE=1 exec unshare -rm bash "$0"
fi
mounted=no
mount -t tmpfs -o size=256k ringtmp-test small 2>/dev/null && mounted=yes
[ $mounted = no ] || trap 'umount "$work/small"; rm -rf "$work"' EXIT
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

run 0 train run.yaml --out small/good --quiet
cp small/good/model.safetensors kept

# no room for anything
fill
cramped 1 /dev/null train run.yaml --out small/none --quiet
says err "ringtmp: small/none"
says err "$reason"
[ ! -e small/none/model.safetensors ] || fail "a model on a full disk"
find small -name '*.tmp*' -o -name '*XXXX*' | grep . && fail "temporary files are left"

# the model that was there before is as it was
cmp -s kept small/good/model.safetensors || fail "the old model was touched"
run 0 eval small/good/model.safetensors run.yaml

# room for the journal's first lines but not for the model of a larger network
empty
sed 's/dense: 16/dense: 20000/' run.yaml >large.yaml
cramped 1 /dev/null train large.yaml --out small/large --quiet --set train.updates=3
says err "$reason"
[ ! -e small/large/model.safetensors ] || fail "half a model"

# a run that has left a checkpoint says that it is good, and how to go on
empty
run 0 train run.yaml --out small/begun --quiet --set train.updates=3
fill
cramped 1 /dev/null train run.yaml --out small/begun --resume --quiet --set train.updates=9
says err "$reason"
says err "the last checkpoint is in small/begun/checkpoint. To go on, once files can be written again:"
tail -1 err | grep -q -- "--out small/begun --resume" || fail "how to go on: $(tail -1 err)"
empty
limit=unlimited
run 0 train run.yaml --out small/begun --resume --quiet --set train.updates=9
limit=200

# predictions into a full disk
cut -d, -f1-6 table.csv >inputs.csv
fill
cramped 1 small/predictions predict small/good/model.safetensors inputs.csv
says err "could not be written"

# A limit on the size of files (ulimit -f) is met in the same way, whatever the disk is: no signal ends the command.
mounted=no limit=8
cramped 1 /dev/null train large.yaml --out limited --quiet --set train.updates=3
says err "ringtmp: limited/"
says err "too large"
[ ! -e limited/model.safetensors ] || fail "half a model behind a limit"
find limited -name '*.tmp*' | grep . && fail "temporary files are left behind a limit"
seq 1 20000 | awk '{print $1 % 7 "," $1 % 5 "," $1 % 3 "," $1 % 2 "," 1 "," 2}' >many.csv
cramped 1 predictions predict small/good/model.safetensors many.csv
says err "could not be written"
finish
