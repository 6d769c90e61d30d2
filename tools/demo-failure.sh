#!/usr/bin/env bash
# make demo-failure: trains examples/demo.yaml on four processes of this machine, kills one of them in the middle, starts it again,
# and compares the hash of the parameters with that of the undisturbed demo, which is in README.md.
set -eu
cd "$(dirname "$0")/.."
ringtmp=${RINGTMP:-build/ringtmp}
out=runs/demo-failure
scratch=$(mktemp -d)
declare -a node port

# Ends what was started here, whatever happens.
cleanup() {
    local id
    for id in "${node[@]}" ${master:-}; do kill "$id" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# start_node I PORT: in the background; PORT 0: any
start_node() {
    : >"$scratch/node-$1"
    "$ringtmp" node --listen "127.0.0.1:$2" --threads 1 --name "device-$1" >"$scratch/node-$1" 2>>"$scratch/log-$1" &
    node[$1]=$!
    until port[$1]=$(sed -n 's/^listening at 127\.0\.0\.1:\([0-9]*\)$/\1/p' "$scratch/node-$1") && [ -n "${port[$1]}" ]; do
        kill -0 "${node[$1]}" 2>/dev/null || { cat "$scratch/log-$1" >&2; exit 1; }
        sleep 0.05
    done
}

# until_journal EVENT: waits until the run has written it; fails when the run ends first
until_journal() {
    until grep -q "\"event\": \"$1\"" "$out/journal.jsonl" 2>/dev/null; do
        kill -0 "$master" 2>/dev/null || { wait "$master" || exit 1; echo "demo-failure: the run ended before the event '$1'" >&2; exit 1; }
        sleep 0.05
    done
}

rm -rf "$out"
others=()
for i in 1 2 3; do
    start_node $i 0
    others+=(--node "127.0.0.1:${port[i]}")
done
"$ringtmp" train examples/demo.yaml --nodes 1 "${others[@]}" --set cluster.keep_all=true --out "$out" &
master=$!
until_journal first_step
sleep "${DEMO_FAILURE_SECONDS:-15}"
echo "demo-failure: kill -KILL ${node[2]}, which is device-2" >&2
kill -KILL "${node[2]}"
wait "${node[2]}" 2>/dev/null || true
until_journal new_update
sleep "${DEMO_FAILURE_SECONDS:-15}"
echo "demo-failure: device-2 is started again" >&2
start_node 2 "${port[2]}"
wait "$master"
master=
expected=$(sed -n 's/^params_sha256 *\([0-9a-f]*\)$/\1/p' README.md)
actual=$(sed -n 's/.*"params_sha256": *"\([0-9a-f]*\)".*/\1/p' "$out/summary.json")
if [ "$actual" != "$expected" ]; then
    echo "demo-failure: the parameters differ: $actual, and README.md has $expected" >&2
    exit 1
fi
grep -q '"event": "view"' "$out/journal.jsonl" || { echo "demo-failure: device-2 was not taken in again" >&2; exit 1; }
echo "demo-failure: the same params_sha256 as without a failure: $actual"
