#!/usr/bin/env bash
# A full disk: the run ends with a sentence and exit status 1, and what was good before stays good.
. "$(dirname "$0")/lib.sh"
mkdir small
if ! mount -t tmpfs -o size=256k ringtmp-test small 2>/dev/null; then
    echo "skipped: a small file system can be mounted only by root"
    exit 77
fi
trap 'umount "$work/small"; rm -rf "$work"' EXIT
write_run 2

run 0 train run.yaml --out small/good --quiet
cp small/good/model.safetensors kept
head -c 1M /dev/zero >small/filler 2>/dev/null

# no room for anything
run 1 train run.yaml --out small/none --quiet
says err "ringtmp: small/none"
says err "space"
[ ! -e small/none/model.safetensors ] || fail "a model on a full disk"
find small -name '*.tmp*' -o -name '*XXXX*' | grep . && fail "temporary files are left"

# the model that was there before is as it was
cmp -s kept small/good/model.safetensors || fail "the old model was touched"
run 0 eval small/good/model.safetensors run.yaml

# room for the journal's first lines but not for the model of a larger network
rm small/filler
sed 's/dense: 16/dense: 20000/' run.yaml >large.yaml
run 1 train large.yaml --out small/large --quiet --set train.updates=3
says err "space"
[ ! -e small/large/model.safetensors ] || fail "half a model"

# predictions into a full disk
cut -d, -f1-6 table.csv >inputs.csv
head -c 1M /dev/zero >small/filler 2>/dev/null
status=0
"$RINGTMP" predict small/good/model.safetensors inputs.csv >small/predictions 2>err || status=$?
[ "$status" -eq 1 ] || fail "predict: exit status $status, not 1"
says err "could not be written"
finish
