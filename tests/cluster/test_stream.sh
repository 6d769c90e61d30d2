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

# a sender to connect to, and one that connects
cat >send.py <<'EOF'
import os, re, socket, sys, time
data = open("examples.csv", "rb").read()
if sys.argv[1] == "serve":
    listener = socket.create_server(("127.0.0.1", 0))
    with open("port.new", "w") as file:
        file.write(str(listener.getsockname()[1]))
    os.rename("port.new", "port")
    sender = listener.accept()[0]
else:
    for _ in range(600):
        found = re.search(r"waiting for examples at 127\.0\.0\.1:(\d+)", open(sys.argv[2]).read())
        if found:
            break
        time.sleep(0.1)
    sender = socket.create_connection(("127.0.0.1", int(found[1])))
for begin in range(0, len(data), 777):  # pieces that end anywhere in a line
    sender.sendall(data[begin:begin + 777])
sender.close()
EOF
for nodes in 1 2; do
    rm -f port
    python3 send.py serve &
    sender=$!
    for _ in $(seq 300); do
        [ ! -e port ] || break
        sleep 0.1
    done
    run 0 train stream.yaml --nodes $nodes --out "tcp$nodes" --quiet \
        --set "data.train={stream: {from: \"tcp:127.0.0.1:$(cat port)\"}}"
    wait $sender || fail "the sender over TCP failed"
    : >err
    python3 send.py connect err &
    sender=$!
    run 0 train stream.yaml --nodes $nodes --out "listen$nodes" \
        --set 'data.train={stream: {from: "listen:127.0.0.1:0"}}'
    wait $sender || fail "the sender that connects failed"
    for from in tcp listen; do
        [ "$(field params_sha256 $from$nodes/summary.json)" = "$expected" ] ||
            fail "another result from $from on $nodes nodes"
        [ "$(field samples $from$nodes/summary.json)" = 2005 ] || fail "not every example that came by $from was used once"
    done
done

# A million examples: no node takes more memory than for ten thousand. (The examples that are kept for a recovery are as many in both
# with replica_every.) Sanitizers are slow, and keep memory that was freed.
many=1000000 more=2000000
case ${RT_MAY_SKIP:-} in *sanitizer*) many=100000 more=100000000 ;; esac
memory() { grep -o '"peak_rss_bytes": *[0-9]*' "$1/summary.json" | grep -o '[0-9]*$'; }
for nodes in 1 2; do
    for count in 10000 $many; do
        generate $count | "$RINGTMP" train stream.yaml --nodes $nodes --out "long$nodes-$count" --quiet \
            --set train.batch=256 --set cluster.replica_every=15 || fail "a stream of $count examples on $nodes nodes failed"
        [ "$(field samples "long$nodes-$count/summary.json")" = $count ] || fail "not all of $count examples were used"
    done
    node=0
    while read -r short long; do
        node=$((node + 1))
        [ "$long" -lt $((short + more)) ] ||
            fail "node $node of $nodes: $many examples took $((long - short)) more bytes of memory than 10000"
    done < <(paste <(memory "long$nodes-10000") <(memory "long$nodes-$many"))
    [ $node = $nodes ] || fail "the memory of $node nodes is known, not of $nodes"
done

# What is lost when the learner is too slow is counted: these layers take far longer than reading does.
for overflow in drop-new drop-old; do
    generate 20000 | "$RINGTMP" train stream.yaml --out $overflow --quiet \
        --set 'model.layers=[{dense: 512}, relu, {dense: 512}, relu, {dense: 3}]' \
        --set "data.train={stream: {from: \"-\", overflow: $overflow, buffer: 64}}" || fail "a stream with $overflow failed"
    read=$(field stream_read $overflow/summary.json) dropped=$(field stream_dropped $overflow/summary.json)
    used=$(field samples $overflow/summary.json)
    [ "$read" = 20000 ] || fail "$overflow: $read examples came, not 20000"
    [ "$dropped" -gt 0 ] || fail "$overflow: nothing was lost, so this shows nothing"
    [ $((used + dropped)) = "$read" ] || fail "$overflow: $used used and $dropped dropped are not the $read that came"
done

# A stream that ends before the first example is no success, and leaves no model; one that has no more is one.
: >empty.csv
for nodes in 1 2; do
    refuses 1 "standard input ended before the first example" train stream.yaml --nodes $nodes --out "empty$nodes" \
        --quiet </dev/null
    refuses 1 "empty.csv ended before the first example" train stream.yaml --nodes $nodes --out "empty$nodes-file" \
        --quiet --set 'data.train={stream: {from: empty.csv}}'
    for directory in "empty$nodes" "empty$nodes-file"; do
        left=$(find "$directory" -type f ! -name journal.jsonl)
        [ -z "$left" ] || fail "a stream without examples has left $left"
    done
    run 0 train stream.yaml --nodes $nodes --out stream3 --resume --quiet </dev/null
    [ "$(field params_sha256 stream3/summary.json)" = "$expected" ] || fail "nothing more came, yet the result is another"
    head -n 5 examples.csv | "$RINGTMP" train stream.yaml --nodes $nodes --out "few$nodes" --quiet ||
        fail "a stream shorter than a batch failed"
    [ "$(field samples "few$nodes/summary.json")" = 5 ] || fail "not all examples of a stream shorter than a batch were used"
done

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

# the names of a stream's classes are kept in the model, and test data are read with them
sed 's/,0$/,low/; s/,1$/,left/; s/,2$/,right/' examples.csv | head -320 >named.csv
named=(--set data.train='{stream: {from: "-", format: csv, label: last, names: [low, left, right]}}'
    --set data.test='{csv: {file: named.csv, header: false}}' --set data.shuffle=false)
rm -rf named
run 0 train stream.yaml --out named --quiet "${named[@]}" <named.csv
cut -d, -f1-4 named.csv >inputs.csv
run 0 predict named/model.safetensors inputs.csv --format csv --probs
[ "$(head -1 out)" = "example,class,probability,low,left,right" ] || fail "names of a stream: '$(head -1 out)'"

# a sender that takes its time to end does not make the training slower
{ head -96 examples.csv; sleep 1.5; } | run 0 train stream.yaml --out slow --quiet
awk -v s="$(field seconds slow/summary.json)" 'BEGIN { exit !(s > 0 && s < 1.2) }' ||
    fail "96 examples took $(field seconds slow/summary.json) s: waiting for the end of a stream was counted"

# what is left at the end is not a batch where those are to be whole
head -100 examples.csv | run 0 train stream.yaml --out whole --quiet --set train.drop_last=true
[ "$(field samples whole/summary.json)" = 96 ] || fail "drop_last of a stream: $(field samples whole/summary.json) samples, not 96"

# a target that the loss cannot take ends the run with the reason
printf '1,2,3,4,0\n1,2,3,4,3\n' | run 2 train stream.yaml --out shares --quiet --set model.loss=bce \
    --set model.layers='[{dense: 1}]'
says err "target 0 of example 1 of the stream"
finish
