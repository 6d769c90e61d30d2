#!/usr/bin/env bash
# One result: the parameters of a ring are those of the single device, to the bit, whatever the number of nodes, the
# micro-batches, the order of the work, the model, the optimizer, and who holds what. Every value of one choice meets
# every value of each other choice (tests/long/test_ring_all.sh: all together).
# labels: once
. "$(dirname "$0")/lib.sh"
write_models
started=$SECONDS

# alone NAME RUN WORD...: the single device's result goes to NAME, once
alone() {
    local name=$1 file=$2
    shift 2
    [ -e "$name/summary.json" ] || run 0 train "$file" --strategy sgd --quiet --out "$name" "$@"
}

# ---- pairwise ----
count=0
while read -r case; do
    model='' optimizer='' nodes='' micro='' schedule='' shards='' clip='' tail='' slots='' threads='' plan=''
    for word in $case; do declare "$word"; done
    result="alone-$model-$optimizer-$shards-$clip"
    settings=(--set train.optimizer="$optimizer" --set train.shards="$shards" --set train.clip_norm="$clip")
    alone "$result" "$model.yaml" "${settings[@]}"
    spread ring "$model.yaml" "$nodes" "ring,schedule=$schedule,slots=$slots" "${settings[@]}" \
        --set train.micro_batch="$micro" --set train.threads="$threads" --set cluster.master_tail="$tail" \
        --set cluster.plan="$plan"
    same "$case" "$result" ring
    count=$((count + 1))
done < <(python3 "$tests/cases.py" pairs model=mlp,cnn,dropout optimizer=sgd,momentum,nesterov,adagrad,adam,adamw \
    nodes=1,2,3,4,8 micro=1,4,16,auto schedule=split,1f1b shards=1,2,4 clip=0,0.5 tail=0,1,2 slots=auto,1,3 \
    threads=1,2 plan=even,auto)
[ "$count" -ge 30 ] || fail "only $count cases"
# The choices that belong to the result do change it: else the runs above would prove nothing.
distinct=$(for result in alone-*; do hash_of "$result"; done | sort | uniq -d | wc -l)
[ "$distinct" -eq 0 ] || fail "$distinct results are the same though their settings are not"
echo "$count rings had the single device's parameters after $((SECONDS - started)) s"

# ---- batch normalisation: the micro-batch belongs to the result, the nodes do not ----
write_model norm '[conv2d: {filters: 4, pad: 1}, batchnorm, relu, residual: [conv2d: {filters: 4, pad: 1}, batchnorm],
    flatten, dense: 16, batchnorm, relu, dense: 4]'
for micro in 4 20; do
    alone norm-$micro norm.yaml --set train.micro_batch=$micro
    for nodes in 2 5; do
        spread ring norm.yaml $nodes ring,slots=2 --set train.micro_batch=$micro
        same "batchnorm, micro_batch $micro, $nodes nodes" norm-$micro ring
        # The statistics that it learns are no parameters: they are in the model's file.
        cmp -s norm-$micro/model.safetensors ring/model.safetensors || fail "batchnorm, $nodes nodes: another model file"
    done
done
[ "$(hash_of norm-4)" != "$(hash_of norm-20)" ] || fail "micro_batch does not matter with batchnorm"

# ---- the model's file is the same too, and what it starts from ----
alone first mlp.yaml
spread ring mlp.yaml 4 ring
cmp -s first/model.safetensors ring/model.safetensors || fail "a ring writes another model file"
start=(--set model.init=first/model.safetensors --set train.optimizer=adam)
alone second mlp.yaml "${start[@]}"
spread ring mlp.yaml 3 ring "${start[@]}"
same "model.init" second ring
[ "$(hash_of first)" != "$(hash_of second)" ] || fail "model.init changes nothing"

# ---- validation on the way, the best model kept, a test at the end ----
check=(--set data.hold_out=0.25 --set data.split=0.25 --set train.updates=0 --set train.epochs=8
    --set train.optimizer='{momentum: {lr: 0.5}}')
alone checked dropout.yaml "${check[@]}"
spread ring dropout.yaml 4 ring "${check[@]}"
same "keep_best" checked ring
for value in model_update validation_loss validation_accuracy test_loss test_accuracy train_loss; do
    [ "$(field $value checked/summary.json)" = "$(field $value ring/summary.json)" ] ||
        fail "$value: $(field $value checked/summary.json) alone, $(field $value ring/summary.json) on a ring"
done
[ "$(field model_update checked/summary.json)" -lt "$(field updates checked/summary.json)" ] ||
    fail "the last model was the best: keep_best was not tried"

# ---- a target that is the input, and the mean squared error ----
write_model auto '[flatten, dense: 24, relu, dense: 8, relu, dense: 24, relu, dense: 64]'
sed -i 's/cross_entropy/mse/; s/^data:/&\n  target: input/' auto.yaml
alone auto auto.yaml
spread ring auto.yaml 4 ring --set train.micro_batch=4
same "an auto-encoder" auto ring

# ---- the incomplete batch at the end of an epoch left out: 4 batches of 96 pictures, not 5, whoever trains ----
drop=(--set train.drop_last=true --set train.updates=10 --set train.shards=2)
alone dropped mlp.yaml "${drop[@]}"
[ "$(field samples dropped/summary.json)" = 200 ] || fail "drop_last: $(field samples dropped/summary.json) samples, not 200"
for strategy in ring ring,slots=1 allreduce-rd ps-sync hybrid; do
    for send in false true; do
        case $strategy/$send in ring*/true) continue ;; esac
        case $strategy in ring* | hybrid*) plan=even ;; *) plan=auto ;; esac
        spread ring mlp.yaml 2 $strategy "${drop[@]}" --set data.send=$send --set cluster.plan=$plan
        same "drop_last, $strategy, data.send: $send" dropped ring
        [ "$(field samples ring/summary.json)" = 200 ] || fail "drop_last, $strategy: $(field samples ring/summary.json) samples"
    done
done
for strategy in ps-async ps-cut,cut=0.75 hybrid,exchange=ps-async; do
    spread ring mlp.yaml 2 $strategy "${drop[@]}" --set cluster.plan=auto
    [ "$(field samples ring/summary.json)" = 200 ] || fail "drop_last, $strategy: $(field samples ring/summary.json) samples"
done

# ---- a weight decay of 0 that is given travels too: it is not the rule's own ----
decay=(--set train.optimizer=adamw --set train.weight_decay=0)
alone undecayed mlp.yaml "${decay[@]}"
spread ring mlp.yaml 2 ring "${decay[@]}"
same "adamw without weight decay" undecayed ring
alone decayed mlp.yaml --set train.optimizer=adamw
[ "$(hash_of undecayed)" != "$(hash_of decayed)" ] || fail "train.weight_decay=0 changes nothing"

# ---- the other modes where they must agree ----
alone one mlp.yaml --set train.batch=1 --set train.updates=40
rm -rf ring
run 0 train mlp.yaml --nodes 4 --strategy ring-one --quiet --out ring --set train.updates=40
same "ring-one" one ring
rm -rf ring
run 0 train mlp.yaml --nodes 4 --strategy ring-flow,slots=1 --quiet --out ring --set train.micro_batch=20
same "ring-flow with one slot" first ring
echo "all after $((SECONDS - started)) s"
finish
