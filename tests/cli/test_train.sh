#!/usr/bin/env bash
# A training run as a person and a script see it: what is printed, what is written, and what quiet means.
# labels: threads
. "$(dirname "$0")/lib.sh"
write_run 4

run 0 train run.yaml --out first --set train.report_seconds=0
[ ! -s err ] || fail "errors in a good run: $(cat err)"
says out "parameters"
says out "180 training examples"
says out "epoch 1/4"
says out "test accuracy"
says out "test loss"
says out "samples/s"
says out "most often taken for"
says out "first/model.safetensors"
says out "first/journal.jsonl"
says out "first/summary.json"
grep -q $'[\r\033]' out && fail "control characters in a pipe"
for file in model.safetensors journal.jsonl summary.json; do
    [ -s "first/$file" ] || fail "no $file"
done
hash=$(field params_sha256 first/summary.json)
[ "${#hash}" -eq 64 ] || fail "params_sha256 is '$hash'"
says out "$hash"
for name in strategy nodes seed math updates samples seconds samples_per_s train_loss test_loss test_accuracy \
    params params_sha256 bytes_sent recoveries version per_node; do
    grep -q "\"$name\"" first/summary.json || fail "no $name in summary.json"
done
[ "$(field updates first/summary.json)" = 72 ] || fail "updates: $(field updates first/summary.json)"
awk -v a="$(field test_accuracy first/summary.json)" 'BEGIN { exit !(a > 0.9) }' ||
    fail "an accuracy of $(field test_accuracy first/summary.json) on easy data"
while read -r line; do
    case $line in '{"event": "'*'}') ;; *) fail "a line of the journal: $line" ;; esac
done <first/journal.jsonl

# the same again, quietly, with another number of threads; then another seed
run 0 train run.yaml --out second --quiet --set train.threads=2 --set train.micro_batch=3 --nodes 1 --strategy sgd
[ ! -s out ] && [ ! -s err ] || fail "--quiet prints: $(cat out err)"
[ "$(field params_sha256 second/summary.json)" = "$hash" ] || fail "the second run gives other parameters"
run 0 train run.yaml --out third --quiet --seed 2
[ "$(field params_sha256 third/summary.json)" != "$hash" ] || fail "another seed gives the same parameters"
[ "$(field seed third/summary.json)" = 2 ] || fail "seed: $(field seed third/summary.json)"
run 0 train --quiet --out=fourth --set=train.epochs=1 -- run.yaml
[ "$(field updates fourth/summary.json)" = 18 ] || fail "--set train.epochs=1: $(field updates fourth/summary.json)"

# as many threads as there are cores that the process may use, not as the machine has
if command -v taskset >/dev/null; then
    core=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    taskset -c "$core" "$RINGTMP" train run.yaml --out narrow --quiet --set train.epochs=1 || fail "a run on one core"
    [ "$(field threads narrow/summary.json)" = 1 ] || fail "one core, threads: $(field threads narrow/summary.json)"
fi

# no files at all, and the same model
ls -A >before
run 0 train run.yaml --out none
says out "params_sha256  $hash"
says out "not written: out is none"
! grep -q "journal  \|summary  " out || fail "--out none names files: $(cat out)"
ls -A | cmp -s - before || fail "--out none left files: $(ls -A)"
run 0 train run.yaml --set out=none --quiet
ls -A | cmp -s - before || fail "out=none left files: $(ls -A)"
refuses 2 "no checkpoint is written, so there is none to resume from" train run.yaml --out none --resume
run 0 train run.yaml --out ./none --quiet --set train.epochs=1
[ -e none/model.safetensors ] || fail "no directory of the name none"
run 0 train run.yaml --set out=by-key --quiet --set train.epochs=1
[ -e by-key/model.safetensors ] || fail "the key out is not used"

# a directory of its own when none is given
run 0 train run.yaml --set train.epochs=1
ls runs/run-*/model.safetensors >/dev/null 2>&1 || fail "no runs/run-TIME/model.safetensors"

# a run does not write over another one
cp first/model.safetensors before
refuses 2 "first" train run.yaml --out first --quiet
cmp -s before first/model.safetensors || fail "a refused run touched the model"

# nobody reads the output: the run goes on to its end
"$RINGTMP" train run.yaml --out piped --set train.report_seconds=0 2>err | head -1 >out
[ "$(field params_sha256 piped/summary.json)" = "$hash" ] || fail "train | head did not finish"
[ ! -s err ] || fail "train | head: $(cat err)"
"$RINGTMP" train run.yaml --out closed >&- 2>err || fail "train with no output: $(cat err)"
[ "$(field params_sha256 closed/summary.json)" = "$hash" ] || fail "train with no output gives other parameters"
[ "$(head -c 9 closed/journal.jsonl)" = '{"event":' ] || fail "the journal took the place of the output"
finish
