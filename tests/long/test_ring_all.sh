#!/usr/bin/env bash
# One result, whatever the ring: every number of nodes with every size of micro-batch, order of the work, model and
# optimizer has the single device's parameters, to the bit. `make test-long` runs this; tests/cluster/test_ring.sh has
# every pair of these choices, and more choices.
. "$(dirname "$0")/../cluster/lib.sh"
write_models
started=$SECONDS count=0
while read -r case; do
    model='' optimizer='' nodes='' micro='' schedule=''
    for word in $case; do declare "$word"; done
    alone="alone-$model-$optimizer"
    [ -e "$alone/summary.json" ] ||
        run 0 train "$model.yaml" --strategy sgd --quiet --out "$alone" --set train.optimizer="$optimizer"
    rm -rf ring
    run 0 train "$model.yaml" --nodes "$nodes" --strategy "ring,schedule=$schedule" --quiet --out ring \
        --set train.optimizer="$optimizer" --set train.micro_batch="$micro"
    [ "$(field nodes ring/summary.json)" = "$nodes" ] || fail "$case: not on $nodes nodes"
    same "$case" "$alone" ring
    count=$((count + 1))
done < <(python3 "$tests/cases.py" all model=mlp,cnn,dropout optimizer=sgd,momentum,nesterov,adagrad,adam,adamw \
    nodes=1,2,3,4,8 micro=1,4,16,auto schedule=split,1f1b)
[ "$count" -eq $((3 * 6 * 5 * 4 * 2)) ] || fail "only $count cases"
echo "$count rings had the single device's parameters after $((SECONDS - started)) s"
finish
