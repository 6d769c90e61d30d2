#!/usr/bin/env bash
# `ringtmp node` as a process: what it says when it cannot start, and that it goes on serving whatever strangers send.
# labels: threads
. "$(dirname "$0")/../cli/lib.sh"
node='' master=''
trap 'for child in $node $master; do kill -KILL "$child" 2>/dev/null; done; rm -rf "$work"' EXIT

# wait_for FILE TEXT [SECONDS]: until the file holds the text
wait_for() {
    local end=$((SECONDS + ${3:-10}))
    until grep -qF -- "$2" "$1" 2>/dev/null; do
        [ $SECONDS -lt $end ] || {
            fail "no '$2' in $1 after ${3:-10} s: $(head -c 1000 "$1")"
            return 1
        }
        sleep 0.02
    done
}

# start_node WORD...: runs a node in the background: $node, $port; its output is in node.out and node.err
start_node() {
    : >node.out # not what an earlier one has said
    "$RINGTMP" node --listen 127.0.0.1:0 "$@" >node.out 2>node.err &
    node=$!
    wait_for node.out "listening at 127.0.0.1:" || exit 1
    port=$(sed -n 's/^listening at 127\.0\.0\.1:\([0-9]*\)$/\1/p' node.out)
}

# stop_node SIGNAL: it ends by the signal, in good order
stop_node() {
    local status=0
    kill "-$1" "$node"
    wait "$node" || status=$?
    node=''
    [ "$status" -eq 0 ] || fail "a node ended by SIG$1 with status $status: $(cat node.err)"
}

# ---- what cannot start ----
refuses 2 "there is no key" node --listen 0.0.0.0:0
refuses 2 "nohost.invalid" node --listen nohost.invalid:7117
refuses 2 "--listen: '7117' is not a node address; write HOST or HOST:PORT" node --listen 7117
refuses 2 "--listen: '' is not a node address" node --listen ''
# a host alone means the port that masters try: this one is none of ours, or is taken
refuses 2 "192.0.2.1:7117: is not an address of this machine" node --listen 192.0.2.1 --insecure
refuses 2 "192.0.2.1:7117: others could connect to this address, and there is no key" node --listen 192.0.2.1
# A node that was started by a master who is gone before it listens has nothing to say, and ends.
{
    sleep 0.3
    "$RINGTMP" node --listen 127.0.0.1:0 --lifeline 3
    echo "status $?" >status
} 3>&1 >out 2>err | :
[ "$(cat status)" = "status 0" ] && [ ! -s err ] || fail "without a master: $(cat status), $(cat err)"
refuses 2 "--memory must be a size such as 512M or 2G, not '12X'" node --memory 12X
refuses 2 "--memory must be a size" node --memory 99999999999G
refuses 2 "--threads must be from 1 to" node --threads 0
refuses 2 "--slowdown must be a number from 1 to 1000000, not '0.5'" node --slowdown 0.5
refuses 2 "--slowdown must be" node --slowdown fast
for rate in 10Q 9K 2T 1e300 -1 ''; do
    refuses 2 "--bandwidth must be bits per second, from 10K to 1T" node --bandwidth "$rate"
done
for time in -1ms 251ms 1; do
    refuses 2 "--latency must be a time of at most 250ms" node --latency "$time"
done
refuses 2 "--lifeline must be a descriptor that is open" node --lifeline 999
refuses 2 "did you mean '--listen'?" node --lisen 127.0.0.1:0
refuses 2 "nothere.key" node --listen 127.0.0.1:0 --key nothere.key
refuses 2 "is an unexpected argument" node 127.0.0.1:0
for command in node keygen; do
    run 0 "$command" --help
    says out "usage: "
    says out "examples:"
    [ "$command" = keygen ] || says out "port 7117"
    awk 'length > 120' out | grep . && fail "$command --help has lines of more than 120 characters"
done

# ---- keys ----
run 0 keygen cluster.key
grep -qE '^[0-9a-f]{64}$' cluster.key || fail "the key is $(cat cluster.key)"
[ "$(stat -c %a cluster.key)" = 600 ] || fail "others may read the key: $(ls -l cluster.key)"
refuses 2 "cluster.key" keygen cluster.key
refuses 2 "FILE is missing" keygen
run 0 keygen other.key
cmp -s cluster.key other.key && fail "two keys are the same"
echo "short" >bad.key
refuses 2 "bad.key" node --listen 127.0.0.1:0 --key bad.key

# ---- a life ----
start_node --name "old laptop" --memory 512M --threads 1
status=0
"$RINGTMP" node --listen "127.0.0.1:$port" >out 2>err || status=$?
[ "$status" -ne 0 ] || fail "two nodes at one port"
says err "127.0.0.1:$port"
[ "$(wc -l <err)" -eq 1 ] || fail "more than a sentence: $(cat err)"

