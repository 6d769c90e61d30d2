#!/usr/bin/env bash
# One result, whatever the ring: every number of nodes with every size of micro-batch, order of the work, model and
# optimizer has the single device's parameters, to the bit; so has a run that every number of nodes has taken over from
# every other. `make test-long` runs this; tests/cluster/test_ring.sh has every pair of these choices, and more choices.
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

# The same in memory, with random delays on every link, and stopped and resumed in every way.
: "${RT_BUILD:=${RINGTMP%/*}}"
cmake --build "$RT_BUILD" --target test_ring_exact >build.log 2>&1 || fail "test_ring_exact is not built: $(tail -5 build.log)"
RT_EVERY_CASE=1 "$RT_BUILD/tests/test_ring_exact" >exact.log 2>&1 || fail "in memory: $(tail -20 exact.log)"
grep '^[0-9]* rings ' exact.log

# One update on each of these numbers of nodes in turn, each time resumed: all twenty pairs of one number and the next. The
# other choices change as well, as they may. A bit that is lost on the way is missing at the end.
walk=(1 2 1 3 1 4 1 8 2 3 2 4 2 8 3 4 3 8 4 8 1)
pairs=$(for ((i = 1; i < ${#walk[@]}; i++)); do echo "${walk[i - 1]} ${walk[i]}"; done | awk '$1 != $2' | sort -u | wc -l)
[ "$pairs" -eq 20 ] || fail "the walk has $pairs pairs, not twenty"
micros=(1 4 16 auto) schedules=(split 1f1b)
started=$SECONDS count=0
for model in mlp cnn dropout; do
    for optimizer in sgd momentum nesterov adagrad adam adamw; do
        rm -rf ring alone
        resume=()
        for i in "${!walk[@]}"; do
            run 0 train "$model.yaml" --nodes "${walk[i]}" --strategy "ring,schedule=${schedules[i % 2]}" --quiet --out ring \
                "${resume[@]}" --set train.optimizer="$optimizer" --set train.micro_batch="${micros[i % 4]}" \
                --set train.updates=$((i + 1))
            [ "$(field nodes ring/summary.json)" = "${walk[i]}" ] || fail "resume $i: not on ${walk[i]} nodes"
            [ "$(field updates ring/summary.json)" = $((i + 1)) ] || fail "resume $i: not one more update"
            resume=(--resume)
        done
        run 0 train "$model.yaml" --strategy sgd --quiet --out alone --set train.optimizer="$optimizer" \
            --set train.updates=${#walk[@]}
        same "$model, $optimizer, resumed on ${walk[*]} nodes" alone ring
        count=$((count + pairs))
    done
done
[ "$count" -eq $((3 * 6 * 20)) ] || fail "only $count resumed runs"
echo "$count resumed runs had the single device's parameters after $((SECONDS - started)) s"
finish
