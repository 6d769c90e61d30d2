#!/usr/bin/env bash
# docs/outputs.md names whatever runs write: every field of the summary, every event of the journal with its fields, every
# file, and the metadata of model and checkpoint, of runs on one device, in rings and with servers, also where a device is lost and
# comes back.
page=$(cd "$(dirname "$0")/../../docs" && pwd)/outputs.md
. "$(dirname "$0")/../cluster/lib.sh"
command -v python3 >/dev/null || skip "there is no python3 to read JSON with"
write_run 2
checks=(--quiet --set data.hold_out=0.2 --set train.report_seconds=0 --set train.checkpoint_seconds=0.001)
two=(--nodes 2 --set cluster.keep_all=true)
run 0 train run.yaml --out alone "${checks[@]}"
run 0 train run.yaml --out alone "${checks[@]}" --resume --set train.epochs=3 # so there are two checkpoints in any case
echo torn >alone/checkpoint/state.safetensors # the one before it is used, and a notice says so
run 0 train run.yaml --out alone "${checks[@]}" --resume --set train.epochs=4
[ -e alone/checkpoint/damaged.safetensors ] || fail "a torn checkpoint was not moved aside"
run 0 train run.yaml --out ring "${checks[@]}" "${two[@]}" --set cluster.master_tail=1
run 0 train run.yaml --out flow "${checks[@]}" "${two[@]}" --strategy ring-flow
run 0 train run.yaml --out rings "${checks[@]}" --nodes 4 --strategy hybrid
run 0 train run.yaml --out served "${checks[@]}" "${two[@]}" --strategy as:asysg
run 0 train run.yaml --out reduced "${checks[@]}" "${two[@]}" --strategy allreduce-rd
make_table 60 6 3 | tail -n +2 >rows.csv
sed 's/split: 0.25/scale: 0.1/; s/standardize: true//; s/csv: {file: table.csv, label: label}/stream: {from: rows.csv, format: csv}/; s/epochs: 2/updates: 3/' \
    run.yaml >stream.yaml
run 0 train stream.yaml --out stream --quiet "${two[@]}" --strategy ring-stream
# a device that is lost, and one that comes back
nodes a
start_master lost run.yaml --out lost "${checks[@]}" "${others[@]}" --nodes 2 --set cluster.keep_all=true --set train.epochs=100000
master_pid=$pid
until_true 60 holds lost/journal.jsonl '"event": "first_step"' || fail "lost: does not start: $(cat lost.err)"
destroy "${node[0]}"
until_true 30 holds lost/journal.jsonl '"event": "new_update"' || fail "lost: no recovery: $(cat lost.err)"
start_node a --name node-a --listen "${at[0]}"
until_true 30 holds lost/journal.jsonl '"event": "view"' || fail "lost: the device was not taken in: $(cat lost.err)"
kill -INT "$master_pid"
ends "$master_pid" 1 30
run 0 train run.yaml --out lost "${checks[@]}" --resume --set train.updates=$(($(last_checkpoint lost) + 20)) --set train.epochs=100000
# what a run that fails leaves, and what it told
run 1 train run.yaml --out broken "${checks[@]}" --set train.optimizer='{sgd: {lr: 1e30}}'

python3 - "$page" alone ring flow rings served reduced stream lost broken <<'END' || fail "docs/outputs.md does not say it all"
import json, pathlib, re, struct, sys

page = pathlib.Path(sys.argv[1]).read_text()
runs = [pathlib.Path(name) for name in sys.argv[2:]]
sections = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", page, flags=re.M)}
wrong = []

def named(where, text, name, what):
    if f"`{name}`" not in text:
        wrong.append(f"{where}: no `{name}`, which {what} has")

def walk(value, found):  # all keys, however deep
    if isinstance(value, dict):
        for key, inner in value.items():
            found.add(key)
            walk(inner, found)
    elif isinstance(value, list):
        for inner in value:
            walk(inner, found)

def metadata(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]

# One row of a table: | `start` | ... |
events = {name: row for row in re.findall(r"^\|.*\|$", sections["journal.jsonl"], flags=re.M)
          for name in re.findall(r"^\| `(\w+)` \|", row)}
seen, kinds, roles = set(), set(), set()
for run in runs:
    summary = run / "summary.json"
    if run.name != "broken":
        content = json.loads(summary.read_text())
        keys = set()
        walk(content, keys)
        roles |= {node["role"] for node in content["per_node"]}
        # Measuring a link is no training: it has a kind of its own, and is in no sum.
        for node in content["per_node"] if len(content["per_node"]) > 1 else []:
            for way in ("sent", "received"):
                links = node[way].values()
                if node["bytes_" + way] != sum(n for link in links for kind, n in link.items() if kind != "probe"):
                    wrong.append(f"{run}: bytes_{way} is not the sum of its kinds without the probe")
            if content["strategy"].startswith("ring") and sum(
                    link["probe"] for way in ("sent", "received") for link in node[way].values()) < 1 << 17:
                wrong.append(f"{run}: the probe of a link of node {node['node']} is not counted as one")
        for key in keys:
            named("summary.json", sections["summary.json"], key, summary)
        seen |= keys
        for key in metadata(run / "model.safetensors"):
            named("model.safetensors", sections["model.safetensors"], key, run)
    for line in (run / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        kinds.add(event["event"])
        if event["event"] not in events:
            wrong.append(f"journal.jsonl: no event `{event['event']}`, which {run} has")
            continue
        for key in event.keys() - {"event", "t"}:
            named(f"journal.jsonl, {event['event']}", events[event["event"]], key, run)
        if event["event"] == "end":
            named("journal.jsonl, status", events["end"], event["status"], run)
    for path in run.iterdir():
        named("the files", page.split("\n## ")[0], path.name + ("/" if path.is_dir() else ""), run)
    for path in (run / "checkpoint").iterdir() if (run / "checkpoint").exists() else []:
        named("checkpoint/", sections["checkpoint/"], path.name, run)
for key, value in metadata("alone/checkpoint/state.safetensors").items():
    named("checkpoint/", sections["checkpoint/"], key, "a checkpoint")
    for inner in json.loads(value) if key == "state" else []:
        named("checkpoint/, state", sections["checkpoint/"], inner, "a checkpoint")
for role in roles:
    named("role", sections["summary.json"], role, "a run")

# And the other way: what the page has, some run has.
rows = [row for row in re.findall(r"^\| (`.*?) \|", sections["summary.json"], flags=re.M)]
for name in {name for row in rows for name in re.findall(r"`(\w+)`", row)} - seen:
    wrong.append(f"summary.json: `{name}` is on the page, and no run has it")
for name in events.keys() - kinds:
    wrong.append(f"journal.jsonl: `{name}` is on the page, and no run has it")
if len(seen) < 60:
    wrong.append(f"only {len(seen)} fields were looked at")
print("\n".join(sorted(set(wrong))))
sys.exit(bool(wrong))
END
finish
