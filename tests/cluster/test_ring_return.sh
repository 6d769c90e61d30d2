#!/usr/bin/env bash
# A device that comes back is taken into the running ring, and layers change hands when a device has become slower; with the parameters of
# one device.
recover=true
. "$(dirname "$0")/lib.sh"
write_models
updates=6000
sed -i "s/updates: 12/updates: $updates, epochs: 1000000000, checkpoint_seconds: 0.1/" dropout.yaml
run 0 train dropout.yaml --out whole --strategy sgd --quiet

# view DIRECTORY: the journal tells of a view that no loss has caused
view() { grep -q '"event": "view"' "$1/journal.jsonl" 2>/dev/null; }

# ---- a device that was killed is started again at the same address ----
nodes a b c
begin back "${others[@]}"
destroy "${node[1]}"
until_true 30 holds back/journal.jsonl '"event": "recovery"' || fail "back: no recovery: $(cat run.err)"
start_node again --name node-again --listen "${at[1]}"
node[1]=$pid
until_true 30 view back || fail "back: the device was not taken in: $(cat run.err)"
ends "$master" 0 60
says run.err "(${at[1]}) is back"
says run.err "continuing on 4 devices"
[ "$(field nodes back/summary.json)" = 4 ] || fail "back: on $(field nodes back/summary.json) nodes: $(cat run.err)"
[ "$(field updates back/summary.json)" = $updates ] || fail "back: $(field updates back/summary.json) updates"
[ "$(field recoveries back/summary.json)" = 1 ] || fail "back: $(field recoveries back/summary.json) recoveries"
same back whole back

# ---- another program at that address, or one that computes other bits, is left alone ----
begin stranger "${others[@]}"
destroy "${node[1]}"
until_true 30 holds stranger/journal.jsonl '"event": "recovery"' || fail "stranger: no recovery: $(cat run.err)"
python3 - "${at[1]}" <<'END' &
import socket, sys
host, port = sys.argv[1].split(":")
with socket.create_server((host, int(port))) as server:
    for _ in range(3):
        link, _ = server.accept()
        link.sendall(b"SSH-2.0-other\r\n" * 100)
        link.close()
END
children+=($!)
ends "$master" 0 60
[ "$(field nodes stranger/summary.json)" = 3 ] || fail "stranger: on $(field nodes stranger/summary.json) nodes"
same stranger whole stranger

# ---- layers change hands when a device becomes slower; the run goes on from the state that it has ----
write_model wide '[flatten, dense: 128, relu, dense: 128, relu, dense: 128, relu, dense: 128, relu, dense: 128, relu, dense: 4]'
start_master run wide.yaml --out moved --quiet --nodes 3 --set cluster.plan=auto --set train.updates=1000000000 \
    --set train.epochs=1000000000 --set 'cluster.slowdown=[24, 24, 24, {node: 1, from_update: 100, factor: 240}]'
master=$pid
until_true 90 view moved || fail "moved: no other view: $(cat run.err)"
kill -INT "$master"
ends "$master" 1 30
says run.err "local 1 computes "
says run.err "slower than predicted; continuing on 3 devices"
done_updates=$(last_checkpoint moved)
run 0 train wide.yaml --out moved --resume --quiet --nodes 2 --set train.epochs=1000000000 --set train.updates=$((done_updates + 5))
run 0 train wide.yaml --out still --strategy sgd --quiet --set train.epochs=1000000000 --set train.updates=$((done_updates + 5))
same moved still moved

finish
