#!/usr/bin/env bash
# Nodes that connect to the master: at the start of a run and while it is going, in a ring and in an exchange; with the parameters of
# one device.
recover=true
. "$(dirname "$0")/lib.sh"
write_models

run 0 train dropout.yaml --out whole --strategy sgd --quiet
door=$(free_port)

# ---- one node, which is there before the master; it serves the next run too ----
join a "$door"
a=$pid
wait_for a.err "cannot join 127.0.0.1:$door: "
for name in first second; do
    run 0 train dropout.yaml --out $name --quiet --listen "127.0.0.1:$door"
    [ "$(field nodes $name/summary.json)" = 2 ] || fail "$name: not on 2 nodes: $(cat err)"
    same $name whole $name
done

# ---- two nodes that nobody can connect to are no neighbours: the node that can be lies between them ----
start_node middle --name node-middle
middle=127.0.0.1:$port
join b "$door"
together=(--quiet --listen "127.0.0.1:$door" --wait-nodes 2 --set cluster.plan=auto)
for name in ring allreduce-ring allreduce-tree ps-sync; do
    run 0 train dropout.yaml --out $name --strategy $name "${together[@]}" --node "$middle"
    [ "$(field nodes $name/summary.json)" = 4 ] || fail "$name: not on 4 nodes: $(cat err)"
done
same ring whole ring
run 0 train dropout.yaml --out layers --listen "127.0.0.1:$door" --wait-nodes 2 --node "$middle"
grep -A9 "layers" out | grep -oE "node-[a-z]*" | tr '\n' ' ' | grep -qE "node-[ab] node-middle node-[ab] " || fail "the order: $(cat out)"

# Where there is no such node, one of the two is left out of a ring; a server on the master is all that ps-sync needs.
run 0 train dropout.yaml --out left "${together[@]:1}"
[ "$(field nodes left/summary.json)" = 2 ] || fail "left: on $(field nodes left/summary.json) nodes"
grep -q "node-[ab] (127.0.0.1:[0-9]*) has no place in the ring: it cannot be connected to" err || fail "who is left out: $(cat err)"
same left whole left
run 0 train dropout.yaml --out star --strategy ps-sync "${together[@]}"
[ "$(field nodes star/summary.json)" = 3 ] || fail "star: on $(field nodes star/summary.json) nodes"

# ---- with a port of its own each can be anybody's neighbour ----
kill -INT "$a" "$pid"
ends "$a" 0 5
ends "$pid" 0 5
for name in c d; do
    join $name "$door" --listen 127.0.0.1:0
done
run 0 train dropout.yaml --out listening "${together[@]}"
[ "$(field nodes listening/summary.json)" = 3 ] || fail "listening: not on 3 nodes: $(cat err)"
same listening whole listening

# ---- another key, and strangers at the port: neither takes part, nor does it change anything ----
run 0 keygen our.key
run 0 keygen other.key
door=$(free_port)
join stranger "$door" --key other.key
start_master keyed dropout.yaml --out keyed --listen "127.0.0.1:$door" --key our.key
master=$pid
wait_for keyed.err "waiting for 1 node to join at 127.0.0.1:$door"
wait_for stranger.err "cannot join 127.0.0.1:$door: "
python3 - "$door" <<'END' || fail "the strangers: $?"
import os, socket, sys
links = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(60)]
for i, link in enumerate(links):
    try:
        link.sendall([b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(2000), b"\x16\x03\x01"][i % 4])
    except OSError:
        pass
END
join honest "$door" --key our.key
ends "$master" 0 30
[ "$(field nodes keyed/summary.json)" = 2 ] || fail "keyed: not on 2 nodes: $(cat keyed.err)"
same keyed whole keyed

# ---- a port that all could reach needs a key; a run that waits can be interrupted ----
run 2 train dropout.yaml --out none --quiet --listen 0.0.0.0:0
says err "and there is no key"
start_master waits dropout.yaml --out none --listen 127.0.0.1:0
wait_for waits.err "waiting for 1 node to join"
kill -INT "$pid"
ends "$pid" 1 5

finish
