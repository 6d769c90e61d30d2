#!/usr/bin/env bash
# Runs every fuzz target for some seconds, starting from its corpus in fuzz/corpus. What a target finds is kept
# under findings/ beside the targets; put a file worth keeping into the corpus, where `make test` replays it.
#
#   tools/fuzz.sh DIRECTORY-OF-TARGETS SECONDS [INPUTS]
#
# With INPUTS every target stops after so many and draws the same ones each time, so that a check of a change does not
# depend on luck; without, it looks for something new.
set -u

targets=$(cd "${1:?usage: tools/fuzz.sh DIRECTORY SECONDS}" && pwd)
seconds=${2:?usage: tools/fuzz.sh DIRECTORY SECONDS}
bounds=(-max_total_time="$seconds")
[ -z "${3:-}" ] || bounds+=(-runs="$3" -seed=1)
cd "$(dirname "$0")/.." || exit 1

# one TARGET: a line that says how it went, after the end of its log where it went wrong
one() {
    local target=$1 name said
    name=$(basename "$target")
    mkdir -p "$targets/grown/$name" "$targets/findings/$name"
    local corpus=()
    [ -d "fuzz/corpus/$name" ] && corpus=("fuzz/corpus/$name")
    if "$target" "${bounds[@]}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$targets/findings/$name/" "$targets/grown/$name" "${corpus[@]}" >"$targets/$name.log" 2>&1; then
        echo "ok      $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$targets/$name.log") inputs"
    else
        said=$(tail -40 "$targets/$name.log")
        echo "$said"$'\n'"FAILED  $name: the input is under $targets/findings/$name/"
        return 1
    fi
}

# As many at a time as there are cores.
passed=0 failed=0 running=0
wait_one() {
    if wait -n; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    running=$((running - 1))
}
for target in "$targets"/fuzz_*; do
    [ -x "$target" ] && [ ! -d "$target" ] || continue
    [ "$running" -lt "$(nproc)" ] || wait_one
    one "$target" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do wait_one; done
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
