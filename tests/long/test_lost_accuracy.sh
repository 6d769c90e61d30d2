#!/usr/bin/env bash
# Fashion-MNIST on four devices, of which one is killed in the middle: strategies whose result depends on timing, or on how many workers
# there are, reach the accuracy that they reach without a loss, to within a point. `make test-long` runs this.
repository=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../cluster/lib.sh"
data=/usr/share/datasets/fashion-mnist
[ -e $data/train-images-idx3-ubyte.gz ] || skip "there is no $data (dataset-fashion-mnist)"
sed '/^  optimizer:/d' "$repository/examples/fashion-mlp.yaml" >run.yaml
settings=(--nodes 4 --quiet --set cluster.keep_all=true --set train.schedule=cosine --set train.epochs=4 --set train.report_seconds=0.2)

# halfway DIRECTORY: the second of four epochs is over
halfway() { grep -q '"event": "step".*"epoch": 3,' "$1/journal.jsonl" 2>/dev/null; }
# survives STRATEGY BATCH
survives() {
    local whole lost victim
    run 0 train run.yaml --strategy "$1" --out "$1-whole" "${settings[@]}" --set train.batch="$2"
    start_master run run.yaml --strategy "$1" --out "$1" "${settings[@]}" --set train.batch="$2"
    until_true 600 halfway "$1" || fail "$1: is never half done: $(cat run.err)"
    victim=($(children_of "$pid"))
    kill -KILL "${victim[1]}"
    ends "$pid" 0 600
    [ "$(field recoveries "$1/summary.json") $(field nodes "$1/summary.json")" = "1 3" ] || fail "$1: no recovery: $(cat run.err)"
    whole=$(field test_accuracy "$1-whole/summary.json") lost=$(field test_accuracy "$1/summary.json")
    echo "$1: accuracy $lost, $whole without a loss; $(field replayed_updates "$1/summary.json") updates repeated"
    awk -v lost="$lost" -v whole="$whole" 'BEGIN { exit !(whole > 0.8 && lost > whole - 0.01) }' ||
        fail "$1: accuracy $lost, and $whole without a loss"
}
survives ps-sync 128
survives ps-async 32
survives allreduce-ring 128
survives ring-flow 128
finish
