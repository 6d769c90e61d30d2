#!/usr/bin/env bash
# A run that is stopped by a signal and resumed ends with the parameters of an unbroken one, to the bit. The runs
# that are stopped have no end of their own, so only the signal can have ended them.
# labels: threads
. "$(dirname "$0")/lib.sh"
set -m # jobs get groups of their own and are not made to ignore SIGINT
write_run 1000000000
sed -i 's/dense: 16/dense: 64/; s/- dropout/- dense: 64\n    - relu\n    - dropout/; s/^train:/&\n  threads: 1/' run.yaml
slow='--set train.report_seconds=0'
child='' guard=''
trap 'kill -KILL $child $guard 2>/dev/null; rm -rf "$work"' EXIT

# within SECONDS COMMAND...: waits until the command succeeds or the child is gone
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] && kill -0 "$child" 2>/dev/null || return 1
        sleep 0.01
    done
}
under_way() { [ "$(wc -l <out)" -gt 5 ]; }

# last_checkpoint DIRECTORY: the update that the journal's last line about a checkpoint names; 0 without one
last_checkpoint() {
    { echo 0; sed -n 's/.*"event": "checkpoint".*"update": \([0-9]*\).*/\1/p' "$1/journal.jsonl"; } | tail -1
}

# stop SIGNAL DIRECTORY WORD...: trains, sends the signal once the run is under way; it must end with status 1 and
# a checkpoint of the update $reached
stop() {
    local signal=$1 directory=$2 status=0
    shift 2
    : >out
    "$RINGTMP" train run.yaml --out "$directory" $slow "$@" >out 2>err &
    child=$!
    within 300 under_way || fail "SIG$signal: the run did not get under way: $(cat err)"
    kill "-$signal" "$child" || fail "SIG$signal: the run was over before the signal came: $(cat err)"
    { sleep 120 && kill -KILL "$child"; } >/dev/null 2>&1 &
    guard=$!
    wait "$child" || status=$?
    kill -KILL -- "-$guard" 2>/dev/null # not TERM: a shell just forked might run our EXIT trap
    wait "$guard" 2>/dev/null
    child='' guard=''
    [ "$status" -eq 1 ] || fail "SIG$signal: exit status $status, not 1 (137: it went on for two minutes)"
    reached=$(last_checkpoint "$directory")
    [ "$reached" -gt 0 ] || fail "SIG$signal: no checkpoint in the journal"
}

# same DIRECTORY UPDATES: the run in DIRECTORY has as many updates, and the parameters of an unbroken run
same() {
    rm -rf whole
    run 0 train run.yaml --out whole --quiet --set train.updates="$2"
    local hash
    hash=$(field params_sha256 whole/summary.json)
    [ "${#hash}" -eq 64 ] || fail "no hash of the unbroken run"
    [ "$(field updates "$1/summary.json")" = "$2" ] || fail "$1: $(field updates "$1/summary.json") updates, not $2"
    [ "$(field params_sha256 "$1/summary.json")" = "$hash" ] || fail "$1: other parameters than an unbroken run"
}

# a run without files has nothing to go on from, and says so
: >out
"$RINGTMP" train run.yaml --out none $slow >out 2>err &
child=$!
within 300 under_way || fail "out none: the run did not get under way: $(cat err)"
kill -INT "$child" && wait "$child" && fail "out none: exit status 0 after a signal"
child=''
says err "stopping; once more ends at once"
says err "interrupted; with out: none nothing was kept"
! grep -q -- "--resume\|checkpoint" err || fail "out none: a checkpoint is spoken of: $(cat err)"
[ ! -e none ] || fail "out none: a directory was made"

for signal in INT TERM HUP; do
    stop $signal "stopped by $signal"
    says err "stopped by $signal/checkpoint"
    [ ! -e "stopped by $signal/summary.json" ] || fail "a stopped run left a summary"
    # the command that it prints is the one to run
    line=$(tail -1 err)
    case $line in *"train run.yaml $slow --out 'stopped by $signal' --resume"*) ;; *) fail "how to resume: $line" ;; esac
    eval "$line --quiet --set train.updates=$((reached + 50))" >out 2>err || fail "resuming after SIG$signal: $(cat err)"
    same "stopped by $signal" $((reached + 50))
done

# several times, on different numbers of threads
stop INT often --set train.threads=2
first=$reached
stop TERM often --resume
[ "$reached" -gt "$first" ] || fail "stopped at update $first, resumed, stopped at update $reached"
run 0 train run.yaml --out often --resume --quiet --set train.threads=2 --set train.updates=$((reached + 50))
same often $((reached + 50))

