#!/usr/bin/env bash
# --math fast hands matrix products to OpenBLAS: other bits, but the same course of training within rounding.
. "$(dirname "$0")/lib.sh"
write_run 4
"$RINGTMP" train run.yaml --math fast --out probe --quiet 2>err || {
    grep -q "needs OpenBLAS" err && skip "OpenBLAS is not here (Debian: libopenblas0-pthread)"
}

# agree NAME: NAME.yaml trained both ways, with one thread and with two, ends with nearly the same losses
agree() {
    local name=$1 threads which exact fast
    run 0 train "$name.yaml" --out "$name-exact" --quiet
    for threads in 1 2; do
        run 0 train "$name.yaml" --math fast --out "$name-$threads" --quiet --set train.threads=$threads
        [ "$(field math "$name-$threads/summary.json")" = fast ] || fail "$name: the summary does not say fast"
        for which in train_loss test_loss; do
            exact=$(field $which "$name-exact/summary.json")
            fast=$(field $which "$name-$threads/summary.json")
            awk -v a="$exact" -v b="$fast" 'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d * d < 1e-6 * a * a) }' ||
                fail "$name, $threads threads: $which $exact exactly, $fast with --math fast"
        done
    done
}

# many outputs, one output (a product as narrow as it can be), and convolutions
cp run.yaml classes.yaml
sed 's/dense: 3/dense: 1/; s/cross_entropy/mse/; s/lr: 0.05/lr: 0.005/' run.yaml >value.yaml
sed 's/input: 6/input: [1, 2, 3]/; s/dense: 16/conv2d: {filters: 5, kernel: 3, pad: 1}/
    s/- dropout: .*/- flatten/' run.yaml >pictures.yaml
for name in classes value pictures; do agree $name; done

# what a fast run saved, and what it predicts
cut -d, -f1-6 table.csv >inputs.csv
run 0 eval value-1/model.safetensors value.yaml
run 0 predict value-1/model.safetensors inputs.csv
[ "$(wc -l <out)" -eq 240 ] || fail "predict: $(wc -l <out) lines, not 240"
finish
