#!/usr/bin/env bash
# Mistakes in a run file, in data and on the command line: exit status 2 and one sentence that names the place.
. "$(dirname "$0")/lib.sh"
write_run 1

refuses 2 "nothere.yaml" train nothere.yaml
refuses 2 "$work" train "$work"
refuses 2 "nothere.safetensors" eval nothere.safetensors run.yaml
refuses 2 "nothere.safetensors" predict nothere.safetensors table.csv

# change SED TEXT: with the run file so changed, train refuses with TEXT
change() {
    sed "$1" run.yaml >changed.yaml
    cmp -s run.yaml changed.yaml && fail "'$1' changes nothing"
    refuses 2 "$2" train changed.yaml --out never
}
change 's/batch: 10/bach: 10/' "changed.yaml:14"
change 's/batch: 10/bach: 10/' "'batch'"
change 's/batch: 10/batch: ten/' "batch"
change 's/batch: 10/batch: 0/' "batch"
change 's/- relu/- rellu/' "'relu'"
change 's/- relu/- rellu/' "changed.yaml:5"
change 's/dense: 16/dense: {unitz: 16}/' "'units'"
change 's/dense: 16/dense: -1/' "changed.yaml:4"
change 's/loss: cross_entropy/loss: cross_entropie/' "cross_entropy"
change 's/momentum: {lr/momentun: {lr/' "'momentum'"
change 's/{lr: 0.05}/{rl: 0.05}/' "changed.yaml:16"
change 's/input: 6/input: 5/' "5"
change 's/dense: 3/dense: 2/' "2"
change 's/label: label/label: labl/' "labl"
change 's/table.csv/nothere.csv/' "nothere.csv"
change 's/^model:/model: [/' "changed.yaml:"
change '/loss:/d' "model.loss"

# what others write, and what to write here
change 's/momentum: {lr: 0.05}/sgd: {lr: 0.05, momentum: 0.9}/' "momentum is an option of momentum, nesterov"
change 's/batch: 10/batch: 10\n  lr: 0.1/' "lr is an option of the optimizer: optimizer: {sgd: {lr: ...}}"
change 's/batch: 10/batch: 10\n  learning_rate: 0.1/' "lr is an option of the optimizer"
change 's/- dense: 16/- dense 16/' "did you mean 'dense: 16'?"
change 's/- dense: 16/- dense/' "changed.yaml:4: dense: units must be given"
change 's/batch: 10/batch: 1,000/' "decimal point, not a comma, and no separators"
printf '\xef\xbb\xbf' | cat - run.yaml >mark.yaml
run 0 train mark.yaml --out mark --quiet
iconv -f utf-8 -t utf-16 run.yaml >wide.yaml
refuses 2 "wide.yaml: is not text in UTF-8" train wide.yaml --out never

refuses 2 "--set train.epochs=VALUE" train run.yaml --epochs 3 --out never
refuses 2 "--set train.early_stop=VALUE" train run.yaml --early-stop=3 --out never
refuses 2 "keys of the run file are set with --set KEY=VALUE" train run.yaml --zebra 3 --out never
refuses 2 "did you mean 'ps-ssp,s=3'?" train run.yaml --nodes 2 --strategy 'ps-ssp s=3' --out never
refuses 2 "optimizer is one rule with its options, not 2 ('momentum', 'adam'...)" \
    train run.yaml --set train.optimizer.adam.lr=0.1 --out never
refuses 2 "run.yaml: is text, not a model" predict run.yaml table.csv

# a model that cannot learn is refused, one that hardly can is told
change 's/layers:.*/layers: [tanh]/; /- /d; s/input: 6/input: 3/' "no layer of the model has parameters"
sed 's/- dense: 3/- dense: 3\n    - softmax\n    - dense: 3/' run.yaml >twice.yaml
run 0 train twice.yaml --out twice --set train.epochs=1
says err "layer 4 of the model, counted from 0, is softmax, and cross_entropy applies softmax to the output itself"
run 0 train run.yaml --out once --set train.epochs=1
! grep -q softmax err || fail "a note without a reason: $(cat err)"

