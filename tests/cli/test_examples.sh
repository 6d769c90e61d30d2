#!/usr/bin/env bash
# Every run file in examples/ is read and trains some steps, from the root of the tree, as it is. Those whose data
# are not on this machine are named.
# labels: once
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missing=0
for run in examples/*.yaml; do
    name=$(basename "$run" .yaml)
    absent=$(grep -oE '/usr/[^], }]*' "$run" | while read -r file; do [ -e "$file" ] || echo "$file"; done | head -1)
    if [ -n "$absent" ]; then
        echo "skipped: $name: $absent is not here (tools/setup.sh examples installs it)"
        missing=1
        continue
    fi
    "$RINGTMP" train "$run" --set train.updates=5 --set data.limit=100 --out "$work/$name" --quiet \
        >"$work/log" 2>&1 || { cat "$work/log"; fail "$run"; }
    grep -qE '"updates": *5\b' "$work/$name/summary.json" || fail "$run: not five updates in its summary"
    grep -qE '"train_loss": *[0-9]' "$work/$name/summary.json" || fail "$run: no loss in its summary"
    [ -s "$work/$name/model.safetensors" ] || fail "$run: no model"
    echo "$name: ok"
done
[ "$missing" -eq 0 ] || [ -z "${RT_NO_SKIP:-}" ] || fail "data are missing"
[ "$missing" -eq 0 ] || exit 77
