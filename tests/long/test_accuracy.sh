#!/usr/bin/env bash
# The examples, trained to the end: each must reach what docs/quickstart.md says of it. `make test-long` runs this.
set -u

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# reach EXAMPLE FIELD COMPARISON BAR: trains and compares a field of the summary
reach() {
    local name=$1 field=$2 comparison=$3 bar=$4 value
    "$RINGTMP" train "examples/$name.yaml" --out "$work/$name" --quiet || { echo "FAILED: $name"; failed=1; return; }
    value=$(sed -n "s/.*\"$field\": *\([0-9.eE+-]*\).*/\1/p" "$work/$name/summary.json" | head -1)
    if awk -v v="$value" -v bar="$bar" "BEGIN { exit !(v != \"\" && v + 0 $comparison bar + 0) }"; then
        echo "$name: $field $value $comparison $bar"
    else
        echo "FAILED: $name: $field is '$value', not $comparison $bar"
        failed=1
    fi
}
reach demo test_accuracy '>=' 0.90
reach fashion-mlp test_accuracy '>=' 0.8833
reach fashion-cnn test_accuracy '>=' 0.916
reach autoencoder test_loss '<=' 0.015
reach breast-cancer test_accuracy '>=' 0.94
reach diabetes test_loss '<=' 3400
exit $failed