# killed without warning: what the last checkpoint holds is enough
"$RINGTMP" train run.yaml --out killed --quiet --set train.checkpoint_seconds=0.01 &
child=$!
checkpoints() { [ "$(cat killed/journal.jsonl 2>/dev/null | grep -c '"event": "checkpoint"')" -ge 3 ]; }
within 300 checkpoints || fail "no checkpoints"
kill -KILL "$child"
wait "$child" 2>/dev/null
[ $? -eq 137 ] || fail "the run to be killed was over"
child=''
# The last checkpoint may be later than the last line about one, but not by as much as this.
updates=$((2 * $(last_checkpoint killed) + 1000))
run 0 train run.yaml --out killed --resume --quiet --set train.updates=$updates
same killed $updates
lines=$(grep -c . killed/journal.jsonl)
[ "$(grep -c '^{"event": ".*}$' killed/journal.jsonl)" -eq "$lines" ] || fail "torn lines in the journal"

# killed before its first checkpoint: no dead end, neither from the beginning nor with what is said about it
: >out
"$RINGTMP" train run.yaml --out early $slow >out 2>err &
child=$!
within 300 under_way || fail "the run to be killed did not get under way: $(cat err)"
kill -KILL "$child"
wait "$child" 2>/dev/null
child=''
[ ! -e early/checkpoint/state.safetensors ] || fail "there is a checkpoint already"
run 2 train run.yaml --out early --quiet --set train.updates=50
says err "continue the run in it with --resume"
run 0 train run.yaml --out early --resume --set train.updates=50
says err "early holds no checkpoint yet: the run starts from the beginning"
same early 50
# the same when it had written nothing at all, but not where there is only a result, or no run
mkdir -p nothing/checkpoint && : >nothing/journal.jsonl
run 0 train run.yaml --out nothing --resume --quiet --set train.updates=5
rm -r nothing/checkpoint
refuses 2 "nothing: is not an empty directory; choose another one" train run.yaml --out nothing --quiet --set train.updates=5
! grep -q -- --resume err || fail "a result without a checkpoint is to be resumed: $(cat err)"
refuses 2 "nothing: there is no checkpoint to resume from" train run.yaml --out nothing --resume --quiet --set train.updates=5
refuses 2 "nowhere: there is no checkpoint to resume from" train run.yaml --out nowhere --resume --quiet --set train.updates=5
[ ! -e nowhere ] || fail "resuming nothing leaves a directory"

# what changes the result cannot change on the way
stop INT changed
run 2 train run.yaml --out changed --resume --quiet --set train.batch=20
says err "batch"

# what is only spelled differently has not changed
write_run 1
sed '/optimizer:/d' run.yaml >plain.yaml
run 0 train plain.yaml --out plain --quiet
for word in train.optimizer=sgd 'train.optimizer={"sgd": {}}' 'train.optimizer={sgd: {weight_decay: 0, lr: 5e-2}}' \
    train.optimizer.sgd=0.05 train.schedule=constant 'train.schedule={constant: {warmup: 0.0}}' train.clip_norm=0.0 \
    model.input=[6] 'model.layers.0={dense: {units: 16, bias: true}}' 'model.layers.1={relu: {}}' \
    'model.layers.2={dropout: {rate: 1e-1}}'; do
    run 0 train plain.yaml --out plain --resume --quiet --set "$word"
done
# what has changed is shown as a run file would have it, and where a long value differs
# refuses_change KEY THEN NOW WORD...: --set WORD is refused, with what it was and what it is now
refuses_change() {
    local key=$1 then=$2 now=$3
    shift 3
    refuses 2 "because $key has changed: it was $then and is now $now" \
        train plain.yaml --out plain --resume --quiet "$@"
}
refuses_change train.optimizer "sgd: {lr: 0.05}" "sgd: {lr: 0.3}" --set train.optimizer.sgd.lr=0.3
refuses_change train.optimizer "sgd: {lr: 0.05}" "momentum: {lr: 0.05, momentum: 0.9}" --set train.optimizer=momentum
refuses_change train.weight_decay 0 0.1 --set 'train.optimizer={sgd: {weight_decay: 0.1}}'
refuses_change train.schedule "constant: {warmup: 0}" "cosine: {floor: 0, warmup: 0}" --set train.schedule=cosine
refuses_change train.schedule "constant: {warmup: 0}" "step: {every: 10, factor: 0.3, warmup: 0}" \
    --set 'train.schedule={step: {factor: 0.3}}'
refuses_change model.layers "[dense: {units: 16, bias: true, init: he}, relu, dropout: {rate: 0.1}, dense: {units: 3, \
bias: true, init: he}]" "[dense: {units: 16, bias: true, init: he}, tanh, dropout: {rate: 0.1}, dense: {units: 3, bias: \
true, init: he}]" --set model.layers.1=tanh
finish
