#!/usr/bin/env bash
# What the documentation shows works: programs are compiled, and that of the quick start is run; run files are trained with; sources are
# understood; every command has the options that it is shown with, and its settings are accepted.
# labels: once
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "there is no python3 to read the pages with"
python3 "$root/tests/cli/docs.py" "$root" "$RINGTMP" || fail "the pages are wrong"
at_least() { # COUNT KIND: so many were found, so the pages were read as they are written
    [ "$2" -ge "$1" ] || fail "only $2 $3"
}

# ---- programs ----
at_least 1 "$(find programs -name '*.c' | wc -l)" programs
cp "$(grep -l 'maxpool' blocks/quickstart-*.yaml | head -1)" run.yaml
for program in programs/*.c; do
    # shellcheck disable=SC2046
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -I"$root/include" "$program" "${RT_BUILD:-$root/build}/libringtmp.a" \
        $(pkg-config --libs yaml-0.1 jansson zlib openssl) -lm -pthread -o program || {
        fail "$program does not compile"
        continue
    }
    ./program >out 2>err || fail "$program: $(cat err)"
    case $program in *quickstart*) says out "probability of class 0" ;; esac
done
for script in scripts/*.py; do python3 -m py_compile "$script" || fail "$script is not Python"; done

# ---- run files ----
at_least 5 "$(find blocks -name '*.yaml' | wc -l)" "run files"
for file in blocks/*.yaml; do
    cp "$file" tried.yaml
    "$RINGTMP" train tried.yaml --out "out-${file##*/}" --quiet --set train.updates=2 >out 2>err <rows || fail "$file: $(cat err)"
done

# ---- sources: nothing is wrong with them but that there are no such files ----
at_least 8 "$(grep -c . sources)" sources
cat >base.yaml <<'END'
model: {input: 3, layers: [{dense: 3}], loss: cross_entropy}
data: {train: {csv: nothing.csv}}
END
while IFS= read -r line; do
    run 2 train base.yaml --out never --set "data.train=${line#*: }"
    grep -q "there is no file" err || fail "$line: $(cat err)"
done <sources

# ---- commands ----
at_least 12 "$(grep -c . commands)" commands
while IFS=$'\t' read -r -a words; do
    run 2 train base.yaml --out never "${words[@]:1}"
    grep -q "nothing.csv" err || fail "${words[*]}: $(cat err)"
done <commands
[ ! -e never ] || fail "a run without data has made its directory"

# ---- a picture that is made of our functions ----
delays=${RT_BUILD:-$root/build}/tests/test_delay
if [ -x "$delays" ]; then
    "$root/tools/plot_delays.py" "$delays" >delay.svg && cmp delay.svg "$root/docs/delay.svg" || fail "docs/delay.svg is not what tools/plot_delays.py draws"
fi
finish
