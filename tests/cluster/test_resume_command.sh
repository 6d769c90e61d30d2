#!/usr/bin/env bash
# The command that a run prints at its end, to go on with, names the devices that are there, and none that was lost meanwhile.
recover=true
. "$(dirname "$0")/lib.sh"
write_models
sed -i "s/updates: 12/updates: 1000000000, epochs: 1000000000, checkpoint_seconds: 0.1/" dropout.yaml

# recoveries COUNT DIRECTORY: the journal tells of so many
recoveries() { [ "$(grep -c '"event": "recovery"' "$2/journal.jsonl")" -ge "$1" ]; }
# stops DIRECTORY: Ctrl-C; the command is left in $command
stops() {
    kill -INT "$master"
    ends "$master" 1 30
    command=$(tail -1 run.err)
    case $command in *"--out $1 --resume") ;; *) fail "$1: how to go on: $(cat run.err)" ;; esac
}
# names ADDRESS..., misses ADDRESS...: of $command
names() {
    local address
    for address in "$@"; do
        grep -qF -- "--node $address " <<<"$command" || fail "$address is not named: $command"
    done
}
misses() {
    local address
    for address in "$@"; do
        ! grep -qF -- "$address" <<<"$command" || fail "$address is named: $command"
    done
}
# continues NODES UPDATES DIRECTORY: as $command says, that many updates more
continues() {
    local more=$(($(last_checkpoint "$3") + $2))
    run 0 ${command#*ringtmp } --quiet --set train.updates=$more # no word of it is quoted
    [ "$(field nodes "$3/summary.json")" = "$1" ] || fail "$3: on $(field nodes "$3/summary.json") nodes"
}

# ---- two of four are lost, one after the other; the last that is lost comes back ----
nodes a b c d
begin options "${others[@]}"
destroy "${node[0]}"
until_true 30 recoveries 1 options || fail "options: no recovery: $(cat run.err)"
destroy "${node[2]}"
until_true 30 recoveries 2 options || fail "options: no second recovery: $(cat run.err)"
stops options
names "${at[1]}" "${at[3]}"
misses "${at[0]}" "${at[2]}"
continues 3 5 options
start_node again --name node-again --listen "${at[2]}"
node[2]=$pid

# ---- the run file has the list: what is printed stands in its place; one that is back is named again ----
sed "s/^cluster: {/cluster: {node: ['${at[1]}', '${at[2]}', '${at[3]}'], /" dropout.yaml >listed.yaml
start_master run listed.yaml --out listed --quiet
master=$pid
until_true 60 has_checkpoint listed || fail "listed: no checkpoint: $(cat run.err)"
destroy "${node[1]}"
until_true 30 recoveries 1 listed || fail "listed: no recovery: $(cat run.err)"
destroy "${node[3]}"
until_true 30 recoveries 2 listed || fail "listed: no second recovery: $(cat run.err)"
start_node back --name node-back --listen "${at[3]}"
node[3]=$pid
until_true 30 holds listed/journal.jsonl '"event": "view"' || fail "listed: no device is back: $(cat run.err)"
stops listed
names "${at[2]}" "${at[3]}"
misses "${at[1]}"
continues 3 5 listed

# ---- with parameter servers: all of them are lost ----
sed -i 's/keep_all: true, plan: even, //' dropout.yaml
begin servers "${others[@]:4}" --strategy ps-sync
destroy "${node[2]}"
until_true 30 recoveries 1 servers || fail "servers: no recovery: $(cat run.err)"
destroy "${node[3]}"
until_true 30 recoveries 2 servers || fail "servers: no second recovery: $(cat run.err)"
stops servers
misses "${at[2]}" "${at[3]}"
case $command in *" --nodes 1 "*) ;; *) fail "servers: not alone: $command" ;; esac
continues 1 5 servers
finish
