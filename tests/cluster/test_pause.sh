#!/usr/bin/env bash
# A cluster that is stopped as a whole, by Ctrl-Z or with the machine it runs on, for longer than any timeout and
# than the silence after which a link is given up, goes on where it was, to the same parameters.
# labels: once
. "$(dirname "$0")/lib.sh"
write_pictures 96
# Wide enough that large bodies are under way at any time; slow enough that there is time to stop it.
write_model wide '[flatten, dense: 512, relu, dense: 512, relu, dense: 512, relu, dense: 4]'
sed -i '/^cluster:/d; s/updates: 12/epochs: 80, shards: 4/' wide.yaml
node=() at=()
is_training() { grep -q '"event": "first_step"' "$1/journal.jsonl" 2>/dev/null; }

# pauses NAME STRATEGY SECONDS WORD...: such a run is stopped for so long, and ends as the unbroken one
pauses() {
    local name=$1 strategy=$2 seconds=$3 all
    shift 3
    start_master "$name" wide.yaml --out "$name" --strategy "$strategy" --set cluster.timeout=4 \
        --set train.report_seconds=0 --quiet "$@"
    until_true 20 is_training "$name" || {
        fail "$name: does not begin: $(cat "$name.err")"
        return
    }
    all=("$pid" "${node[@]}" $(children_of "$pid"))
    # The master last, when it has taken what was on its way and waits.
    kill -STOP "${all[@]:1}"
    sleep 0.7
    kill -STOP "${all[0]}"
    sleep "$seconds"
    [ ! -e "$name/summary.json" ] || fail "$name: was over before it was stopped"
    # The master wakes first, as machines do that wake one after another: nothing has come, and nothing comes yet.
    kill -CONT "${all[0]}"
    sleep 1.3
    kill -CONT "${all[@]:1}"
    ends "$pid" 0 60
    [ ! -s "$name.err" ] || fail "$name: $(cat "$name.err")"
    same "$name" whole "$name"
}

run 0 train wide.yaml --out whole --strategy sgd --quiet
pauses everybody allreduce-rd 7 --nodes 4
pauses hybrid hybrid,rings=2 7 --nodes 4

# Nodes that the master has not started.
for name in a b; do
    start_node "$name"
    node+=("$pid") at+=(--node "127.0.0.1:$port")
done
pauses apart ring 7 --set cluster.keep_all=true "${at[@]}"
finish
