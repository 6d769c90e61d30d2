#!/usr/bin/env bash
# make.sh GENERATION: writes a generation of model files and checkpoints with the ringtmp of today ($RINGTMP), and what it makes
# of them. Once committed a generation is never made again: tests/cli/test_generations.sh wants every later version to read it.
set -eu
cd "$(dirname "$0")"
: "${RINGTMP:?set it to the path of the ringtmp binary}"
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$out"
for run in classes cnn bce values; do
    "$RINGTMP" train $run.yaml --out "$work/$run" --quiet >/dev/null
    cp "$work/$run/model.safetensors" "$out/$run.safetensors"
    "$RINGTMP" predict "$out/$run.safetensors" "${run}_inputs.csv" --format csv >"$out/$run.csv"
done
# A run that has come half of its way, and where it leads.
"$RINGTMP" train resume.yaml --out "$work/half" --set train.epochs=2 --quiet >/dev/null
mkdir "$out/checkpoint"
cp "$work/half/checkpoint/state.safetensors" "$work/half/checkpoint/best.safetensors" "$out/checkpoint/"
"$RINGTMP" train resume.yaml --out "$work/whole" --quiet >/dev/null
sed -n 's/.*"params_sha256": "\([0-9a-f]*\)".*/\1/p' "$work/whole/summary.json" >"$out/resumed.sha256"
