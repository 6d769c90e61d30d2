#!/usr/bin/env bash
# What the command says when something is not as it should be names the right cause and the right place; and
# settings that belong together may come in any order.
. "$(dirname "$0")/lib.sh"
set -m # jobs are not made to ignore SIGINT
write_run 2
child=''
trap '[ -z "$child" ] || kill -KILL "$child" 2>/dev/null; rm -rf "$work"' EXIT

# ---- settings ----
# more shards than the batch of the file has examples: good only with the other setting
run 0 train run.yaml --quiet --out a --set train.shards=16 --set train.batch=16
run 0 train run.yaml --quiet --out b --set train.batch=16 --set train.shards=16
[ "$(field params_sha256 a/summary.json)" = "$(field params_sha256 b/summary.json)" ] || fail "the order of settings counts"
refuses 2 "shards" train run.yaml --out never --set train.shards=16
sed '/loss:/d' run.yaml >no_loss.yaml
run 0 train no_loss.yaml --quiet --out c --set model.loss=cross_entropy
refuses 2 "model.loss is missing" train no_loss.yaml --out never
run 0 train <(cat run.yaml) --quiet --out d --set train.epochs=1 --set train.batch=8

# ---- words that are not there ----
sed 's/loss: cross_entropy/loss: cross_entropie/' run.yaml >changed.yaml
refuses 2 "changed.yaml:8: model.loss: there is no 'cross_entropie'; did you mean 'cross_entropy'?" train changed.yaml --out never
printf 'cluster:\n  strategy: rung\n' | cat run.yaml - >changed.yaml
refuses 2 "changed.yaml:18: cluster.strategy: there is no 'rung'; did you mean 'ring'?" train changed.yaml --out never
sed 's/^train:/&\n  kernels: avx22/' run.yaml >changed.yaml
refuses 2 "changed.yaml:14: train.kernels: there is no 'avx22'; did you mean 'avx2'?" train changed.yaml --out never
refuses 2 "train.kernels: there is no 'foo'" train run.yaml --set train.kernels=foo --out never
refuses 2 "cluster.strategy: there is no 'nothing'; there are sgd, ring, ring-one, ring-flow" train run.yaml --strategy nothing --out never
refuses 2 "--seed must be a whole number, 0 or more, not '-1'" train run.yaml --seed -1 --out never
sed '/split:/d' run.yaml >no_test.yaml
refuses 2 "no_test.yaml: has no test data" eval a/model.safetensors no_test.yaml
cp run.yaml $'bad\xff.yaml'
run 0 train $'bad\xff.yaml' --out named --quiet --set train.epochs=1 # what is no text of its name is left out of the run's
[ "$(field name named/summary.json)" = bad_ ] || fail "the name of a run: $(field name named/summary.json)"

# ---- nothing but the error ----
refuses 2 "nothere.csv" predict a/model.safetensors nothere.csv --format csv
printf 'x1,x2,x3,x4,x5,x6,label\n1,\x1b[2J,1,1,1,1,0\n' >escape.csv
refuses 2 "'\x1b[2J'" train run.yaml --out never --set 'data.test={csv: {file: escape.csv, label: label}}'
! grep -q $'\x1b' err || fail "an escape sequence of the data is in the error"
refuses 2 '\x1b[2J' predict a/model.safetensors $'\x1b[2Jnothere.csv'
! grep -q $'\x1b' err || fail "an escape sequence of a name is in the error"

# ---- targets of bce ----
printf 'x,y\n1,0\n2,1\n3,1.5\n' >shares.csv
cat >shares.yaml <<END
model: {input: 1, layers: [{dense: 1}], loss: bce}
data: {train: {csv: {file: shares.csv, label: y}}}
train: {epochs: 1}
END
refuses 2 "shares.csv: target 0 of example 2 (both counted from 0) is 1.5: the loss bce needs targets between 0 and 1" \
    train shares.yaml --out never
refuses 2 "is 2 after scaling" train shares.yaml --out never --set data.target=input \
    --set 'data.train={csv: {file: shares.csv, columns: [x]}}'
run 0 train shares.yaml --quiet --out e --set data.target=input --set data.scale=0.3 \
    --set 'data.train={csv: {file: shares.csv, columns: [x]}}'

