#!/usr/bin/env bash
# What goes wrong in an exchange is said in a sentence that names the node and the reason, within a bounded time, with exit
# status 1; a synchronous run goes on from its checkpoint on any number of nodes, and by any of the ways that continue the
# tree of train.shards, to the parameters of one device; the nodes go on serving others.
. "$(dirname "$0")/lib.sh"
write_models
sed -i 's/^cluster:.*/cluster: {recover: false}/' ./*.yaml # these are the runs that are to end
sed -i 's/updates: 12/epochs: 1000000000, shards: 4, optimizer: adam, checkpoint_seconds: 0.02/' dropout.yaml

# ---- a node dies: a worker, a server, one that others talk to directly ----
place=0
for strategy in allreduce-rd ps-sync allreduce-hd; do
    nodes a b c
    begin killed-$place --strategy $strategy "${others[@]}"
    destroy "${node[place]}"
    ends "$master" 1 10
    lost "${at[place]}" "is lost: " killed-$place
    resumes killed-$place $(($(last_checkpoint killed-$place) + 60)) --strategy $strategy --nodes 2
    # the others are told, and are there for the next
    survivors=()
    for i in 0 1 2; do [ $i -eq $place ] || survivors+=(--node "${at[i]}"); done
    run 0 train mlp.yaml --quiet --strategy allreduce-ring --out next-$place "${survivors[@]}" --nodes 2
    [ "$(field nodes next-$place/summary.json)" = 4 ] || fail "the run after the death of node $place is not on 4 nodes"
    for i in 0 1 2; do [ $i -eq $place ] || destroy "${node[i]}"; done
    place=$((place + 1))
done
# Where every gradient counts for itself as well; its result depends on timing, so it is only looked at whether it goes on.
nodes a b
begin killed-async --strategy ps-shard,k=2,base=async "${others[@]}"
destroy "${node[0]}"
ends "$master" 1 10
lost "${at[0]}" "is lost: " killed-async
run 0 train dropout.yaml --out killed-async --resume --quiet --strategy ps-shard,k=2,base=async --nodes 2 \
    --set train.updates=$(($(last_checkpoint killed-async) + 20))
destroy "${node[1]}"
# In groups at their own pace: a member, and the proxy of a group.
for place in 2 1; do
    nodes a b c
    begin killed-group-$place --strategy ps-hier,group=2,base=async "${others[@]}"
    destroy "${node[place]}"
    ends "$master" 1 10
    lost "${at[place]}" "is lost: " killed-group-$place
    run 0 train dropout.yaml --out killed-group-$place --resume --quiet --strategy ps-hier,group=2,base=async --nodes 3 \
        --set train.updates=$(($(last_checkpoint killed-group-$place) + 20))
    for i in 0 1 2; do [ $i -eq $place ] || destroy "${node[i]}"; done
done
refuses 2 "it was ps-hier (asynchronous) and is now ps-hier (synchronous); synchronous strategies may be exchanged" \
    train dropout.yaml --out killed-group-1 --resume --quiet --nodes 2 --strategy ps-hier
# One group of all goes on to the parameters of one device.
nodes a b c
begin killed-one --strategy ps-hier,group=4,base=async "${others[@]}"
destroy "${node[1]}"
ends "$master" 1 10
lost "${at[1]}" "is lost: " killed-one
resumes killed-one $(($(last_checkpoint killed-one) + 60)) --strategy ps-hier,group=4,base=async --nodes 2
destroy "${node[0]}" "${node[2]}"
# An exact run does not go on as one that depends on timing.
refuses 2 "cluster.strategy has changed: it was allreduce-rd (synchronous) and is now ps-async (asynchronous); synchronous" \
    train dropout.yaml --out killed-0 --resume --quiet --nodes 2 --strategy ps-async
refuses 2 "it was ps-shard (asynchronous) and is now ps-sync (synchronous); synchronous strategies may be exchanged" \
    train dropout.yaml --out killed-async --resume --quiet --nodes 2 --strategy ps-sync
refuses 2 "it was ps-shard (asynchronous) and is now ps-async (asynchronous); only strategies that make the same" \
    train dropout.yaml --out killed-async --resume --quiet --nodes 2 --strategy ps-async
# Epochs that were cut short have left batches out: nobody goes on as if they had not.
rm -rf cut
run 0 train mlp.yaml --out cut --quiet --nodes 2 --strategy ps-cut,cut=0.5
for strategy in sgd ps-sync ps-cut,cut=0.25; do
    refuses 2 "cluster.strategy has changed: it was ps-cut (synchronous, epochs of 3 updates) and is now ${strategy%%,*}" \
        train mlp.yaml --out cut --resume --quiet --strategy $strategy --set train.updates=20
done
run 0 train mlp.yaml --out cut --resume --quiet --nodes 3 --strategy ps-cut,cut=0.5 --set train.updates=20

# ---- a node is told to end, in good order: for the others it is lost ----
nodes a b
begin ended --strategy ps-tree "${others[@]}"
kill -TERM "${node[0]}"
ends "$master" 1 10
lost "${at[0]}" "is lost: the node is stopped" ended
ends "${node[0]}" 0 10
destroy "${node[1]}"

# ---- a local one dies ----
begin local --strategy allreduce-ring --nodes 3
locals=($(children_of "$master"))
[ ${#locals[@]} -eq 2 ] || fail "the master has started '${locals[*]}', not two nodes"
children+=("${locals[@]}")
kill -KILL "${locals[1]}"
ends "$master" 1 10
lost "local 2" "; it was ended by signal 9 (Killed)" local
until_true 10 not_alive "${locals[0]}" || fail "the other local node is still there"

# ---- a node is stopped: it is named, not who waits for it; also with a timeout that is shorter than a link's silence ----
for timeout in 2 60; do
    for strategy in allreduce-ring allreduce-hd; do
        begin silent-$strategy-$timeout --strategy $strategy --nodes 5 --set cluster.timeout=$timeout
        locals=($(children_of "$master"))
        children+=("${locals[@]}")
        kill -STOP "${locals[2]}"
        ends "$master" 1 20
        lost "local 3" "is lost: " silent-$strategy-$timeout
        until_true 10 not_alive "${locals[2]}" || fail "the node that was stopped is still there"
    done
done

# ---- one runs but gets nothing done: so do all others, but it is the one ----
rm -rf slow
sed 's/checkpoint_seconds: 0.02/updates: 3/' dropout.yaml >slow.yaml
run 1 train slow.yaml --out slow --quiet --nodes 5 --strategy allreduce-ring --set cluster.timeout=1 \
    --set 'cluster.slowdown=[1, 1, 1e6, 1, 1]'
says err "local 2 is lost: "
says err "runs, but has delivered nothing for"

# ---- signals that ask: the run stops with a checkpoint, and goes on with other nodes ----
for signal in INT TERM; do
    case $signal in INT) strategy=allreduce-hd then=ps-sync ;; *) strategy=ps-sync then=allreduce-rd ;; esac
    begin stopped-$signal --strategy $strategy --nodes 4
    kill "-$signal" "$master" || fail "SIG$signal: the run was over before"
    ends "$master" 1 60
    says run.err "stopped-$signal/checkpoint"
    resumes stopped-$signal $(($(last_checkpoint stopped-$signal) + 60)) --strategy $then --nodes 2
done
begin stopped-async --strategy ps-async --nodes 3
kill -INT "$master" || fail "ps-async: the run was over before"
ends "$master" 1 60
run 0 train dropout.yaml --out stopped-async --resume --quiet --strategy ps-async --nodes 2 \
    --set train.updates=$(($(last_checkpoint stopped-async) + 20))

# ---- what goes out to the nodes of a run that is resumed: all parameters, and of the optimizer's state what is theirs ----
sed 's/checkpoint_seconds: 0.02/updates: 12/' dropout.yaml >short.yaml
for strategy in ps-peer ps-shard,k=4 allreduce-rd; do
    rm -rf parts
    run 0 train short.yaml --out parts --quiet --strategy $strategy --nodes 4 --set train.updates=20
    run 0 train short.yaml --out parts --resume --quiet --strategy $strategy --nodes 4 --set train.updates=21
    python3 - parts/summary.json $strategy <<'END' || fail "$strategy: what is sent when a run is resumed"
import json, sys
summary, strategy = json.load(open(sys.argv[1])), sys.argv[2]
params = summary["params"]
sent = summary["per_node"][0]["sent"]["others"]["bulk"] / 4 / params
state = 2 * (3 if "allreduce" in strategy else 0.75)  # Adam has two numbers for each parameter
assert 3 + state - 0.1 < sent < 3 + state + 0.6, "%g times the model" % sent
END
done

# ---- the master dies: its own nodes end, those that run wait for the next ----
nodes a
begin orphans --strategy ps-sync "${others[@]}" --nodes 2 --set cluster.wait_master=0
locals=($(children_of "$master"))
children+=("${locals[@]}")
destroy "$master"
until_true 10 not_alive "${locals[0]}" || fail "a local node outlives its master"
wait_for a.err "ended: " 20
run 0 train mlp.yaml --quiet --strategy ps-sync --out after-orphans "${others[@]}"
destroy "${node[0]}"

# ---- numbers that are not finite: the update is named, and nobody is lost ----
for strategy in allreduce-ring ps-sync ps-async; do
    rm -rf burst
    run 1 train mlp.yaml --nodes 3 --strategy $strategy --quiet --out burst --set train.optimizer.sgd.lr=1e30
    says err "not finite"
    says err "update"
    ! grep -q "is lost" err || fail "$strategy: somebody is lost: $(cat err)"
done

# ---- memory: a node refuses more than it offers ----
start_node small --memory 1M
write_model wide '[flatten, dense: 500, relu, dense: 500, relu, dense: 4]'
sed -i '/^cluster:/d' wide.yaml
rm -rf refused
refuses 2 "(127.0.0.1:$port): to be a worker of this run needs" train wide.yaml --strategy ps-sync --node "127.0.0.1:$port" --quiet --out refused
refuses 2 "the master: to be a server+worker of this run needs" train wide.yaml --strategy ps-async --nodes 2 --set cluster.memory=13 --quiet --out refused
destroy "$pid"
# ---- stopped while many local nodes start: none of them has anything to say ----
for seconds in 0.05 0.15 0.3; do
    start_master many dropout.yaml --nodes 20 --strategy ps-async --out many-$seconds
    sleep $seconds
    kill -INT -- "-$pid"
    until_true 20 not_alive "$pid" || fail "stopped after $seconds s: still there"
    wait "$pid" 2>/dev/null
    ! grep -E "lifeline|local node" many.err || fail "stopped after $seconds s: that was said"
done

finish
