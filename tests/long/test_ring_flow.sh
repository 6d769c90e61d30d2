#!/usr/bin/env bash
# ring-flow, which trains with slightly older parameters, learns Fashion-MNIST on four nodes. With plain sgd as well as ring
# does, within half a point, where each node holds as many batches as there are nodes. The example as it is, with momentum,
# needs a damped rate: there it is within half a point where a node holds 2 batches, and within 2.5 points with the defaults,
# which are for speed. How old the parameters were is in the summary. `make test-long` runs this.
repository=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../cluster/lib.sh"
data=/usr/share/datasets/fashion-mnist
[ -e $data/train-images-idx3-ubyte.gz ] || skip "there is no $data (dataset-fashion-mnist)"

learn() { # STRATEGY DIRECTORY [SETTING ...]
    run 0 train "$repository/examples/fashion-mlp.yaml" --nodes 4 --strategy "$1" --out "$2" --quiet \
        --set cluster.keep_all=true "${@:3}"
    [ "$(field nodes "$2/summary.json")" = 4 ] || fail "$1: not on 4 nodes"
}
near() { # EXACT FLOW BY: the accuracy of two directories
    local exact flow
    exact=$(field test_accuracy "$1/summary.json") flow=$(field test_accuracy "$2/summary.json")
    echo "test accuracy: $1 $exact, $2 $flow"
    awk -v exact="$exact" -v flow="$flow" -v by="$3" 'BEGIN { exit !(exact > 0.86 && flow > exact - by) }' ||
        fail "$1 reaches $exact, $2 $flow"
}
# staleness DIRECTORY: updates that happened between the use of a node's parameters and theirs, the mean of each node
staleness() { sed -n 's/.*"staleness_mean": *\([0-9.e+-]*\).*/\1/p' "$1/summary.json" | tr '\n' ' '; }

# Momentum makes of an old gradient an even older one: without it the delay costs little.
plain=(--set train.epochs=10 --set train.optimizer='{sgd: {lr: 0.05}}')
learn ring exact "${plain[@]}"
learn ring-flow,slots=4 flow "${plain[@]}"
near exact flow 0.005

# The example as it is.
learn ring example-exact
learn ring-flow,slots=2 example-flow-2
near example-exact example-flow-2 0.005
learn ring-flow example-flow
near example-exact example-flow 0.025

echo "staleness, node by node: ring $(staleness exact), ring-flow $(staleness flow)"
[ "$(staleness exact | tr -d ' .0')" = '' ] || fail "the exact ring used old parameters: $(staleness exact)"
# The window bounds it; whoever is nearer to the loss waits less for the gradient.
staleness flow | awk '{ exit !(NF == 4 && $1 > 0 && $1 <= 3 && $1 >= $2 && $2 >= $3 && $3 >= $4) }' ||
    fail "the staleness of ring-flow: $(staleness flow)"
finish
