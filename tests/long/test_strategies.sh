#!/usr/bin/env bash
# Every strategy of the exchange learns Fashion-MNIST on four workers, with its defaults, to within a point of one device
# after the same number of examples: one device with the same batch, which a synchronous strategy shares among its workers
# and an asynchronous one gives to one of them. That is with the default optimizers, plain sgd and downpour's AdaGrad; with
# the momentum that the example has, stale gradients cost more, and asynchronous strategies come within 5 points.
# `make test-long` runs this.
repository=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../cluster/lib.sh"
data=/usr/share/datasets/fashion-mnist
[ -e $data/train-images-idx3-ubyte.gz ] || skip "there is no $data (dataset-fashion-mnist)"

# The rate falls to nothing, so that what is compared is not the noise of the last few updates. An asynchronous run is
# another one each time, so two are looked at.
sed '/^  optimizer:/d' "$repository/examples/fashion-mlp.yaml" >defaults.yaml
learn() { # STRATEGY NODES BATCH DIRECTORY [WORD ...]
    local seed
    for seed in 1 2; do
        run 0 train defaults.yaml --strategy "$1" --nodes "$2" --out "$4/$seed" --quiet --set train.batch="$3" \
            --set train.epochs=4 --set train.schedule=cosine --set train.seed=$seed "${@:5}" || return
        [ "$(field nodes "$4/$seed/summary.json")" = "$2" ] || fail "$1: not on $2 nodes"
    done
}
accuracy() { # DIRECTORY: the mean of the runs
    { field test_accuracy "$1/1/summary.json" && field test_accuracy "$1/2/summary.json"; } |
        awk '{ sum += $1 } END { printf "%.4f", sum / NR }'
}
learn sgd 1 32 alone-asynchronous
learn sgd 1 128 alone-synchronous
learn sgd 1 32 alone-downpour --set train.optimizer='{adagrad: {lr: 0.05, eps: 1e-8}}'
# Three quarters of four epochs.
learn sgd 1 32 alone-cut-asynchronous --set train.epochs=3
learn sgd 1 128 alone-cut-synchronous --set train.epochs=3

compare() { # STRATEGY ALONE
    local ours theirs
    ours=$(accuracy "$1") theirs=$(accuracy "$2")
    echo "$1: $ours, one device $theirs"
    near "$ours" "$theirs" 0.01 || fail "$1 reaches $ours, one device $theirs"
}
near() { # OURS THEIRS BY
    awk -v ours="$1" -v theirs="$2" -v by="$3" 'BEGIN { exit !(theirs > 0.8 && ours > theirs - by) }'
}
# Those that people are told of: a new one is in this test by being there.
"$RINGTMP" list strategies | sed -n 's/^\([a-z0-9-]*\): .*/\1/p' | grep -v '^sgd$\|^ring' >names
[ "$(wc -l <names)" -ge 18 ] || fail "only these strategies: $(tr '\n' ' ' <names)"
while read -r name; do
    case $name in
    ps-cut) learn "$name" 4 128 "$name" && compare "$name" alone-cut-synchronous ;;
    downpour) learn "$name" 4 32 "$name" && compare "$name" alone-downpour ;;
    ps-async | ps-ssp | ps-vap) learn "$name" 4 32 "$name" && compare "$name" alone-asynchronous ;;
    *) learn "$name" 4 128 "$name" && compare "$name" alone-synchronous ;;
    esac
done <names
for base in async ssp; do
    learn "ps-hier,base=$base" 4 32 "ps-hier,base=$base" && compare "ps-hier,base=$base" alone-asynchronous
    learn "ps-shard,base=$base" 4 32 "ps-shard,base=$base" && compare "ps-shard,base=$base" alone-asynchronous
    learn "ps-cut,base=$base" 4 32 "ps-cut,base=$base" && compare "ps-cut,base=$base" alone-cut-asynchronous
done
# Two rings of two nodes each: two workers, as far as the exchange is concerned.
for exchange in ps-async ps-ssp downpour ps-backup; do
    strategy=hybrid,rings=2,exchange=$exchange
    case $exchange in
    downpour) learn "$strategy" 4 32 "$strategy" && compare "$strategy" alone-downpour ;;
    ps-backup) learn "$strategy" 4 128 "$strategy" && compare "$strategy" alone-synchronous ;;
    *) learn "$strategy" 4 32 "$strategy" && compare "$strategy" alone-asynchronous ;;
    esac
done

# ---- the example as it is, with its own optimizer and its own number of epochs ----
# Mostly 1.5 points below one device, ps-ssp once 3.2; a training that swings up stays at 0.1.
run 0 train "$repository/examples/fashion-mlp.yaml" --quiet --out as-it-is/alone
theirs=$(field test_accuracy as-it-is/alone/summary.json)
for strategy in ps-async ps-ssp ps-vap downpour ps-{hier,shard,cut},base={async,ssp}; do
    run 0 train "$repository/examples/fashion-mlp.yaml" --nodes 4 --strategy "$strategy" --quiet --out "as-it-is/$strategy"
    ours=$(field test_accuracy "as-it-is/$strategy/summary.json")
    echo "the example, $strategy: $ours, one device $theirs"
    near "$ours" "$theirs" 0.05 || fail "the example, $strategy: $ours, one device $theirs"
done
finish
