#!/usr/bin/env bash
# ring-flow, which trains with slightly older parameters, learns Fashion-MNIST on four nodes. With plain sgd and its defaults
# as well as ring does, within half a point. The example as it is, with momentum, needs a damped rate: there it is within
# half a point where a node holds 2 batches, and within 2.5 points with the defaults, which are for speed. How old the
# parameters were is in the summary. `make test-long` runs this.
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
plain=(--set train.optimizer='{sgd: {lr: 0.05}}')
for seed in 1 2; do
    learn ring "exact-$seed" "${plain[@]}" --set train.seed=$seed
    learn ring-flow "flow-$seed" "${plain[@]}" --set train.seed=$seed
    near "exact-$seed" "flow-$seed" 0.005
done

# The example as it is.
learn ring example-exact
learn ring-flow,slots=2 example-flow-2
near example-exact example-flow-2 0.005
learn ring-flow example-flow
near example-exact example-flow 0.025

echo "staleness, node by node: ring $(staleness exact-1), ring-flow $(staleness flow-1)"
[ "$(staleness exact-1 | tr -d ' .0')" = '' ] || fail "the exact ring used old parameters: $(staleness exact-1)"
# The window bounds it; the master waits longest for a gradient, who is next to the loss hardly at all.
staleness flow-1 | awk '{ exit !(NF == 4 && $1 > 0 && $1 <= 7 && $1 >= $2 && $1 >= $3 && $2 >= $4 && $3 >= $4) }' ||
    fail "the staleness of ring-flow: $(staleness flow-1)"
finish
