#!/usr/bin/env bash
# The master is killed: its nodes wait for it, and for no other run. Started again with --resume it gets them, and ends with
# the parameters of one device.
recover=true
. "$(dirname "$0")/lib.sh"
write_models
updates=1500
sed -i "s/updates: 12/updates: $updates, shards: 4, epochs: 1000000000, checkpoint_seconds: 0.1/" dropout.yaml
run 0 train dropout.yaml --out whole --strategy sgd --quiet
nodes a b c

# kill_master: the process $master, without a word to anybody
kill_master() {
    { kill -KILL "$master" && wait "$master"; } 2>/dev/null
}
# on_four DIRECTORY: the run ended well, on four devices, with the parameters of one device
on_four() {
    [ "$(field nodes "$1/summary.json")" = 4 ] || fail "$1: on $(field nodes "$1/summary.json") nodes, not 4"
    same "$1" whole "$1"
    [ ! -e "$1/checkpoint/token" ] || fail "$1: the token is still there"
}
# all_wait: the three nodes say that they wait
all_wait() { [ "$(grep -c "its master is waited for, for 60 s" a.err b.err c.err | grep -c ":$1\$")" -eq 3 ]; }

# ---- killed, and started again ----
times=0
for strategy in ring allreduce-rd; do
    times=$((times + 1))
    plan=even
    [ $strategy = ring ] || plan=auto
    with=(--strategy $strategy --set cluster.plan=$plan)
    begin $strategy "${others[@]}" "${with[@]}"
    [ "$(stat -c %a $strategy/checkpoint/token)" = 600 ] || fail "$strategy: others can read the token"
    kill_master
    until_true 20 all_wait $times || fail "$strategy: not all nodes wait: $(tail -n 3 a.err b.err c.err)"
    run 1 train dropout.yaml "${others[@]}" --out other --quiet
    says err "is busy: it waits for the master of a run of 127.0.0.1:"
    cp -r $strategy copied # what was learnt, without the token
    rm copied/checkpoint/token
    run 1 train dropout.yaml "${others[@]}" --out copied --resume --quiet
    says err "is busy: it waits for the master"
    rm -rf copied
    run 0 train dropout.yaml "${others[@]}" "${with[@]}" --out $strategy --resume --quiet
    on_four $strategy
    says a.err "has started it again"
done

# ---- started again at once, more than once: nodes that have not missed their master are called until they have ----
begin hasty "${others[@]}"
for attempt in 1 2 3; do
    kill_master
    start_master run dropout.yaml "${others[@]}" --out hasty --resume --quiet
    master=$pid
    [ $attempt = 3 ] || sleep "0.$((RANDOM % 5))"
done
ends "$master" 0 60
on_four hasty

# ---- before the first checkpoint: from the beginning, with the same token ----
start_master run dropout.yaml "${others[@]}" --out early --quiet --set train.checkpoint_seconds=0
master=$pid
until_true 60 holds early/journal.jsonl '"event": "start"' || fail "early: does not start: $(cat run.err)"
kill_master
run 0 train dropout.yaml "${others[@]}" --out early --resume --quiet
on_four early

# ---- nodes wait for so long and no longer; or not at all; and never for a run that was ended ----
begin brief "${others[@]}" --set cluster.wait_master=1
kill_master
wait_for a.err "its master is waited for, for 1 s"
run 1 train dropout.yaml "${others[@]}" --out next --quiet
says err "waits for the master of a run of 127.0.0.1:"
free() { rm -rf next && "$RINGTMP" train dropout.yaml "${others[@]}" --out next --quiet 2>err; }
until_true 20 free || fail "nodes are not free after 1 s: $(cat err)"
on_four next
begin never "${others[@]}" --set cluster.wait_master=0
kill_master
until_true 20 free || fail "nodes are not free: $(cat err)"
on_four next
begin stopped "${others[@]}" --set train.updates=1000000000
kill -INT "$master"
ends "$master" 1 20
run 0 train dropout.yaml "${others[@]}" --out after --quiet
on_four after
finish
