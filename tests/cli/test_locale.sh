#!/usr/bin/env bash
# A program whose locale has a decimal comma trains on several nodes as any other: what nodes are told, and what is written, has
# points.
# labels: once
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/lib.sh"
command -v localedef >/dev/null && localedef -i de_DE -f ISO-8859-1 "$PWD/de_DE" 2>/dev/null ||
    skip "no locale with a decimal comma can be made"
write_run 2
cat >comma.c <<'END'
#include <locale.h>
#include <ringtmp/ringtmp.h>
#include <stdio.h>

int main(int argc, char **argv) { /* OUT KEY VALUE ... */
    struct rt_error err;
    struct rt_run *run = NULL;
    rt_status status = setlocale(LC_ALL, "de_DE") ? rt_run_open("run.yaml", &run, &err) : RT_BAD_INPUT;
    for (int i = 2; status == RT_OK && i + 1 < argc; i += 2)
        status = rt_run_set(run, argv[i], argv[i + 1], &err);
    if (status == RT_OK)
        status = rt_run_set_out(run, argv[1], &err);
    if (status == RT_OK)
        status = rt_run_train(run, NULL, NULL, &err);
    printf("%.1f\n%s\n", 1.5, status == RT_OK ? rt_run_result(run)->params_sha256 : err.text);
    rt_run_close(run);
    return status != RT_OK;
}
END
# shellcheck disable=SC2046
${CC:-cc} -I"$root/include" comma.c "${RT_BUILD:-$root/build}/libringtmp.a" \
    $(pkg-config --libs yaml-0.1 jansson zlib openssl) -lm -pthread -o comma || fail "comma.c does not compile"
export LOCPATH=$PWD PATH=${RINGTMP%/*}:$PATH
run 0 train run.yaml --out alone --quiet --set train.clip_norm=0.5
comma() { # NAME STRATEGY NODES KEY VALUE ...
    local name=$1 strategy=$2 nodes=$3
    shift 3
    ./comma "$name" cluster.nodes "$nodes" cluster.strategy "$strategy" cluster.keep_all true "$@" >out 2>err ||
        fail "$strategy: $(cat out err)"
    grep -q '^1,5$' out || fail "the locale has no comma"
}
comma ring ring 2 train.clip_norm 0.5 cluster.slowdown '[1, 1.5]' train.report_seconds 0.001
tail -1 out | grep -q "$(field params_sha256 alone/summary.json)" || fail "a ring under another locale: $(cat out)"
grep -q '"samples_per_s": [0-9]*\.[0-9]' ring/journal.jsonl || fail "journal: $(grep samples_per_s ring/journal.jsonl | head -1)"
comma server ps-async,dc=0.04 2 cluster.timeout 7.5 train.weight_decay 0.001
grep -q 'dc=0.04' server/summary.json || fail "summary: $(grep strategy_options server/summary.json)"
comma rings hybrid 4 cluster.timeout 7.5
finish
