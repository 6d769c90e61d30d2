#!/usr/bin/env bash
# A saved model used again: eval gives what training gave, predict prints one line an example in each format.
. "$(dirname "$0")/lib.sh"
write_run 4
run 0 train run.yaml --out trained --quiet
model=trained/model.safetensors

run 0 eval $model run.yaml
says out "examples  60"
says out "most often taken for"
accuracy=$(awk '$1 == "accuracy" { print $2 }' out)
awk -v a="$accuracy" -v b="$(field test_accuracy trained/summary.json)" \
    'BEGIN { d = a - b; exit !(a != "" && d < 0.0001 && d > -0.0001) }' ||
    fail "eval: accuracy $accuracy, training said $(field test_accuracy trained/summary.json)"
cp $model moved.safetensors # it needs nothing beside it
run 0 eval moved.safetensors run.yaml --set data.test='{csv: {file: table.csv, label: label}}' --set data.split=0
says out "examples  240"

# the inputs alone, without labels
cut -d, -f1-6 table.csv >inputs.csv
run 0 predict $model inputs.csv
cp out text
[ "$(wc -l <text)" -eq 240 ] || fail "predict: $(wc -l <text) lines, not 240"
awk -F'\t' 'NF != 2 || $1 !~ /^[012]$/ || $2 < 0.33 || $2 > 1' text | grep . && fail "predict: bad lines"
# most are right: the label is the last column of the table
right=$(tail -n +2 table.csv | cut -d, -f7 | paste - text | awk '$1 == $2' | wc -l)
[ "$right" -gt 215 ] || fail "predict: only $right of 240 are right"

run 0 predict $model inputs.csv --format csv --probs
[ "$(head -1 out)" = "example,class,probability,0,1,2" ] || fail "csv: header '$(head -1 out)'"
[ "$(wc -l <out)" -eq 241 ] || fail "csv: $(wc -l <out) lines"
awk -F, 'NR > 1 { s = $4 + $5 + $6; if (NF != 6 || $1 != NR - 2 || s < 0.9999 || s > 1.0001) print }' out |
    grep . && fail "csv: probabilities do not add up"
cut -d, -f2 out | tail -n +2 | cmp -s - <(cut -f1 text) || fail "csv: other classes than text"

run 0 predict $model inputs.csv --format json --top 2
grep -vcE '^\{"example": [0-9]+, "class": "[012]", "probability": [0-9.e-]+, "top": \[\{.*\}, \{.*\}\]\}$' out |
    grep -qx 0 || fail "json: $(head -1 out)"
sed 's/.*"class": "\([^"]*\)", "probability": [^,]*, "top.*/\1/' out | cmp -s - <(cut -f1 text) ||
    fail "json: other classes than text"

run 0 predict $model inputs.csv --top 5 # more than there are
awk -F'\t' 'NF != 6 || $2 < $4 || $4 < $6' out | grep . && fail "top: not three classes in falling order"
run 0 predict $model '{csv: {file: inputs.csv}}'
cmp -s out text || fail "a source gives other lines than a file"
"$RINGTMP" predict $model inputs.csv 2>err | head -1 >out
[ "$(wc -l <out)" -eq 1 ] && [ ! -s err ] || fail "predict | head: $(cat err)"

refuses 2 "at least 1" predict $model inputs.csv --top 0
refuses 2 "text, csv, json" predict $model inputs.csv --format xml
refuses 2 "nothere.csv" predict $model nothere.csv
cut -d, -f1-5 inputs.csv >narrow.csv
refuses 2 "narrow.csv" predict $model narrow.csv
head -c 100 $model >torn.safetensors
refuses 2 "torn.safetensors" predict torn.safetensors inputs.csv

# class names with spaces, quotes and commas
make_table 60 6 3 | sed 's/,0$/,"red, round"/; s/,1$/,green/; s/,2$/,"a ""b"""/' >named.csv
sed -i 's/table.csv/named.csv/' run.yaml
run 0 train run.yaml --out named --set train.epochs=15
says out "red, round"
cut -d, -f1-6 named.csv >inputs.csv
run 0 predict named/model.safetensors inputs.csv
grep -q '^red, round	0\.[0-9]*$' out || fail "no class 'red, round': $(head -3 out)"
run 0 predict named/model.safetensors inputs.csv --format csv
grep -q '^0,"red, round",' out || fail "csv: $(sed -n 2p out)"
run 0 predict named/model.safetensors inputs.csv --format json
grep -q '"class": "a \\"b\\""' out || fail "json: $(sed -n 3p out)"