refuses 2 "did you mean 'epochs'?" train run.yaml --set train.epoch=3 --out never
refuses 2 "epochs" train run.yaml --set train.epochs=many --out never
refuses 2 "KEY=VALUE" train run.yaml --set train.epochs --out never
refuses 2 "seed" train run.yaml --seed one --out never
refuses 2 "sgd trains on 1 node, not on 4" train run.yaml --nodes 4 --strategy sgd --out never
refuses 2 "did you mean 'schedule'" train run.yaml --strategy ring,shedule=1f1b --out never
refuses 2 "must be one of split, 1f1b" train run.yaml --strategy ring,schedule=gpipe --out never
refuses 2 "strateg" train run.yaml --strategy strategy --out never
# the option that was typed is named, not --set
refuses 2 "--nodes: cluster: nodes must be between 1 and 1024, not '0'" train run.yaml --nodes 0 --out never
refuses 2 "--nodes: " plan run.yaml --nodes 0
refuses 2 "--strategy: cluster.strategy: there is no 'rign'; did you mean 'ring'?" train run.yaml --strategy rign --out never
refuses 2 "--strategy: ring: slots" train run.yaml --strategy ring,slots=0 --nodes 2 --out never
refuses 2 "--set: cluster: nodes" train run.yaml --set cluster.nodes=0 --out never
refuses 2 "--strategy as: needs the name of a system" train run.yaml --nodes 2 --strategy as: --out never
refuses 2 "--key: nothere.key: cannot be read" train run.yaml --key nothere.key --out never # though one device needs none
# In the run file it is no better: what one device needs nothing of is checked all the same.
sed '$a cluster: {key: nothere.key}' run.yaml >keyed.yaml
for words in "train keyed.yaml --out never" "plan keyed.yaml" "eval a/model.safetensors keyed.yaml"; do
    # shellcheck disable=SC2086 # several words
    refuses 2 "keyed.yaml:$(wc -l <keyed.yaml): cluster.key: nothere.key: cannot be read" $words
done
refuses 2 "cluster.key: nothere.key: cannot be read" predict a/model.safetensors table.csv --set cluster.key=nothere.key
echo "no key" >no.key
refuses 2 "cluster.key: no.key" train run.yaml --set cluster.key=no.key --out never
refuses 2 "cluster.certificate: certificates need all three: certificate, private_key and authority" \
    train run.yaml --set cluster.certificate=run.yaml --out never
refuses 2 "cluster.certificate: run.yaml: is not a certificate" train run.yaml --out never \
    --set cluster.certificate=run.yaml --set cluster.private_key=run.yaml --set cluster.authority=run.yaml
refuses 2 "cluster.slowdown" train run.yaml --set cluster.slowdown=[1,2,3] --out never
refuses 2 "cluster.slowdown: a factor is a number" plan run.yaml --set cluster.slowdown=fast
[ ! -e never ] || fail "a refused run left its output directory behind"
refuses 2 "one of idx, npy, csv, stream" train run.yaml --set data.train=3 --out never
refuses 2 "there is no file 'nothere.csv'" train run.yaml --set data.train.csv.file=nothere.csv --out never
! grep -q neither err || fail "two places where there is one: $(cat err)"
refuses 2 "nothere/new.key: cannot be written" keygen nothere/new.key
refuses 2 "--out DIR" train run.yaml --resume
refuses 2 "never" train run.yaml --resume --out never
[ ! -e never ] || fail "a refused run left its output directory behind"

# data that are wrong
sed '5s/[0-9]*,/oops,/' table.csv >bad.csv
refuses 2 "bad.csv:5" train run.yaml --set 'data.train={csv: {file: bad.csv, label: label}}' --out never2
sed '7s/[0-9]*,/nan,/' table.csv >bad.csv
refuses 2 "bad.csv" train run.yaml --set 'data.train={csv: {file: bad.csv, label: label}}' --out never3
sed '9s/,[0-9]*$//' table.csv >bad.csv
refuses 2 "bad.csv:9" train run.yaml --set 'data.train={csv: {file: bad.csv, label: label}}' --out never4
sed '9s/,[0-9]*$/,7/' table.csv >bad.csv
refuses 2 "bad.csv" train run.yaml --set 'data.train={csv: {file: bad.csv, label: label}}' --out never5
: >bad.csv
refuses 2 "bad.csv" train run.yaml --set 'data.train={csv: {file: bad.csv, label: label}}' --out never6

# the model and the run file in the wrong order
run 0 train run.yaml --out made --quiet
refuses 2 "made/model.safetensors: is a model file (safetensors), not a run file" eval run.yaml made/model.safetensors
says err "MODEL.safetensors RUN.yaml"
refuses 2 "--set data.scale=2: predict sets keys of cluster and train only" \
    predict made/model.safetensors table.csv --set data.scale=2

# a run that blows up says at which update, and is a failure, not a usage error
run 1 train run.yaml --set 'train.optimizer={sgd: {lr: 1e30}}' --out blown --quiet
says err "update"
grep -q '^ringtmp: ' err || fail "a run that blows up: $(cat err)"
[ ! -e blown/model.safetensors ] || fail "a run that blew up left a model"

# a file that is no model
head -c 1000 table.csv >not.safetensors
refuses 2 "not.safetensors" eval not.safetensors run.yaml
refuses 2 "not.safetensors" predict not.safetensors table.csv
finish
