#!/usr/bin/env bash
# Checks every file: formatted by clang-format, at most 600 lines, no unfinished work, no path of one machine. Run as a test; `tools/check_style.sh DIRECTORY` checks another tree.
# labels: once
set -u

# The files of the project in the current directory: those that git tracks; without git, those in the project's
# directories.
project() {
    if [ -e .git ] && git ls-files >/dev/null 2>&1; then
        git -c core.quotePath=off ls-files
    else
        find .ci bench cmake docs examples fuzz include packaging src tests tools CMakeLists.txt Makefile README.md \
            CONTRIBUTING.md CHANGELOG.md -type f 2>/dev/null
    fi | grep -vE '/(corpus|golden)/' | sort
}
files() { # PATTERN...
    local name pattern
    project | while IFS= read -r name; do
        [ -f "$name" ] || continue
        for pattern in "$@"; do
            # shellcheck disable=SC2254
            case ${name##*/} in $pattern) printf '%s\n' "$name" && break ;; esac
        done
    done
}

check() { # prints what is wrong in the current directory, nothing when all is well
    files '*.[ch]' '*.sh' '*.py' '*.cmake' CMakeLists.txt Makefile | tr '\n' '\0' |
        xargs -0 -r awk 'FNR == 601 { print FILENAME ": over 600 lines; one idea a file" }'

    # The words are put together here so that this file does not contain them.
    local undone="TO""DO|FIX""ME|X""XX" machine="/wo""rk/|/ro""ot/|/ho""me/[a-z]"
    files '*.[ch]' '*.sh' '*.py' '*.cmake' '*.md' '*.yaml' '*.in' '*.map' CMakeLists.txt Makefile run | tr '\n' '\0' |
        xargs -0 -r grep -HnE "\b($undone)\b|(^|[^A-Za-z0-9_.])($machine)|[[:space:]]+$" /dev/null |
        sed 's/$/    <- work left undone, a path of one machine, or spaces at the end/'

    if [ "$formatter" = yes ]; then
        files '*.[ch]' | tr '\n' '\0' | xargs -0 -r clang-format --style="file:$format" --dry-run 2>&1 |
            sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: .*clang-format.*/\1: not laid out by clang-format; run make format/p' | uniq
    fi
}

format=$(cd "$(dirname "$0")/.." && pwd)/.clang-format
# Other versions of clang-format lay some lines out differently, so only the one of Debian 12 decides.
formatter=no
clang-format --version 2>/dev/null | grep -q 'version 14\.' && formatter=yes

# The check must be able to fail: it must report each of these alone.
trial=$(mktemp -d)
mkdir "$trial/src"
trap 'rm -rf "$trial"' EXIT
must_object() { # WHAT
    if [ -z "$(cd "$trial" && check)" ]; then
        echo "check_style: the check itself is broken: it passed $1" >&2
        exit 1
    fi
    rm -f "$trial"/src/*
}
echo "/* TO""DO */" >"$trial/src/a.c" && must_object "work left undone"
echo "path=/wo""rk/x" >"$trial/src/a.sh" && must_object "a machine's path"
seq 601 >"$trial/src/a.py" && must_object "601 lines"
printf 'text \n' >"$trial/src/a.md" && must_object "spaces at the end of a line"
if [ "$formatter" = yes ]; then
    echo 'int  main( void ){return 0;}' >"$trial/src/a.c" && must_object "a badly laid out file"
elif [ -n "${RT_NO_SKIP:-}" ]; then
    echo "check_style: clang-format 14 is not here, so the layout cannot be checked" >&2
    exit 1
else
    echo "note: clang-format 14 is not here, so the layout is not checked"
fi

cd "${1:-$(dirname "$0")/..}" || exit 1
wrong=$(check)
[ -z "$wrong" ] && echo "style: as it should be" && exit 0
echo "$wrong"
exit 1
