#!/usr/bin/env bash
# What a newcomer reads first: help texts, the version, lists, and answers to typing errors.
. "$(dirname "$0")/lib.sh"

run 0 --version
grep -qE '^ringtmp [0-9]+\.[0-9]+\.[0-9]+$' out || fail "--version says '$(cat out)'"
run 0 --help
for command in train eval predict list; do says out "  $command "; done
cp out help
run 0 help
cmp -s out help || fail "'help' and '--help' differ"
run 2
says err "usage:"

for command in train eval predict list; do
    run 0 "$command" --help
    says out "usage: "
    says out "$command"
    says out "examples:"
    says out "--help"
    [ ! -s err ] || fail "$command --help writes errors"
    cp out help
    run 0 help "$command"
    cmp -s out help || fail "'help $command' and '$command --help' differ"
    awk 'length > 120' help | grep . && fail "$command --help has lines of more than 120 characters"
done
# every option of train has a line with its default
run 0 train --help
for option in --nodes --strategy --set --seed --out --resume --math --quiet; do
    grep -qE -- "^  $option .*\(default: .+\)$" out || fail "no line with a default for $option"
done

run 0 list strategies
says out sgd
run 0 list layers
for layer in dense conv2d maxpool relu dropout batchnorm residual; do
    grep -qE "^$layer\b" out || fail "list layers: no $layer"
done
run 0 list optimizers
for rule in sgd momentum nesterov adagrad adam adamw; do
    grep -qE "^$rule\b" out || fail "list optimizers: no $rule"
done
says out "weight_decay"
says out "(default 0.9)"
run 0 list losses
for loss in cross_entropy mse bce; do grep -qE "^$loss\b" out || fail "list losses: no $loss"; done
run 0 list schedules
says out cosine
run 0 list keys
says out micro_batch
cp out keys
run 0 train --help-keys
cmp -s out keys || fail "'list keys' and 'train --help-keys' differ"

refuses 2 "did you mean 'train'?" trian x.yaml
refuses 2 "did you mean '--version'?" --verson
refuses 2 "lists the commands" frobnicate
refuses 2 "did you mean 'train'?" help trian
refuses 2 "did you mean 'layers'?" list layer
refuses 2 "strategies, layers" list fruit
refuses 2 "WHAT is missing" list
refuses 2 "RUN.yaml is missing" train
refuses 2 "RUN.yaml is missing" eval model.safetensors
refuses 2 "is an unexpected argument" train a.yaml b.yaml
refuses 2 "did you mean '--out'?" train a.yaml --ot runs
refuses 2 "--set train.epochs=VALUE" train a.yaml --epochs 3
refuses 2 "--nodes needs a value" train a.yaml --nodes
refuses 2 "takes no value" train a.yaml --quiet=yes
refuses 2 "one of exact, fast" train a.yaml --math slow
refuses 2 "whole number" train a.yaml --nodes two

# output that cannot be written is told; a reader that leaves is no failure
"$RINGTMP" list keys 2>err | head -1 >out
[ -s out ] && [ ! -s err ] || fail "list keys | head: $(cat err)"
"$RINGTMP" list keys >&- 2>err || fail "list keys with no output fails: $(cat err)"
if [ -w /dev/full ]; then
    status=0
    "$RINGTMP" list keys >/dev/full 2>err || status=$?
    [ "$status" -eq 1 ] || fail "list keys >/dev/full: exit status $status, not 1"
    says err "could not be written"
fi
finish
