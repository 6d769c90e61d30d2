#!/usr/bin/env bash
# One device has one name, in plans, tables, summaries and journals; its address is told once. Nodes that are named on the
# command line are the ones that are meant, whatever the run file says. Names are plain text.
# labels: once
. "$(dirname "$0")/lib.sh"
write_pictures 96
write_model mlp '[flatten, dense: 24, relu, dense: 20, tanh, dense: 4]'
sed -i 's/^cluster: .*/cluster: {nodes: 4}/' mlp.yaml
grep -q 'cluster:.*nodes: 4' mlp.yaml || fail "the run file says nothing of four processes"
start_node first --name kitchen --data .
first=127.0.0.1:$port
start_node second --name 'grüne Küche' --data .
second=127.0.0.1:$port
both=(--node "$first" --node "$second")
all=(--set cluster.keep_all=true --set cluster.plan=even) # of a ring, however fast it is

# told FILE ADDRESS NAME: the address once, and the name beside it
told() {
    [ "$(grep -cF "$2" "$1")" -eq 1 ] || fail "$2 is told $(grep -cF "$2" "$1") times: $(cat "$1")"
    says "$1" "$3 is $2"
}

run 0 plan mlp.yaml "${both[@]}" "${all[@]}"
told out "$first" kitchen
told out "$second" 'grüne Küche'
grep -q '^ *1  kitchen ' out && grep -q '^ *2  grüne Küche ' out || fail "the plan has other names: $(cat out)"
! grep -q ' local ' out || fail "local processes take part too: $(cat out)"

for strategy in ring allreduce-rd ps-async; do
    [ $strategy = ring ] || all=()
    run 0 train mlp.yaml "${both[@]}" "${all[@]}" --strategy $strategy --out $strategy --set train.report_seconds=0 --set train.updates=40
    told out "$first" kitchen
    told out "$second" 'grüne Küche'
    python3 - $strategy "$first" "$second" <<'END' || fail "$strategy: other names in the files"
import json, sys
out, first, second = sys.argv[1:]
summary = json.load(open(f"{out}/summary.json"))
assert summary["nodes"] == 3, summary["nodes"]
assert [(node["name"], node["address"]) for node in summary["per_node"]] == [
    ("master", None), ("kitchen", first), ("grüne Küche", second)], summary["per_node"]
events = [json.loads(line) for line in open(f"{out}/journal.jsonl")]
assert {(event["node"], event["name"]) for event in events if event["event"] == "node"} == {
    (0, "master"), (1, "kitchen"), (2, "grüne Küche")}
END
    # the table at the end: whole characters
    grep -q '^ *2  grüne Küche ' out || fail "$strategy: the table has another name: $(cat out)"
done

all=(--set cluster.keep_all=true)
# Two of one name are told apart by their addresses; nobody is called as the master is.
start_node third --name kitchen
third=127.0.0.1:$port
run 0 plan mlp.yaml --node "$first" --node "$third" "${all[@]}"
grep -q "^ *1  $first " out && grep -q "^ *2  $third " out || fail "two of one name: $(cat out)"
start_node fourth --name master
run 0 plan mlp.yaml --node "127.0.0.1:$port" "${all[@]}"
grep -q "^ *1  127.0.0.1:$port " out || fail "a node that is called master: $(cat out)"
# A name may be as long as is said, and is whole in the files.
long=$(printf 'ü%.0s' $(seq 40))
start_node fifth --name "$long" --data .
run 0 train mlp.yaml --node "127.0.0.1:$port" --strategy ps-sync --quiet --out long --set train.updates=1
grep -q "\"name\": \"$long\"" long/summary.json || fail "a long name: $(grep '"name"' long/summary.json)"

# ---- no control characters ----
for name in $'two\nlines' $'\e[31mred' $'\x7f' $'\xc2\x9b1m' $'\xff'; do
    refuses 2 "--name must be plain text" node --listen 127.0.0.1:0 --name "$name"
done
for name in 'two\nlines' '\e[31mred' '\x7f' '\x9b1m'; do # as YAML writes them
    refuses 2 "name must be plain text" train mlp.yaml --quiet --set "name=\"$name\""
done
refuses 2 "--name must be plain text" node --listen 127.0.0.1:0 --name ''
refuses 2 "--name must have at most 80 bytes" node --listen 127.0.0.1:0 --name "$(printf 'n%.0s' $(seq 81))"
sed 's/^model/name: "a\\eb"\n&/' mlp.yaml >odd.yaml
refuses 2 "odd.yaml:1: name must be plain text" train odd.yaml --quiet
cp mlp.yaml $'odd\nname.yaml'
run 0 train $'odd\nname.yaml' --nodes 1 --strategy sgd --quiet --set train.updates=1
[ -e runs/odd_name-* ] || fail "no directory for a file of an odd name: $(ls runs)"
finish
