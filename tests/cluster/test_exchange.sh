#!/usr/bin/env bash
# Data-parallel training by real processes over TCP. With train.shards the parameters of recursive doubling,
# halving-doubling and the synchronous servers are those of the single device and of the ring, to the bit, for every
# number of workers up to that of the shards.
# labels: once
. "$(dirname "$0")/lib.sh"
write_models
sed -i '/^cluster:/d' ./*.yaml # what rings need
started=$SECONDS

# ---- one result ----
# Batches of 20 over 96 examples: the last of an epoch has 16. Eight shards: two or three rows each.
eight='--set train.shards=8 --set data.hold_out=0.1 --set train.validate_updates=4'
for model in mlp cnn dropout; do
    case $model in mlp) optimizer=adam ;; cnn) optimizer=momentum ;; *) optimizer=adagrad ;; esac
    settings="$eight --set train.optimizer=$optimizer"
    run 0 train $model.yaml --strategy sgd --quiet --out alone-$model $settings
    run 0 train $model.yaml --nodes 2 --strategy ring --set cluster.keep_all=true --quiet --out ring-$model $settings
    same "$model, the ring" alone-$model ring-$model
    case $model in mlp) counts="1 2 3" ;; cnn) counts="4 5" ;; *) counts="6 7 8" ;; esac
    for nodes in $counts; do
        for strategy in allreduce-rd allreduce-hd ps-sync ps-tree ps-shard; do
            spread result $model.yaml $nodes $strategy $settings
            same "$model, $strategy, $nodes nodes" alone-$model result
        done
    done
done
spread result mlp.yaml 4 ps-sync $eight --set train.optimizer=adam --set train.micro_batch=1
same "micro-batches of one" alone-mlp result
run 0 train mlp.yaml --strategy sgd --quiet --out alone-clip $eight --set train.clip_norm=0.3
for strategy in allreduce-rd ps-sync ps-sync,exchange=binom; do
    spread result mlp.yaml 4 $strategy $eight --set train.clip_norm=0.3
    same "clipping, $strategy" alone-clip result
done
# Some workers have no rows at all: the last batch has 4.
sed 's/batch: 20/batch: 23/' mlp.yaml >odd.yaml
run 0 train odd.yaml --strategy sgd --quiet --out alone-odd --set train.shards=8
spread result odd.yaml 8 allreduce-rd --set train.shards=8
same "workers without rows" alone-odd result
# Servers without a worker, and servers that share the parameters.
for strategy in ps-sync,dedicated=true ps-tree,dedicated=true ps-shard,k=2,dedicated=true ps-shard,k=3; do
    case $strategy in ps-tree*) nodes=6 ;; *k=2,ded*) nodes=5 ;; *k=3) nodes=3 ;; *) nodes=4 ;; esac
    spread result mlp.yaml $nodes $strategy $eight --set train.optimizer=adam
    same "$strategy" alone-mlp result
done
# Shares follow speed; a device that would only delay the others has none.
by_speed() { # SHARES STRATEGY SLOWDOWN: regular expressions of what is printed
    rm -rf uneven
    run 0 train mlp.yaml --nodes 4 --strategy "$2" $eight --set train.optimizer=adam --set "cluster.slowdown=$3" --out uneven
    grep -qE "^Of the 8 slices of a batch the workers have $1" out || fail "$2: not '$1': $(cat out)"
    same "$2, shares by speed" alone-mlp uneven
}
by_speed "[0-9], [0-9], [0-9], 0, by their speed" allreduce-hd "[1, 1, 1, 50]"
by_speed "[0-9], [0-9], [0-9], 0, by their speed" ps-shard "[1, 1, 1, 50]"
by_speed "2, 2, 2, 2\.$" ps-sync,shares=equal "[1, 1, 1, 5]"
echo "one result after $((SECONDS - started)) s"

finish
