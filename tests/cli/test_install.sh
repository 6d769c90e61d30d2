#!/usr/bin/env bash
# `make install`, then a program outside the tree that embeds the library, found through pkg-config: linked with
# the shared library and with the static one. Also: the shared library shows the public functions, no others.
# labels: once
set -eu
. tests/support/table.sh
CC=${CC:-cc}
fail() { echo "FAILED: $*" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$RT_BUILD" --prefix "$prefix" >"$work/log" || { cat "$work/log"; fail "cmake --install"; }

header=$prefix/include/ringtmp/ringtmp.h
[ "$(find "$prefix/include" -type f)" = "$header" ] || fail "more than the one header was installed"
"$prefix/bin/ringtmp" --version | grep -q "$(sed -n 's/^#define RT_VERSION "\(.*\)"/\1/p' "$header")" ||
    fail "the installed command does not tell the header's version"

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name ringtmp.pc)")
libraries=$(pkg-config --variable=libdir ringtmp)
[ "$(pkg-config --modversion ringtmp)" = "$(sed -n 's/^#define RT_VERSION "\(.*\)"/\1/p' "$header")" ] ||
    fail "ringtmp.pc has another version than the header"

shown=$(nm -D --defined-only "$libraries/libringtmp.so" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort)
declared=$(sed -n 's/^[a-z].*[ *]\(rt_run_[a-z_]*\)(.*/\1/p' "$header" | sort)
[ -n "$declared" ] && [ "$shown" = "$declared" ] || fail "exported: $shown; declared in the header: $declared"

! nm "$libraries/libringtmp.a" 2>/dev/null | grep -q rt_memnet || fail "the library has the network of the tests in it"

mkdir "$work/outside"
cp tests/cli/embed/embed.c "$work/outside"
make_table 240 12 3 >"$work/outside/table.csv"
cat >"$work/outside/run.yaml" <<YAML
model:
  input: 12
  layers:
    - dense: 16
    - relu
    - dense: 3
  loss: cross_entropy
data:
  train: {csv: {file: table.csv, label: label}}
  split: 0.2
  scale: 0.0078125
train:
  batch: 16
  optimizer: {momentum: {lr: 0.05}}
YAML
cd "$work/outside"
warnings="-std=c11 -Wall -Wextra -Werror"

# shellcheck disable=SC2046
"$CC" $warnings embed.c $(pkg-config --cflags --libs ringtmp) -o shared || fail "linking with libringtmp.so"
LD_LIBRARY_PATH=$libraries ldd ./shared | grep -q "$libraries/libringtmp.so" || fail "not linked with libringtmp.so"
LD_LIBRARY_PATH=$libraries ./shared run.yaml "$work/out-shared" >shared.txt || { cat shared.txt; fail "the shared program"; }

# shellcheck disable=SC2046
"$CC" $warnings embed.c $(pkg-config --cflags ringtmp) \
    $(pkg-config --static --libs ringtmp | sed 's/-lringtmp/-l:libringtmp.a/') -o static || fail "linking with libringtmp.a"
./static run.yaml "$work/out-static" >static.txt || { cat static.txt; fail "the static program"; }

# Everything above was done twice with the same run file, so it must have given the same parameters.
[ "$(grep sha256 shared.txt)" = "$(grep sha256 static.txt)" ] || fail "shared and static gave different results"
cat static.txt
