# What the scripts of this directory share, beside what those of tests/cli do: small pictures, models that can be cut
# into eight, nodes in the background, and checks of one result. Sourced.
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) # before the next line goes elsewhere
. "$tests/../cli/lib.sh"
command -v python3 >/dev/null || skip "there is no python3 to write the data with"

# Whatever a script leaves in the background ends with it: each by its id.
children=()
end_children() {
    local child
    for child in "${children[@]}"; do
        { kill -KILL "$child" && wait "$child"; } 2>/dev/null
    done
    rm -rf "$work"
}
trap end_children EXIT
set -m # jobs get groups of their own and are not made to ignore SIGINT

# until_true SECONDS COMMAND...: until the command succeeds; fails when it never does
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.02
    done
}
holds() { grep -qF -- "$2" "$1" 2>/dev/null; }

# wait_for FILE TEXT [SECONDS]: until the file holds the text
wait_for() {
    until_true "${3:-20}" holds "$1" "$2" || {
        fail "no '$2' in $1 after ${3:-20} s: $(head -c 1000 "$1")"
        return 1
    }
}

# start_node NAME WORD...: a node in the background; its id is $pid, its port $port; it writes NAME.out and NAME.err
start_node() {
    local name=$1
    shift
    : >"$name.out" # not what an earlier one of the name has said
    "$RINGTMP" node --listen 127.0.0.1:0 --threads 1 "$@" >"$name.out" 2>"$name.err" &
    pid=$!
    children+=("$pid")
    wait_for "$name.out" "listening at 127.0.0.1:" || exit 1
    port=$(sed -n 's/^listening at 127\.0\.0\.1:\([0-9]*\)$/\1/p' "$name.out")
}

# free_port: one that nobody listens at; the next to do so is a process of ours
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# join NAME PORT WORD...: a node in the background that joins the master at that port; its id is $pid; it writes NAME.err
join() {
    local name=$1 door=$2
    shift 2
    "$RINGTMP" node --join "127.0.0.1:$door" --threads 1 --name "node-$name" "$@" >"$name.out" 2>"$name.err" &
    pid=$!
    children+=("$pid")
}

# start_master NAME WORD...: a run in the background; its id is $pid; it writes NAME.out and NAME.err
start_master() {
    local name=$1
    shift
    : >"$name.out"
    "$RINGTMP" train "$@" >"$name.out" 2>"$name.err" &
    pid=$!
    children+=("$pid")
}

# destroy PID...: our own processes, without warning
destroy() {
    local process
    for process in "$@"; do
        kill -KILL "$process" || fail "process $process was gone before"
        { wait "$process"; } 2>/dev/null
    done
}

# ends PID STATUS SECONDS: the process ends in time and with the status
ends() {
    local status=0
    until_true "$3" not_alive "$1" || {
        fail "${BASH_SOURCE[1]##*/}:${BASH_LINENO[0]}: process $1 is still there after $3 s"
        kill -KILL "$1"
    }
    { wait "$1" || status=$?; } 2>/dev/null
    [ "$status" -eq "$2" ] || fail "${BASH_SOURCE[1]##*/}:${BASH_LINENO[0]}: exit status $status, not $2"
}
# A process that has ended but that nobody has waited for yet is not alive.
not_alive() {
    local state
    kill -0 "$1" 2>/dev/null || return 0
    state=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) || return 0
    [ "$state" = Z ]
}

# nodes NAME...: starts them: ids in $node, addresses in $at, the options for a master in $others
nodes() {
    node=() at=() others=()
    for name in "$@"; do
        start_node "$name" --name "node-$name"
        node+=("$pid") at+=("127.0.0.1:$port") others+=(--node "127.0.0.1:$port")
    done
}

# children_of PID: the ids of the processes it has started
children_of() { cat /proc/"$1"/task/*/children 2>/dev/null; }

# spread NAME RUN NODES STRATEGY WORD...: trains on so many local nodes; the result goes to NAME
spread() {
    local name=$1 file=$2 nodes=$3 strategy=$4
    shift 4
    rm -rf "$name"
    run 0 train "$file" --nodes "$nodes" --strategy "$strategy" --quiet --out "$name" "$@"
    [ "$(field nodes "$name/summary.json")" = "$nodes" ] || fail "$name: not on $nodes nodes"
}

# has_checkpoint DIRECTORY, last_checkpoint DIRECTORY: what the journal says; the update of the last one
has_checkpoint() { grep -q '"event": "checkpoint"' "$1/journal.jsonl" 2>/dev/null; }
last_checkpoint() { sed -n 's/.*"event": "checkpoint".*"update": \([0-9]*\).*/\1/p' "$1/journal.jsonl" | tail -1; }

# begin DIRECTORY WORD...: dropout.yaml in the background, until it has left a checkpoint; its id is $master
begin() {
    local directory=$1
    shift
    start_master run dropout.yaml --out "$directory" --quiet "$@"
    master=$pid
    until_true 60 has_checkpoint "$directory" || fail "$directory: no checkpoint: $(cat run.err)"
}

# resumes DIRECTORY UPDATES WORD...: as the words say, to the parameters of one device after so many updates
resumes() {
    local directory=$1 updates=$2
    shift 2
    run 0 train dropout.yaml --out "$directory" --resume --quiet --set train.updates="$updates" "$@"
    rm -rf whole
    run 0 train dropout.yaml --out whole --strategy sgd --quiet --set train.updates="$updates"
    [ "$(field updates "$directory/summary.json")" = "$updates" ] || fail "$directory: not $updates updates"
    same "$directory" whole "$directory"
}

# lost WHO WHY DIRECTORY: the master says so, and how to go on
lost() {
    local others
    case $1 in
    local*) says run.err "ringtmp: $1 is lost: " ;;
    *) # by the name it was given; nobody knows it by the port that it has connected from
        grep -q "^ringtmp: node-[a-z]* ($1) is lost: " run.err || fail "$3: who is lost: $(cat run.err)"
        others=$(grep "is lost" run.err | grep -o '127\.0\.0\.1:[0-9]*' | grep -vxF "$1")
        [ -z "$others" ] || fail "$3: other addresses: $(cat run.err)"
        ;;
    esac
    says run.err "$2"
    grep " is lost: " run.err | grep -v "to go on\|To go on" | grep -qE "^ringtmp: (.*)( \(.*\))? is lost: \1: " &&
        fail "$3: named twice: $(cat run.err)"
    ! grep "is lost" run.err | grep -q "node [0-9]" || fail "$3: a number in place of a name: $(cat run.err)"
    says run.err "the last checkpoint is in $3/checkpoint"
    tail -1 run.err | grep -q -- "--out $3 --resume" || fail "$3: how to go on: $(tail -1 run.err)"
    ! tail -1 run.err | grep -qF -- "--node $1 " || fail "$3: to go on with who is lost: $(tail -1 run.err)"
    ! grep -q "learning rate" run.err || fail "$3: the learning rate is blamed: $(cat run.err)"
}

