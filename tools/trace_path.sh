#!/usr/bin/env bash
# How far a message travels through the code: for a FORWARD of a ring, from the socket to the layer and from the layer
# to the socket, and for a gradient in ps-sync and in ps-async, from the end of backward to the socket and from the
# socket to the applied update: functions, files, folders, and hand-offs between threads above the transport.
#
#   tools/trace_path.sh [SOURCE] [--list]
#
# SOURCE is a tree of RingTMP, also an older one; otherwise the one this script is in. It is built below build/trace of
# that one with -finstrument-functions, and three processes train a small model. --list prints every call of each path,
# those that are on the way with a star. tools/trace_path.py says what is counted.
set -eu

tools=$(cd "$(dirname "$0")" && pwd)
source=$tools/.. list=
for word in "$@"; do
    case $word in --list) list=--list ;; *) source=$word ;; esac
done
source=$(cd "$source" && pwd)
build=$(dirname "$tools")/build/trace/$(printf '%s' "$source" | cksum | cut -d' ' -f1)
mkdir -p "$build"

cc -g -O1 -Wall -Wextra -I"$source/src" -I"$source/include" -c "$tools/trace_path.c" -o "$build/trace_path.o"
# Without the parts whose functions are not counted: their records would be most of all.
left_out=src/base,src/tensor,src/net
cmake -S "$source" -B "$build" --log-level=WARNING -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS="-O0 -g1 -finstrument-functions -finstrument-functions-exclude-file-list=$left_out" \
    -DCMAKE_EXE_LINKER_FLAGS="-no-pie -Wl,--wrap=rt_endpoint_wait,--wrap=rt_endpoint_wake,--wrap=rt_link_send \
$build/trace_path.o" >/dev/null
rm -f "$build/ringtmp" # the recorder in it may be an older one
cmake --build "$build" --target ringtmp -j"$(nproc)" >"$build/build.log" || { cat "$build/build.log" && exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
awk 'BEGIN { for (i = 0; i < 240; i++) print i % 7 / 7 "," i % 5 / 5 "," i % 3 / 3 "," (i % 7 + i % 5 > 5) }' >data.csv
cat >run.yaml <<'YAML'
model: {input: 3, layers: [dense: 8, tanh, dense: 6, tanh, dense: 2], loss: cross_entropy}
data: {train: {csv: {file: data.csv, label: 3}}}
train: {batch: 12, updates: 300, threads: 1, optimizer: {sgd: {lr: 0.1}}}
YAML
for strategy in ring ps-sync ps-async; do
    plan=()
    [ $strategy != ring ] || plan=(--set cluster.keep_all=true --set cluster.plan=even)
    mkdir $strategy
    RT_TRACE=$work/$strategy "$build/ringtmp" train run.yaml --nodes 3 --strategy $strategy "${plan[@]}" \
        --quiet --out "of-$strategy"
done
python3 "$tools/trace_path.py" "$build/ringtmp" "$work" $list
