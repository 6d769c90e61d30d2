#!/usr/bin/env bash
# Nodes that connect to the master while its run is going, are killed and come again; a master that is killed and started again; with
# the parameters of one device.
recover=true
. "$(dirname "$0")/lib.sh"
write_models
endless=1000000000
sed -i "s/updates: 12/updates: $endless, epochs: $endless, checkpoint_seconds: 0.1/" dropout.yaml

views() { grep -c '"event": "view"' "$1/journal.jsonl" 2>/dev/null; }
has_views() { [ "$(views "$1")" -ge "$2" ]; }
has_recovered() { holds "$1/journal.jsonl" '"event": "recovery"'; }

# joined DIRECTORY VIEWS: so many times others have been taken in
joined() { until_true 30 has_views "$1" "$2" || fail "$1: nobody was taken in: $(cat run.err)"; }

# checks DIRECTORY NODES: the run is ended, and resumed for a moment on one device
checks() {
    local nodes
    kill -INT "$master"
    ends "$master" 1 30
    nodes=$(grep '"event": "view"' "$1/journal.jsonl" | tail -1 | sed 's/.*"nodes": \([0-9]*\).*/\1/')
    [ "$nodes" = "$2" ] || fail "$1: on $nodes nodes: $(cat run.err)"
    resumes "$1" $(($(last_checkpoint "$1") + 5)) --nodes 2
}

# ---- into a ring: one that nobody can connect to, killed and started again; and one with a port ----
nodes a
door=$(free_port)
begin ring --listen "127.0.0.1:$door" "${others[@]}"
join b "$door"
b=$pid
joined ring 1
destroy "$b"
until_true 30 has_recovered ring || fail "ring: no recovery: $(cat run.err)"
join b "$door"
joined ring 2
join c "$door" --listen 127.0.0.1:0
joined ring 3
checks ring 4
says run.err "node-b (127.0.0.1:"
says run.err "has joined; continuing on 4 devices"

# ---- into a run of the master alone ----
begin alone --listen "127.0.0.1:$door" --wait-nodes 0 --strategy ring
joined alone 1
checks alone 2

# ---- the master is killed and started again: the nodes that wait for it connect to it again ----
begin killed --listen "127.0.0.1:$door" --wait-nodes 1
destroy "$master"
start_master run dropout.yaml --out killed --quiet --listen "127.0.0.1:$door" --wait-nodes 1 --resume
master=$pid
resumed() { [ "$(grep -c '"event": "checkpoint"' killed/journal.jsonl)" -gt "$1" ]; }
until_true 30 resumed "$(grep -c '"event": "checkpoint"' killed/journal.jsonl)" || fail "killed: not resumed: $(cat run.err)"
joined killed 1
checks killed 3

# ---- into an exchange ----
sed -i 's/plan: even, //; s/updates: /shards: 4, updates: /' dropout.yaml
begin exchange --listen "127.0.0.1:$door" --wait-nodes 0 --strategy ps-sync
joined exchange 1
joined exchange 2
kill -INT "$master"
ends "$master" 1 30
grep -q "node-[bc] (127.0.0.1:[0-9]*) has joined; continuing on 3 devices" run.err || fail "exchange: $(cat run.err)"

finish