# a model that gives values
sed -i 's/dense: 3/dense: 1/; s/cross_entropy/mse/; s/named.csv/table.csv/; s/lr: 0.05/lr: 0.01/' run.yaml
run 0 train run.yaml --out values
grep -q 'test accuracy' out && fail "an accuracy for a regression"
says out "test loss"
run 0 predict values/model.safetensors inputs.csv
awk 'NF != 1 || $1 + 0 != $1' out | grep . && fail "values: bad lines"
run 0 predict values/model.safetensors inputs.csv --format csv
[ "$(head -1 out)" = "example,value0" ] || fail "values: header '$(head -1 out)'"
run 0 predict values/model.safetensors inputs.csv --format json
grep -q '^{"example": 0, "values": \[[-0-9.e]*\]}$' out || fail "values: $(head -1 out)"
refuses 2 "classifiers" predict values/model.safetensors inputs.csv --probs
run 0 eval values/model.safetensors run.yaml
grep -q accuracy out && fail "eval: an accuracy for a regression"
says out "loss"

# a question with two answers that have names: bce with a single output knows them, for eval and predict
make_table 60 6 2 | sed 's/,0$/,no/; s/,1$/,yes/' >answers.csv
cat >answers.yaml <<'EOF'
model: {input: 6, layers: [{dense: 1}], loss: bce}
data:
  train: {csv: {file: answers.csv, label: label, names: [no, yes]}}
  test: {csv: {file: answers.csv, label: label}}
train: {batch: 10, epochs: 20, optimizer: {adam: {lr: 0.05}}}
EOF
run 0 train answers.yaml --out answers --quiet
run 0 eval answers/model.safetensors answers.yaml
accuracy=$(awk '$1 == "accuracy" { print $2 }' out)
[ "$accuracy" = "$(printf '%.4f' "$(field test_accuracy answers/summary.json)")" ] || fail "eval of bce: accuracy '$accuracy'"
cut -d, -f1-6 answers.csv >inputs.csv
run 0 predict answers/model.safetensors inputs.csv --format csv --probs
[ "$(head -1 out)" = "example,class,probability,no,yes" ] || fail "bce: header '$(head -1 out)'"
awk -F, 'NR > 1 { s = $4 + $5; if (s < 0.9999 || s > 1.0001 || ($2 == "yes") != ($5 > 0.5)) print }' out |
    grep . && fail "bce: classes and probabilities do not agree"
right=$(tail -n +2 answers.csv | cut -d, -f7 | paste -d, - <(tail -n +2 out) | awk -F, '$1 == $3' | wc -l)
[ "$right" -gt 40 ] || fail "bce: only $right of 60 are right"

# images: 60 of 2 x 2, the class is the corner that is bright; IDX, plain and compressed
{
    printf '\0\0\010\003\0\0\0\074\0\0\0\002\0\0\0\002'
    for i in $(seq 0 59); do
        for corner in 0 1 2 3; do
            printf "\\$(printf %o $((corner == i % 4 ? 200 + i % 50 : i % 30)))"
        done
    done
} >images.idx
{
    printf '\0\0\010\001\0\0\0\074'
    for i in $(seq 0 59); do printf "\\$(printf %o $((i % 4)))"; done
} >labels.idx
cat >images.yaml <<'EOF'
model: {input: [1, 2, 2], layers: [flatten, {dense: 4}], loss: cross_entropy}
data:
  train: {idx: [images.idx, labels.idx]}
  test: {idx: [images.idx, labels.idx]}
  scale: 0.00392156862745098
train: {batch: 6, epochs: 60, optimizer: {momentum: {lr: 0.2}}}
EOF
run 0 train images.yaml --out images --quiet
run 0 predict images/model.safetensors images.idx
[ "$(cut -f1 out | tr '\n' ' ')" = "$(for i in $(seq 0 59); do printf '%d ' $((i % 4)); done)" ] ||
    fail "images: $(cut -f1 out | tr '\n' ' ')"
if command -v gzip >/dev/null; then
    cp out plain
    gzip -k images.idx
    run 0 predict images/model.safetensors images.idx.gz
    cmp -s out plain || fail "a compressed file gives other predictions"
fi
head -c 100 images.idx >torn.idx
refuses 2 "torn.idx" predict images/model.safetensors torn.idx
finish
