#!/usr/bin/env bash
# The same run on this machine and on 64-bit ARM, under an emulator: the same parameters, bit for bit. Three
# small networks that between them use every kind of arithmetic there is, trained with several kernels, thread
# counts and micro-batches.
# labels: once first
set -eu
. tests/support/table.sh
fail() { echo "FAILED: $*" >&2; exit 1; }
skip() { # .ci/run sets RT_NO_SKIP: there, nothing may be missing
    [ -z "${RT_NO_SKIP:-}" ] || fail "$*"
    echo "skipped: $*"
    exit 77
}

[ "$(uname -m)" != aarch64 ] || skip "this machine is 64-bit ARM itself"
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null || skip "$tool is not here (tools/setup.sh cross installs it)"
done
[ -e /usr/aarch64-linux-gnu/include/stdio.h ] || skip "libc6-dev-arm64-cross is not here"
# Tests use no network: the libraries are fetched before, or not at all.
sysroot=$PWD/build/arm64-sysroot
[ -e "$sysroot/complete" ] || skip "the ARM libraries are not here (make arm64 fetches them)"

build=$RT_BUILD/arm64
{
    cmake -S . -B "$build" -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake -DRT_SYSROOT="$sysroot" &&
        cmake --build "$build" --target ringtmp -j2
} >"$RT_BUILD/arm64.log" 2>&1 || { tail -20 "$RT_BUILD/arm64.log"; fail "the build for ARM"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make_table 96 64 4 >"$work/table.csv"
data="
data:
  train: {csv: {file: table.csv, label: label}}
  split: 0.25
  standardize: true"
cat >"$work/mlp.yaml" <<YAML
model:
  input: 64
  layers:
    - dense: 33
    - gelu
    - layernorm
    - dense: 20
    - tanh
    - dropout: 0.2
    - residual:
        - dense: 20
        - elu
    - dense: 10
    - sigmoid
    - dense: 4
  loss: cross_entropy
$data
train:
  batch: 16
  epochs: 3
  shards: 2
  clip_norm: 1
  optimizer: {adamw: {lr: 0.01}}
  schedule: {cosine: {warmup: 1}}
YAML
cat >"$work/cnn.yaml" <<YAML
model:
  input: [1, 8, 8]
  layers:
    - conv2d: {filters: 6, kernel: 3, pad: 1}
    - leaky_relu
    - maxpool: 2
    - conv2d: {filters: 12, kernel: 3, groups: 2}
    - relu
    - avgpool: 2
    - flatten
    - dense: 4
  loss: cross_entropy
$data
train:
  batch: 16
  epochs: 3
  optimizer: {momentum: {lr: 0.05}}
YAML
# Batch normalisation looks at a micro-batch, so here its size is part of the run.
cat >"$work/norm.yaml" <<YAML
model:
  input: [1, 8, 8]
  layers:
    - conv2d: {filters: 8, kernel: 3, stride: 2, pad: 1}
    - batchnorm
    - relu
    - residual:
        - conv2d: {filters: 8, kernel: 3, pad: 1, groups: 8}
        - batchnorm
    - global_avgpool
    - dense: 4
  loss: cross_entropy
$data
train:
  batch: 16
  micro_batch: 8
  epochs: 3
  optimizer: {adagrad: {lr: 0.02}}
YAML

# sha NAME COMMAND...: trains and prints the hash of the parameters
sha() {
    local name=$1
    shift
    "$@" --out "$work/out-$name" --quiet >"$work/$name.log" 2>&1 || { cat "$work/$name.log" >&2; return 1; }
    sed -n 's/.*"params_sha256": *"\([0-9a-f]*\)".*/\1/p' "$work/out-$name/summary.json"
}
native() { "$RINGTMP" "$@"; }
arm() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/ringtmp" "$@"; }

for net in mlp cnn norm; do
    run=$work/$net.yaml
    expected=$(sha $net-native native train "$run") || fail "$net here"
    [ ${#expected} -eq 64 ] || fail "$net: no params_sha256 in summary.json"
    number=0
    for settings in "" "train.kernels=portable train.threads=1" "train.threads=2 train.micro_batch=3"; do
        number=$((number + 1))
        arguments=()
        [ $net = norm ] && settings=${settings%train.micro_batch=*}
        for setting in $settings; do arguments+=(--set "$setting"); done
        got=$(sha $net-arm-$number arm train "$run" "${arguments[@]}") || fail "$net on ARM ($settings)"
        [ "$got" = "$expected" ] || fail "$net: $expected here, $got on ARM (${settings:-as it is})"
    done
    echo "$net: $expected here and on ARM, three ways"
done
