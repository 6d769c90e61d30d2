#!/usr/bin/env bash
# Streams: what arrives is learnt from once, in order, with the result that the same examples from a file give;
# memory does not grow with the length of the stream; what cannot be used is named.
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"

# generate N: N lines of four features and a class
generate() {
    awk -v n="$1" 'BEGIN {
        srand(1)
        for (i = 0; i < n; i++) {
            a = int(rand() * 1000); b = int(rand() * 1000); c = int(rand() * 1000); d = int(rand() * 1000)
            print a "," b "," c "," d "," (a + b < 800 ? 0 : c > d ? 1 : 2)
        }
    }'
}

model='  input: 4
  layers: [{dense: 16}, relu, {dense: 8}, relu, {dense: 3}]
  loss: cross_entropy'
cat >stream.yaml <<EOF
model:
$model
data:
  train: {stream: {from: "-", format: csv, label: last}}
  scale: 0.001
train: {batch: 32, optimizer: {momentum: {lr: 0.02}}}
cluster: {keep_all: true}
EOF
cat >file.yaml <<EOF
model:
$model
data:
  train: {csv: {file: examples.csv, header: false, label: 4}}
  scale: 0.001
  shuffle: false
train: {batch: 32, epochs: 1, optimizer: {momentum: {lr: 0.02}}}
EOF
# the same numbers from a stream as from a file, on any number of nodes; the last batch is not full
generate 2005 >examples.csv
run 0 train file.yaml --out file --quiet
expected=$(field params_sha256 file/summary.json)
for nodes in 1 3; do
    run 0 train stream.yaml --nodes $nodes --out "stream$nodes" --quiet <examples.csv
    [ "$(field params_sha256 stream$nodes/summary.json)" = "$expected" ] || fail "another result from a stream on $nodes nodes"
    [ "$(field samples stream$nodes/summary.json)" = 2005 ] || fail "not every example was used once"
done
[ "$(field progressive_loss stream3/summary.json)" = "$(field train_loss file/summary.json)" ] ||
    fail "the progressive loss is not the mean loss before each update"

# a FIFO, in binary records
python3 - <<'EOF' >records
import struct, sys
for line in open("examples.csv"):
    fields = [float(f) for f in line.split(",")]
    sys.stdout.buffer.write(struct.pack("<I%df" % len(fields), 4 * len(fields), *fields))
EOF
mkfifo pipe
cat records >pipe &
run 0 train stream.yaml --nodes 2 --set 'data.train={stream: {from: pipe, format: f32}}' --out fifo --quiet
[ "$(field params_sha256 fifo/summary.json)" = "$expected" ] || fail "another result from a FIFO"

# a million examples: no more memory than ten thousand (sanitizers are slow, and keep memory that was freed)
many=1000000 more=4000000
[ -z "${RT_MAY_SKIP:-}" ] || many=100000 more=100000000
generate 10000 | "$RINGTMP" train stream.yaml --out short --quiet --set train.batch=256 || fail "a short stream failed"
generate $many | "$RINGTMP" train stream.yaml --out long --quiet --set train.batch=256 || fail "a long stream failed"
[ "$(field samples long/summary.json)" = $many ] || fail "not all of $many examples were used"
short=$(field peak_rss_bytes short/summary.json) long=$(field peak_rss_bytes long/summary.json)
[ "$long" -lt $((short + more)) ] || fail "$many examples took $((long - short)) more bytes of memory than 10000"

# what is lost when the reader is too slow is counted
generate 50000 | "$RINGTMP" train stream.yaml --out lossy --quiet \
    --set 'data.train={stream: {from: "-", overflow: drop-new, buffer: 64}}' || fail "a stream that drops failed"
read=$(field stream_read lossy/summary.json) dropped=$(field stream_dropped lossy/summary.json)
used=$(field samples lossy/summary.json)
[ $((used + dropped)) = "$read" ] || fail "$used used and $dropped dropped are not the $read that came"

# a stop while nothing arrives (a script's background jobs ignore Ctrl-C)
{ cat examples.csv; exec sleep 60; } >pipe &
feeder=$!
"$RINGTMP" train stream.yaml --nodes 2 --set 'data.train={stream: {from: pipe}}' --out cut >out 2>err &
run=$!
for _ in $(seq 100); do
    grep -q update out && break
    sleep 0.1
done
sleep 0.5
kill -TERM $run
wait $run
[ $? = 1 ] || fail "a stream that was interrupted did not end with status 1"
grep -q 'To go on:' err || fail "an interrupted stream does not say how to go on"
kill $feeder 2>/dev/null
wait $feeder 2>/dev/null

# mistakes
refuses 2 "stream" train file.yaml --strategy ring-stream --out never
refuses 2 "ring-stream" train stream.yaml --strategy ring --out never
refuses 2 "standardize is not possible with a stream" train stream.yaml --set data.standardize=true --out never
refuses 2 "train.updates" train stream.yaml --set train.schedule=cosine --out never
echo "1,2,3" >wrong.csv
run 2 train stream.yaml --set 'data.train={stream: {from: wrong.csv}}' --out wrong
says err "wrong.csv"

finish
