#!/usr/bin/env bash
# A file that was written once stays readable: every generation in tests/golden/models loads, predicts the numbers it
# predicted when it was made, and a run that had come half of its way ends where it would have ended then.
# labels: once
golden=$(cd "$(dirname "$0")/../golden/models" && pwd)
. "$(dirname "$0")/lib.sh"
cp "$golden"/*.yaml "$golden"/*.csv .
for generation in "$golden"/*/; do
    generation=${generation%/}
    name=${generation##*/}
    # The first was written before there was a hash over the description, and this is said, once; later ones have it.
    notes=$([ "$name" = 1 ] && echo 1 || echo 0)
    for run in classes cnn bce values; do
        run 0 predict "$generation/$run.safetensors" ${run}_inputs.csv --format csv
        cmp out "$generation/$run.csv" || fail "generation $name: $run predicts something else: $(head -3 out)"
        [ "$(grep -c 'no hash over its description' err)" -eq "$notes" ] && [ "$(grep -c . err)" -eq "$notes" ] ||
            fail "generation $name: $run: not $notes notes: $(cat err)"
    done
    run 0 eval "$generation/classes.safetensors" classes.yaml
    [ "$(grep -c . err)" -eq "$notes" ] || fail "generation $name: eval: not $notes notes: $(cat err)"
    mkdir "from$name"
    cp -r "$generation/checkpoint" "from$name/"
    chmod -R u+w "from$name"
    run 0 train resume.yaml --out "from$name" --resume
    [ ! -s err ] || fail "generation $name: resume: $(cat err)"
    [ "$(field params_sha256 "from$name/summary.json")" = "$(cat "$generation/resumed.sha256")" ] ||
        fail "generation $name: the resumed run has another result: $(field params_sha256 "from$name/summary.json")"
    # and from the one before, where the newest is damaged
    mkdir "torn$name"
    cp -r "$generation/checkpoint" "torn$name/"
    chmod -R u+w "torn$name"
    mv "torn$name/checkpoint/state.safetensors" "torn$name/checkpoint/previous.safetensors"
    echo torn >"torn$name/checkpoint/state.safetensors"
    run 0 train resume.yaml --out "torn$name" --resume
    says err "previous.safetensors is, of update "
    [ "$(field params_sha256 "torn$name/summary.json")" = "$(cat "$generation/resumed.sha256")" ] ||
        fail "generation $name: the run resumed from the older checkpoint has another result"
    # what starts a new run takes nothing from a file but its numbers, which have always had a hash
    for init in "$generation/checkpoint/state.safetensors" "$generation/checkpoint/best.safetensors"; do
        run 0 train resume.yaml --out "init$name${init##*/}" --set model.init="$init" --set train.updates=1
        [ ! -s err ] || fail "generation $name: model.init: $(cat err)"
    done
done
finish
