#!/usr/bin/env bash
# Tensors in model files mean what docs/outputs.md says: another program computes the same from them, and parameters of PyTorch's
# that are converted as it says predict what they did there.
# labels: once
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v python3 >/dev/null || skip "there is no python3 to read model files with"
layout() { python3 "$here/layout.py" "$@" || fail "layout.py $*"; }

make_table 24 32 2 | tail -n +2 | sed 's/\([0-9]*\),/0.0\1,/g' | awk -F, -v OFS=, '{ print $0, $1 }' >table.csv # 2 targets
head -6 table.csv | cut -d, -f1-32 >inputs.csv
cat >layers.yaml <<'END'
model:
  input: [2, 4, 4]
  layers:
    - conv2d: {filters: 4, kernel_h: 3, kernel_w: 2, pad: 1, groups: 2}
    - batchnorm
    - residual: [conv2d: {filters: 4, kernel: 1}, tanh]
    - layernorm
    - flatten
    - dense: 4
    - layernorm
    - residual: [dense: 4, tanh, residual: [dense: 4]]
    - dense: 2
  loss: mse
data: {train: {csv: {file: table.csv, targets: [32, 33]}}}
train: {batch: 8, epochs: 3, optimizer: {momentum: {lr: 0.01}}}
END
run 0 train layers.yaml --out layers --quiet
run 0 predict layers/model.safetensors inputs.csv
cp out said
layout compare layers/model.safetensors inputs.csv said

# from PyTorch
layout start start.safetensors rows.csv there
awk -F, -v OFS=, '{ print $0, 0, 0 }' rows.csv >rows-targets.csv
cat >start.yaml <<'END'
model: {input: 3, layers: [{dense: 3}, tanh, {dense: 2}], loss: mse, init: start.safetensors}
data: {train: {csv: {file: rows-targets.csv, targets: [3, 4]}}}
train: {updates: 1, batch: 5, optimizer: {sgd: {lr: 0}}}
END
run 0 train start.yaml --out start
says err "start.safetensors was not written by ringtmp: the square '0.weight' is taken as [inputs, units]"
run 0 predict start/model.safetensors rows.csv
cp out here
layout close here there
# as PyTorch has it
refuses 2 "tensor '2.weight' has the shape [2, 3], but the model needs [3, 2]; PyTorch keeps a Linear's weight so" \
    train start.yaml --out never --set model.init=plain-start.safetensors
# and our own files need no such note
run 0 train start.yaml --out own --set model.init=start/model.safetensors
[ ! -s err ] || fail "our own file: $(cat err)"
finish