# garbage of several kinds: it is logged, and the node goes on
printf 'GET / HTTP/1.1\r\nHost: ringtmp.example\r\n\r\n' >"/dev/tcp/127.0.0.1/$port"
wait_for node.err "is not RingTMP: its first bytes are not the greeting"
# also when it is shorter than a greeting would be, and whoever sent it waits for an answer
exec 5<>"/dev/tcp/127.0.0.1/$port"
printf 'GET / HTTP/1.1\r\n\r\n' >&5
for _ in $(seq 200); do
    [ "$(grep -c "is not RingTMP" node.err)" -ge 2 ] && break
    sleep 0.02
done
[ "$(grep -c "is not RingTMP" node.err)" -eq 2 ] || fail "a short greeting was not told of: $(cat node.err)"
exec 5>&- 5<&-
before=$(wc -l <node.err)
head -c 3000000 /dev/urandom >garbage
cat garbage >"/dev/tcp/127.0.0.1/$port" 2>/dev/null
head -c 100 /dev/zero >"/dev/tcp/127.0.0.1/$port"
printf 'RTLK\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377' >"/dev/tcp/127.0.0.1/$port"
exec 5<>"/dev/tcp/127.0.0.1/$port" # says nothing at all
for _ in $(seq 500); do
    [ "$(wc -l <node.err)" -ge $((before + 3)) ] && break
    sleep 0.02
done
[ "$(wc -l <node.err)" -ge $((before + 3)) ] || fail "garbage was not told of: $(cat node.err)"
kill -0 "$node" || fail "garbage ended the node"
wait_for node.err "did not identify itself" 12
exec 5>&- 5<&-
grep -v '^ringtmp: ' node.err && fail "a line of the log does not begin with 'ringtmp: '"
grep -qP '[^\x20-\x7e\n]' node.err && fail "the log holds bytes that a terminal obeys"

# a node that waits costs nothing
ticks() { awk '{ print $14 + $15 }' "/proc/$node/stat"; }
if [ -r "/proc/$node/stat" ]; then
    start=$(ticks)
    sleep 1
    spent=$(($(ticks) - start))
    [ "$spent" -le $(($(getconf CLK_TCK) / 50)) ] || fail "a node that waits used $spent ticks in a second"
fi
stop_node TERM
[ "$(wc -l <node.out)" -eq 1 ] || fail "the node printed more than where it listens: $(cat node.out)"

# ---- runs ----
write_run 2
run 0 train run.yaml --quiet --out alone
start_node --name board --threads 1
run 0 train run.yaml --quiet --out with --node "127.0.0.1:$port" --set cluster.keep_all=true
[ "$(field params_sha256 alone/summary.json)" = "$(field params_sha256 with/summary.json)" ] || fail "other parameters with a node"
wait_for node.err "has ended"
# a run that does not end by itself: $master
start_long_run() { # OUT
    : >master.out # not what an earlier one has said
    "$RINGTMP" train run.yaml --out "$1" --node "127.0.0.1:$port" --set cluster.keep_all=true \
        --set train.epochs=1000000 --set train.report_seconds=0 --set cluster.recover=false \
        --set cluster.wait_master=0 >master.out 2>master.err &
    master=$!
    wait_for master.out "epoch" 60
}
start_long_run long
refuses 1 "board is busy with a run of 127.0.0.1:" train run.yaml --quiet --out never --node "127.0.0.1:$port"
says node.err "was refused: board is busy"
{ kill -KILL "$master" && wait "$master"; } 2>/dev/null
master=''
wait_for node.err "ended: " 15
run 0 train run.yaml --quiet --out again --node "127.0.0.1:$port" --set cluster.keep_all=true
[ "$(field params_sha256 alone/summary.json)" = "$(field params_sha256 again/summary.json)" ] || fail "other parameters after a lost master"
# a node that is told to end in the middle of a run does so, and the master says which it was
start_long_run longer
stop_node TERM
status=0
wait "$master" || status=$?
master=''
[ "$status" -eq 1 ] || fail "a master that lost its node: status $status"
says master.err "board"
start_node --name board --threads 1
refuses 2 "--node needs HOST or HOST:PORT, not '7117'" train run.yaml --quiet --out never --node 7117
run 0 train --help
says out "HOST alone: port 7117"
refuses 2 "named twice" train run.yaml --quiet --out never --node "127.0.0.1:$port" --node "127.0.0.1:$port"
stop_node TERM

# ---- other ways to end ----
set -m # jobs are not made to ignore SIGINT
start_node --key cluster.key
printf 'RTLK garbage' >"/dev/tcp/127.0.0.1/$port"
stop_node INT
set +m

# --insecure is said loudly
"$RINGTMP" node --listen 0.0.0.0:0 --insecure >node.out 2>node.err &
node=$!
wait_for node.out "listening at"
wait_for node.err "WARNING: --insecure"
stop_node TERM
finish
