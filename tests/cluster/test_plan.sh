#!/usr/bin/env bash
# What a plan tells: what one device alone would do, on one device too, and who is left out, also to who wants to read
# nothing else.
# labels: once
. "$(dirname "$0")/lib.sh"
write_pictures 96
write_model mlp '[flatten, dense: 64, relu, dense: 64, relu, dense: 4]'
sed -i '/^cluster/d' mlp.yaml

# ---- one device ----
for words in "" "--strategy sgd" "--strategy ring"; do
    # shellcheck disable=SC2086 # none or two
    run 0 plan mlp.yaml $words
    grep -qE '^ +0  master  0-5 flatten..dense +' out || fail "plan $words: no row of one device: $(cat out)"
    grep -qE '^Predicted: [0-9.,]+ samples/s, 0.0 % idle; an update is [0-9]+ micro-batch' out ||
        fail "plan $words: no prediction: $(cat out)"
    ! grep -q alone out || fail "plan $words: one device is compared with itself: $(cat out)"
done

# ---- several ----
gain='^One device alone(, on 1 thread)?: [0-9.,]+ samples/s; these 3: (at most )?[0-9.,]+, [0-9.]+ x\.$'
run 0 plan mlp.yaml --nodes 3 --set cluster.keep_all=true
grep -qE "$gain" out || fail "the plan does not say what one device would do: $(cat out)"
run 0 train mlp.yaml --nodes 3 --set cluster.keep_all=true --out all
grep -qE "$gain" out || fail "training does not say what one device would do: $(cat out)"

# ---- what it costs that a device may be lost; where a link is too slow for both, that is said ----
grep -qE "^Every device keeps a replica .*: at most [0-9.]+ KiB of memory; renewed every 0\.25 s or less often, for at most 2 % of the speed" out ||
    fail "training does not say what replicas cost: $(cat out)"
checkpoint='^A checkpoint of [0-9.]+ KiB is written every 60 s, while training goes on: about [0-9.e-]+ % of the master'
grep -qE "$checkpoint" out || fail "training does not say what checkpoints cost: $(cat out)"
slow=(--nodes 3 --set cluster.keep_all=true --set cluster.bandwidth=10K)
run 0 plan mlp.yaml "${slow[@]}"
grep -qE "^A replica takes [0-9]+ s, so that it costs at most 2 % of the speed: when a device is lost, more than 10 s of training are made again" out ||
    fail "the plan does not say what gives way: $(cat out)"
run 0 plan mlp.yaml "${slow[@]}" --set cluster.replica=off --set train.checkpoint_seconds=0
! grep -qE "replica|checkpoint" out || fail "there are neither: $(cat out)"
run 0 plan mlp.yaml --nodes 3 --strategy ps-sync
grep -qE "^The master keeps an image of the state for when a device is lost: [0-9.]+ KiB of memory, .*; renewed for at most 2 % of the speed" out &&
    grep -qE "$checkpoint" out || fail "the plan of a server does not say what an image costs: $(cat out)"
run 0 train mlp.yaml --nodes 3 --strategy ps-sync --out served --set cluster.replica_every=4
grep -qE "^The master keeps an image of the state for when a device is lost: [0-9.]+ KiB of memory; renewed every 4 updates" out ||
    fail "training with a server does not say what an image costs: $(cat out)"
run 0 plan mlp.yaml --nodes 4 --strategy hybrid
! grep -q "Every device keeps a replica" out && grep -qE "$checkpoint" out || fail "the plan of several rings: $(cat out)"
run 0 plan mlp.yaml --nodes 4 --strategy hybrid,rings=1 --set cluster.keep_all=true
grep -q "Every device keeps a replica" out || fail "the plan of one ring of hybrid: $(cat out)"

# ---- what it did cost ----
for directory in all served; do
    for field in replicas replica_bytes checkpoints checkpoint_bytes; do
        [ "$(field $field $directory/summary.json)" -gt 0 ] ||
            fail "$directory: $field is $(field $field $directory/summary.json)"
    done
    for field in replica_seconds checkpoint_seconds; do
        awk -v s="$(field $field $directory/summary.json)" 'BEGIN { exit !(s > 0 && s < 10) }' || fail "$directory: $field is $(field $field $directory/summary.json)"
    done
done

# ---- fewer than asked for ----
few=(--nodes 3 --set 'cluster.slowdown=[1, 1000, 1000]')
run 0 train mlp.yaml "${few[@]}" --quiet --out few
says err "ringtmp: note: local 1 and local 2 are left out: "
[ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] || fail "more than that: $(cat out err)"
[ "$(field nodes few/summary.json) of $(field nodes_offered few/summary.json)" = "1 of 3" ] ||
    fail "the summary: $(grep nodes few/summary.json)"
grep -q '"event": "notice".*are left out' few/journal.jsonl || fail "the journal does not know who was left out"
run 0 train mlp.yaml "${few[@]}" --out told
[ "$(grep -c "are left out" err)" -eq 1 ] || fail "told $(grep -c "are left out" err) times: $(cat err)"
[ "$(field nodes all/summary.json) of $(field nodes_offered all/summary.json)" = "3 of 3" ] ||
    fail "the summary of all: $(grep nodes all/summary.json)"
run 0 train mlp.yaml --quiet --out one
[ ! -s err ] && [ "$(field nodes_offered one/summary.json)" = 1 ] || fail "one device: $(cat err)"
finish
