#!/usr/bin/env bash
# A worker is killed in the middle: strategies whose result depends on timing, or on how many workers there are, learn as well as without a
# loss, to within a point of accuracy. In ring-flow the parameters are no older than it promises, before and after, on average too.
recover=true
. "$(dirname "$0")/lib.sh"
awk 'BEGIN {
    srand(1)
    for (i = 0; i < 5000; i++) {
        a = rand(); b = rand(); c = rand(); d = rand()
        print a "," b "," c "," d "," (a + b < 0.8 ? 0 : c > d ? 1 : 2)
    }
}' >examples.csv
head -n 3000 examples.csv >train.csv
tail -n 2000 examples.csv >test.csv
cat >run.yaml <<END
model: {input: 4, layers: [dense: 24, tanh, dense: 20, tanh, dense: 16, tanh, dense: 3], loss: cross_entropy}
data:
  train: {csv: {file: train.csv, header: false, label: 4}}
  test: {csv: {file: test.csv, header: false, label: 4}}
train: {batch: 48, updates: 1, epochs: 100000, threads: 1, report_seconds: 0.02, validate_epochs: 100000, schedule: cosine,
  optimizer: {sgd: {lr: 0.15}}}
cluster: {keep_all: true}
END

# begun DIRECTORY: some of the updates have been made, and most have not
begun() {
    local update
    update=$(sed -n 's/.*"event": "step".*"update": \([0-9]*\).*/\1/p' "$1/journal.jsonl" 2>/dev/null | tail -1)
    [ "${update:-0}" -gt $((updates / 5)) ]
}
# survives STRATEGY DIRECTORY UPDATES: as well as without a loss
survives() {
    local whole lost victim updates=$3
    run 0 train run.yaml --nodes 3 --strategy "$1" --out "$2-whole" --quiet --set train.updates=$updates
    start_master run run.yaml --nodes 3 --strategy "$1" --out "$2" --quiet --set train.updates=$updates
    until_true 60 begun "$2" || fail "$1: does not get on: $(cat run.err)"
    victim=($(children_of "$pid"))
    [ ${#victim[@]} -eq 2 ] || fail "$1: has ended before a worker could be killed"
    kill -KILL "${victim[1]:-$pid}"
    ends "$pid" 0 60
    [ "$(field recoveries "$2/summary.json") $(field nodes "$2/summary.json")" = "1 2" ] || fail "$1: no recovery: $(cat run.err)"
    whole=$(field test_accuracy "$2-whole/summary.json") lost=$(field test_accuracy "$2/summary.json")
    echo "$1: accuracy $lost, $whole without a loss; $(field replayed_updates "$2/summary.json") updates repeated"
    awk -v lost="$lost" -v whole="$whole" 'BEGIN { exit !(whole > 0.93 && lost > whole - 0.01) }' ||
        fail "$1: accuracy $lost, and $whole without a loss"
    accounted "$2" 0
}
# stale DIRECTORY: the oldest parameters that any node used, in updates
stale() { sed -n 's/.*"staleness_max": *\([0-9]*\).*/\1/p' "$1/summary.json" | sort -n | tail -1; }

survives ring-flow,slots=3 flow 9000
for directory in flow flow-whole; do
    [ "$(stale $directory)" -ge 1 ] && [ "$(stale $directory)" -le 2 ] || fail "$directory: parameters $(stale $directory) updates old"
    # the master waits longest for a gradient: with so many batches in flight, for almost all of them
    awk -v mean="$(field staleness_mean $directory/summary.json)" 'BEGIN { exit !(mean > 1.5 && mean <= 2) }' ||
        fail "$directory: parameters $(field staleness_mean $directory/summary.json) updates old on average"
done
survives ps-sync sync 4000
survives ps-async async 9000
survives allreduce-ring reduce 4000
finish
