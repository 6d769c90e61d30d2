#!/usr/bin/env bash
# A run that is stopped by a signal and resumed ends with the parameters of an unbroken one, to the bit.
. "$(dirname "$0")/lib.sh"
set -m # jobs get groups of their own and are not made to ignore SIGINT
write_run 40
sed -i 's/dense: 16/dense: 256/; s/- dropout/- dense: 256\n    - relu\n    - dropout/; s/^train:/&\n  threads: 1/' run.yaml
slow='--set train.report_seconds=0'

run 0 train run.yaml --out whole --quiet
hash=$(field params_sha256 whole/summary.json)
[ "${#hash}" -eq 64 ] || fail "no hash of the unbroken run"
updates=$(field updates whole/summary.json)

# stop SIGNAL DIRECTORY WORD...: trains, sends the signal once the run is under way, leaves err and $status
stop() {
    local signal=$1 directory=$2
    shift 2
    "$RINGTMP" train run.yaml --out "$directory" $slow "$@" >out 2>err &
    local child=$!
    for _ in $(seq 2000); do
        [ "$(wc -l <out)" -gt 5 ] && break
        sleep 0.01
    done
    kill "-$signal" "$child" 2>/dev/null
    status=0
    wait "$child" || status=$?
}

for signal in INT TERM HUP; do
    stop $signal "stopped by $signal"
    if [ "$status" -eq 0 ]; then
        echo "note: the run was over before SIG$signal came"
        continue
    fi
    [ "$status" -eq 1 ] || fail "SIG$signal: exit status $status, not 1"
    says err "stopped by $signal/checkpoint"
    [ ! -e "stopped by $signal/summary.json" ] || fail "a stopped run left a summary"
    # the command that it prints is the one to run
    line=$(tail -1 err)
    case $line in *"train run.yaml $slow --out 'stopped by $signal' --resume"*) ;; *) fail "how to resume: $line" ;; esac
    eval "$line --quiet" >out 2>err || fail "resuming after SIG$signal: $(cat err)"
    [ "$(field params_sha256 "stopped by $signal/summary.json")" = "$hash" ] ||
        fail "SIG$signal: the resumed run gives other parameters"
    [ "$(field updates "stopped by $signal/summary.json")" = "$updates" ] || fail "SIG$signal: number of updates"
done

# several times, on different numbers of threads
stop INT often --set train.threads=2
stop TERM often --resume
run 0 train run.yaml --out often --resume --quiet --set train.threads=2
[ "$(field params_sha256 often/summary.json)" = "$hash" ] || fail "a run that was stopped twice gives other parameters"

# killed without warning: what the last checkpoint holds is enough
"$RINGTMP" train run.yaml --out killed --quiet --set train.checkpoint_seconds=0.01 &
child=$!
for _ in $(seq 2000); do
    grep -q '"event": "checkpoint"' killed/journal.jsonl 2>/dev/null && break
    sleep 0.01
done
sleep 0.05
kill -KILL "$child" 2>/dev/null
wait "$child" 2>/dev/null
run 0 train run.yaml --out killed --resume --quiet
[ "$(field params_sha256 killed/summary.json)" = "$hash" ] || fail "a killed run gives other parameters"
lines=$(grep -c . killed/journal.jsonl)
[ "$(grep -c '^{"event": ".*}$' killed/journal.jsonl)" -eq "$lines" ] || fail "torn lines in the journal"

# what changes the result cannot change on the way
stop INT changed
if [ "$status" -eq 1 ]; then
    run 2 train run.yaml --out changed --resume --quiet --set train.batch=20
    says err "batch"
fi
finish