# ---- many classes: scores, but no table of their squares ----
awk 'BEGIN { print "x,label"; for (i = 0; i < 3000; i++) print i % 1200 / 1200 "," i % 1200 }' >many.csv
sed 's/input: 6/input: 1/; s/dense: 3/dense: 1200/; s/table.csv/many.csv/' run.yaml >many.yaml
run 0 train many.yaml --out many --set train.epochs=1
says out "test accuracy"
run 0 eval many/model.safetensors many.yaml
says out "accuracy"
run 0 predict many/model.safetensors '{csv: {file: many.csv, columns: [x]}}'
[ "$(wc -l <out)" -eq 3000 ] || fail "predictions of many classes: $(head -3 out)"

# ---- start from a checkpoint ----
run 0 train run.yaml --quiet --out f --set train.epochs=1 --set model.init=a/checkpoint/state.safetensors
sed 's/dense: 16/dense: 17/' run.yaml >wider.yaml
refuses 2 "a/checkpoint/state.safetensors does not fit the model" train wider.yaml --out never \
    --set model.init=a/checkpoint/state.safetensors

# ---- resuming ----
run 0 train run.yaml --out a --resume --set train.shards=16 --set train.batch=16 --set train.epochs=1
says out "nothing is left to train"

# started SIGNAL FILE WORD...: trains, sends the signal once the first report is there
signal_when_started() {
    local signal=$1 status=0 end=$((SECONDS + 120))
    shift
    : >out
    "$RINGTMP" train "$@" >out 2>err &
    child=$!
    until [ -s out ]; do
        [ $SECONDS -lt $end ] && kill -0 "$child" 2>/dev/null || { fail "no report: $(cat err)"; break; }
        sleep 0.01
    done
    [ -z "$signal" ] || kill "-$signal" "$child"
    [ -n "$signal" ] || : >"$cut"
    wait "$child" || status=$?
    child=''
    [ "$status" -eq 1 ] || fail "exit status $status, not 1: $(cat err)"
}
sed 's/epochs: 2/epochs: 1000000000/' run.yaml >./-run.yaml
signal_when_started TERM --out stopped --set train.report_seconds=0 -- -run.yaml
says err "stopping: the checkpoint is being written"
line=$(tail -1 err)
case $line in *" --out stopped --resume -- -run.yaml") ;; *) fail "how to resume: $line" ;; esac
eval "${line/ -- / --quiet --set train.epochs=1000 -- }" >out 2>err || fail "resuming: $(cat err)"

# ---- who is left out of a ring is told in the same words by plan and train ----
slow=(--nodes 2 --strategy ring --set 'cluster.slowdown=[1, 1000]')
left="local 1 is left out: [0-9,]* samples/s are predicted without it, [0-9,]* with it"
run 0 plan run.yaml "${slow[@]}"
grep -q "^$left\.\$" out || fail "plan: who is left out: $(cat out)"
run 0 train run.yaml "${slow[@]}" --out left
grep -q "^ringtmp: note: $left\$" err || fail "train: who is left out: $(cat err)"

# ---- a node that is not there is told of at once, not at the timeout ----
for words in "train run.yaml --strategy ring --out never" "train run.yaml --strategy allreduce-rd --out never" "plan run.yaml"; do
    run 1 $words --node 127.0.0.1:1 --set cluster.timeout=1.5
    [ "$(cat err)" = "ringtmp: note: waiting for 127.0.0.1:1
ringtmp: 127.0.0.1:1: connection refused: nothing is listening there" ] || fail "$words: a node that is not there: $(cat err)"
done
refuses 1 "127.0.0.1:1: connection refused: nothing is listening there" train run.yaml --quiet --out never --node 127.0.0.1:1 --set cluster.timeout=1.5

# ---- a key under its old name works, with a note that tells the new one ----
run 0 train run.yaml --strategy ring --nodes 2 --out renamed --set cluster.patience=30
grep -qx 'ringtmp: note: cluster.patience is now called cluster.timeout; the old name will be removed in the next version' err ||
    fail "cluster.patience: $(cat err)"
run 0 train run.yaml --strategy ring --nodes 2 --out current --set cluster.timeout=30
! grep -q 'is now called' err || fail "cluster.timeout: $(cat err)"

# ---- a mapped file that is cut short under a run ----
{ printf '\0\0\10\2\0\0\0\100\0\0\0\100'; head -c 4096 /dev/zero; } >images
{ printf '\0\0\10\1\0\0\0\100'; head -c 64 /dev/zero; } >labels
sed 's/input: 6/input: 64/; s/train: .*csv.*/train: {idx: [images, labels]}/; s/epochs: 2/epochs: 1000000000/' run.yaml >cut.yaml
cut=images
signal_when_started '' cut.yaml --out cut --set train.report_seconds=0
says err "could not be read: it was cut short"
[ ! -e never ] || fail "a refused run left its output directory behind"
finish