# accounted DIRECTORY BYTES: the summary has every recovery with its cause, its times, what was repeated, and at least so many bytes moved
# in all; and the sums of these
accounted() {
    python3 - "$1/summary.json" "$2" <<'END' || fail "$1: the recoveries in the summary: $(grep -A 14 recovery_events "$1/summary.json")"
import json, sys
summary = json.load(open(sys.argv[1]))
events = summary["recovery_events"]
every = events + summary["view_changes"]
good = bool(events) and summary["recovery_bytes"] >= int(sys.argv[2])
for event in events:
    good &= " is lost: " in event["cause"] and 0 < event["seconds"] < 60 and event["replayed_updates"] >= 0
    good &= event["new_update_seconds"] is None or event["new_update_seconds"] >= event["seconds"]
for total, part in ("replayed_updates", "replayed_updates"), ("recovery_bytes", "bytes"), ("recovery_seconds", "seconds"):
    good &= abs(summary[total] - sum(event[part] for event in every)) < 1e-6
sys.exit(not good)
END
}

# hash_of DIRECTORY: the hash of a run's parameters; fails the test when there is none
hash_of() {
    local hash
    hash=$(field params_sha256 "$1/summary.json" 2>/dev/null)
    [ "${#hash}" -eq 64 ] || { echo "no hash in $1"; return 1; }
    echo "$hash"
}

# same WHAT DIRECTORY OTHER: both runs have the same parameters
same() {
    local one other
    one=$(hash_of "$2") && other=$(hash_of "$3") && [ "$one" = "$other" ] || fail "$1: $one in $2, ${other:-} in $3"
}

# write_pictures COUNT: the files images and labels: pictures of 8 x 8 in four classes, the same on every machine
write_pictures() {
    python3 - "$1" <<'END'
import random, struct, sys
count, numbers = int(sys.argv[1]), random.Random(1)
labels = bytes(numbers.randrange(4) for _ in range(count))
with open("images", "wb") as images:
    images.write(struct.pack(">IIII", 0x803, count, 8, 8))
    for label in labels:
        images.write(bytes(numbers.randrange(120) + (130 if pixel % 4 == label else 0) for pixel in range(64)))
with open("labels", "wb") as file:
    file.write(struct.pack(">II", 0x801, count) + labels)
END
}

# write_model NAME LAYERS: NAME.yaml trains these layers on the pictures; batches of 20, the last of an epoch is shorter. A run
# ends when a device is lost, unless $recover is true.
write_model() {
    cat >"$1.yaml" <<END
model:
  input: [1, 8, 8]
  layers: $2
  loss: cross_entropy
data:
  train: {idx: [images, labels]}
  scale: 0.00392156862745098
train: {batch: 20, updates: 12, threads: 1}
cluster: {keep_all: true, plan: even, recover: ${recover:-false}}
END
}

# Three kinds of model, with enough layers for eight nodes and a tail.
write_models() {
    write_pictures 96
    write_model mlp '[flatten, dense: 24, relu, dense: 20, tanh, dense: 20, relu, dense: 16, gelu, dense: 12, layernorm,
    dense: 4]'
    write_model cnn '[conv2d: {filters: 4, kernel: 3, pad: 1}, relu, residual: [conv2d: {filters: 4, pad: 1}, relu,
    conv2d: {filters: 4, pad: 1}], relu, maxpool: 2, residual: [conv2d: {filters: 4, pad: 1}, layernorm], avgpool: 2,
    flatten, dense: 16, relu, dense: 4]'
    write_model dropout '[flatten, dropout: 0.1, dense: 24, relu, dropout: 0.3, dense: 20, leaky_relu, dropout: 0.2,
    dense: 16, elu, dense: 16, dropout: 0.1, relu, dense: 4]'
}
