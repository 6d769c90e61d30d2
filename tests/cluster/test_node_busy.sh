#!/usr/bin/env bash
# A node that is in the middle of work which takes long: it ends within a second of a signal, and it does not go on for a
# master that is gone.
# labels: once
. "$(dirname "$0")/lib.sh"
started=$SECONDS

# One convolution takes more than ten seconds, and nothing is looked at within it. The master is the server: only the node computes.
python3 - <<'END'
import struct
def write(path, shape, count):
    head = "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }" % (shape,)
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + b'\1' * count)
write('x.npy', (2, 16, 512, 512), 2 * 16 * 512 * 512)
write('y.npy', (2, 2), 4)
END
cat >long.yaml <<END
model: {input: [16, 512, 512], layers: [{conv2d: {filters: 16, kernel: 127, pad: 63}}, global_avgpool, dense: 2], loss: mse}
data: {train: {npy: [x.npy, y.npy]}, send: true}
train: {batch: 2, updates: 5, threads: 1}
cluster: {recover: false}
END
cat >short.yaml <<END
model: {input: 2, layers: [dense: 1], loss: mse}
data: {train: {csv: {file: table.csv}}, send: true}
train: {batch: 2, updates: 5, threads: 1}
END
seq 1 9 | awk '{print $1 "," 1 "," 2}' >table.csv

# busy NAME: a node, $pid, at $port, in the middle of an update of a run whose master is $master
busy() {
    local own
    start_node "$1" --name "$1"
    own=$pid
    start_master "master-$1" long.yaml --strategy ps-sync,dedicated=true --node "127.0.0.1:$port" --out "$1" --quiet
    master=$pid pid=$own
    wait_for "$1.err" "begins"
    until_true 20 works "$pid" || fail "$1 does not work: $(cat "$1.err" "master-$1.err")"
}
# Whether a process has computed for a while: 0.3 s.
works() { [ "$(awk '{print $14}' "/proc/$1/stat")" -ge $(($(getconf CLK_TCK) * 3 / 10)) ]; }

# gone SECONDS PID: it has ended within so many seconds; here a little more, for a machine that is busy, too
gone() { until_true "$1" not_alive "$2"; }

busy told
kill -TERM "$pid"
gone 3 "$pid" || fail "a busy node is still there 3 s after SIGTERM"
ends "$pid" 0 1
gone 10 "$master" || fail "the master of a node that is gone is still there"
says master-told.err "told (127.0.0.1:$port) is lost"

# The master is gone: soon the node is free for the next one, with the same number and address.
busy left
destroy "$master"
wait_for left.err "the master of a run is gone, and the work for it does not end; this node starts again" 10
listens_again() { [ "$(grep -c "listening at 127.0.0.1:$port" left.out)" = 2 ]; }
until_true 10 listens_again || fail "not again: $(cat left.out)"
run 0 train short.yaml --strategy allreduce-rd --node "127.0.0.1:$port" --out next --quiet
kill -TERM "$pid"
ends "$pid" 0 3

# A data file that is cut short under a node ends the run, not the node.
{ printf '\0\0\10\2\0\0\20\0\0\0\0\100'; head -c 262144 /dev/zero; } >images
{ printf '\0\0\10\1\0\0\20\0'; head -c 4096 /dev/zero; } >labels
mkdir copy
cp images labels copy
cat >mapped.yaml <<END
model: {input: 64, layers: [dense: 2], loss: cross_entropy}
data: {train: {idx: [images, labels]}}
train: {batch: 8, updates: 1000000000, report_seconds: 0.1, threads: 1}
END
start_node torn --name torn --data copy
own=$pid
start_master cut mapped.yaml --strategy allreduce-rd --node "127.0.0.1:$port" --out cut --quiet \
    --set cluster.recover=false
master=$pid
begun() { grep -q '"event": "step"' cut/journal.jsonl 2>/dev/null; }
until_true 20 begun || fail "no update: $(cat cut.err torn.err)"
: >copy/images
ends "$master" 1 10
says cut.err "torn (127.0.0.1:$port) is lost"
says torn.err "a data file could not be read: it was cut short, or its disk has failed; this node starts again"
cp images copy
listens_again() { [ "$(grep -c "listening at 127.0.0.1:$port" torn.out)" = 2 ]; }
until_true 10 listens_again || fail "not again: $(cat torn.out)"
run 0 train mapped.yaml --strategy allreduce-rd --node "127.0.0.1:$port" --out cut2 --quiet --set train.updates=9
kill -TERM "$own"
ends "$own" 0 3

# Local nodes end with their master, however it ends.
start_master local long.yaml --strategy ps-sync,dedicated=true --nodes 2 --out local --quiet
master=$pid
has_child() { [ -n "$(children_of "$master")" ]; }
until_true 20 has_child || fail "no local node"
child=$(children_of "$master")
child=${child%% *}
until_true 20 works "$child" || fail "no local node works: $(cat local.err)"
destroy "$master"
gone 3 "$child" || {
    fail "a local node outlives its master"
    kill -KILL "$child"
}

echo "all after $((SECONDS - started)) s"
finish
