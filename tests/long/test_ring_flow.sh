#!/usr/bin/env bash
# ring-flow, which trains with slightly older parameters, learns Fashion-MNIST as well as ring does: within half a point,
# on four nodes that each hold as many micro-batches as there are nodes. How old the parameters were is in the summary.
# `make test-long` runs this.
repository=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../cluster/lib.sh"
data=/usr/share/datasets/fashion-mnist
[ -e $data/train-images-idx3-ubyte.gz ] || skip "there is no $data (dataset-fashion-mnist)"

# Momentum makes of an old gradient an even older one: without it the delay costs little.
learn() { # STRATEGY DIRECTORY
    run 0 train "$repository/examples/fashion-mlp.yaml" --nodes 4 --strategy "$1" --out "$2" --quiet \
        --set cluster.keep_all=true --set train.epochs=10 --set train.optimizer='{sgd: {lr: 0.05}}'
    [ "$(field nodes "$2/summary.json")" = 4 ] || fail "$1: not on 4 nodes"
}
# staleness DIRECTORY: updates that happened between the use of a node's parameters and theirs, the mean of each node
staleness() { sed -n 's/.*"staleness_mean": *\([0-9.e+-]*\).*/\1/p' "$1/summary.json" | tr '\n' ' '; }

learn ring exact
learn ring-flow,slots=4,damp=0 flow
exact=$(field test_accuracy exact/summary.json) flow=$(field test_accuracy flow/summary.json)
echo "test accuracy: ring $exact, ring-flow $flow"
awk -v exact="$exact" -v flow="$flow" 'BEGIN { exit !(exact > 0.86 && flow > exact - 0.005) }' ||
    fail "ring reaches $exact, ring-flow $flow"

echo "staleness, node by node: ring $(staleness exact), ring-flow $(staleness flow)"
[ "$(staleness exact | tr -d ' .0')" = '' ] || fail "the exact ring used old parameters: $(staleness exact)"
# The window bounds it; whoever is nearer to the loss waits less for the gradient.
staleness flow | awk '{ exit !(NF == 4 && $1 > 0 && $1 <= 3 && $1 >= $2 && $2 >= $3 && $3 >= $4) }' ||
    fail "the staleness of ring-flow: $(staleness flow)"
finish
