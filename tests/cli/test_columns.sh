#!/usr/bin/env bash
# A model knows the names of the columns it was trained on: tables in another order give the same answers, with a note, and
# tables without these names are refused.
. "$(dirname "$0")/lib.sh"
write_run 4
run 0 train run.yaml --out trained --quiet
model=trained/model.safetensors
cut -d, -f1-6 table.csv >inputs.csv
run 0 predict $model inputs.csv
[ ! -s err ] || fail "the table of the training: $(cat err)"
cp out right

same() { # WHY NOTE WORD...: predict gives the right answers and this note; "": none
    local why=$1 note=$2
    shift 2
    run 0 predict $model "$@"
    cmp -s out right || fail "$why: other answers: $(head -2 out)"
    [ "$(grep -c . err)" -eq "$([ -n "$note" ] && echo 1 || echo 0)" ] || fail "$why: notes: $(cat err)"
    [ -z "$note" ] || says err "$note"
}
awk -F, '{ print $6 "," $5 "," $4 "," $3 "," $2 "," $1 }' inputs.csv >reversed.csv
same "reversed columns" "reversed.csv: its columns are in another order than in training and are taken by name" reversed.csv
same "with its label" "1 column that is not an input of the model is left out" table.csv
awk -F, '{ print $7 ",\"a, b\"," $6 "," $5 "," $4 "," $3 "," $2 "," $1 }' table.csv >more.csv
same "reversed, with more" "taken by name; 2 columns that are not inputs of the model are left out" more.csv
tail -n +2 inputs.csv >bare.csv
same "no header" "" bare.csv
same "no header, as said" "" '{csv: {file: reversed.csv, columns: [5, 4, 3, 2, 1, 0], header: no, skip: 1}}'
same "columns in their order" "" '{csv: {file: reversed.csv, columns: [x1, x2, x3, x4, x5, x6]}}'
refuses 2 "has 'x6' where the model has 'x1' (input 1)" predict $model \
    '{csv: {file: reversed.csv, columns: [x6, x5, x4, x3, x2, x1]}}'

sed '1s/x3/y3/' inputs.csv >renamed.csv
refuses 2 "renamed.csv: has no column 'x3', which is input 3 of the model; 'y3' stands in its place" predict $model renamed.csv
same "by position" "" '{csv: {file: renamed.csv, header: no, skip: 1}}'
sed '1s/x3/x2/' inputs.csv >twice.csv
refuses 2 "has two columns 'x2'" predict $model twice.csv
cut -d, -f1-5 inputs.csv >narrow.csv
refuses 2 "has no column 'x6', which is input 6 of the model: rename" predict $model narrow.csv

# eval compares as well, and so does a training with its own test data
run 0 eval $model run.yaml --set data.test='{csv: {file: table.csv, label: label}}'
[ ! -s err ] || fail "eval: $(cat err)"
cp out right
awk -F, '{ print $7 "," $6 "," $5 "," $4 "," $3 "," $2 "," $1 }' table.csv >turned.csv
run 0 eval $model run.yaml --set data.test='{csv: {file: turned.csv, label: label}}'
cmp -s out right || fail "eval: another result from a table in another order"
says err "taken by name"
refuses 2 "column 'x1' is input 1 of the model, but here it is the label" eval $model run.yaml --set data.test='{csv: turned.csv}'
sed '1s/x1/y1/' table.csv >other.csv
refuses 2 "has no column 'x1'" eval $model run.yaml --set data.test='{csv: {file: other.csv, label: label}}'
run 0 train run.yaml --out a --set data.test='{csv: {file: table.csv, label: label}}'
run 0 train run.yaml --out b --set data.test='{csv: {file: turned.csv, label: label}}'
says err "turned.csv: its columns are in another order"
[ "$(field test_loss a/summary.json)" = "$(field test_loss b/summary.json)" ] || fail "training: the test table was misread"
run 0 train run.yaml --out c --quiet --set data.cache_above=0 --set data.cache_dir=cache \
    --set data.test='{csv: {file: turned.csv, label: label}}'
run 0 train run.yaml --out d --set data.cache_above=0 --set data.cache_dir=cache \
    --set data.test='{csv: {file: turned.csv, label: label}}' # from the cache
says err "turned.csv: its columns are in another order"
for run in c d; do
    [ "$(field test_loss a/summary.json)" = "$(field test_loss $run/summary.json)" ] || fail "cache: $run was misread"
    run 0 predict $run/model.safetensors reversed.csv
    says err "taken by name"
done
ls cache/*.rtdata >/dev/null || fail "there was no cache"

# inputs of one name: their own table fits, and no column is taken twice
sed '1s/x[1-6]/x/g' table.csv >alike.csv
run 0 train run.yaml --out alike --quiet --set data.train='{csv: {file: alike.csv, label: label}}'
cut -d, -f1-6 alike.csv >alike_inputs.csv
run 0 predict alike/model.safetensors alike_inputs.csv
[ ! -s err ] || fail "inputs of one name: $(cat err)"
cut -d, -f1 alike.csv >one.csv
refuses 2 "has one column 'x', but the model has several inputs of that name" predict alike/model.safetensors one.csv

# names that no model file can hold are left alone
sed '1s/x3/\xe9/' table.csv >latin.csv
run 0 train run.yaml --out latin --quiet --set data.train='{csv: {file: latin.csv, label: label}}'
run 0 predict latin/model.safetensors inputs.csv
[ ! -s err ] || fail "names in Latin-1: $(cat err)"
finish
