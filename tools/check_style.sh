#!/usr/bin/env bash
# What a reader may rely on in every file: laid out by clang-format, at most 600 lines, nothing left undone, no
# path of somebody's machine. Run as a test; `tools/check_style.sh DIRECTORY` checks another tree.
set -u

files() { # DIRECTORY PATTERN...
    local directory=$1 names=() pattern
    shift
    for pattern in "$@"; do names+=(-o -name "$pattern"); done
    find "$directory" \( -name .git -o -name build -o -name 'build-*' -o -name runs -o -name corpus -o -name golden \) -prune \
        -o -type f \( "${names[@]:1}" \) -print | sort
}

check() { # DIRECTORY: prints what is wrong, nothing when all is well
    files "$1" '*.[ch]' '*.sh' '*.py' '*.cmake' CMakeLists.txt Makefile | tr '\n' '\0' |
        xargs -0 -r awk 'FNR == 601 { print FILENAME ": over 600 lines; one idea a file" }'

    # The words are put together here so that this file does not contain them.
    local undone="TO""DO|FIX""ME|X""XX" machine="/wo""rk/|/ro""ot/|/ho""me/[a-z]"
    files "$1" '*.[ch]' '*.sh' '*.py' '*.cmake' '*.md' '*.yaml' '*.in' '*.map' CMakeLists.txt Makefile run | tr '\n' '\0' |
        xargs -0 -r grep -HnE "\b($undone)\b|(^|[^A-Za-z0-9_.])($machine)|[[:space:]]+$" /dev/null |
        sed 's/$/    <- work left undone, a path of one machine, or spaces at the end/'

    if [ "$formatter" = yes ]; then
        files "$1" '*.[ch]' | tr '\n' '\0' | xargs -0 -r clang-format --style="file:$format" --dry-run 2>&1 |
            sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: .*clang-format.*/\1: not laid out by clang-format; run make format/p' | uniq
    fi
}

format=$(cd "$(dirname "$0")/.." && pwd)/.clang-format
# Other versions of clang-format lay some lines out differently, so only the one of Debian 12 decides.
formatter=no
clang-format --version 2>/dev/null | grep -q 'version 14\.' && formatter=yes

# A check that cannot fail is worth nothing: it must object to each of these alone.
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
must_object() { # WHAT
    if [ -z "$(check "$trial")" ]; then
        echo "check_style: the check itself is broken: it passed $1" >&2
        exit 1
    fi
    rm -f "$trial"/*
}
echo "/* TO""DO */" >"$trial/a.c" && must_object "work left undone"
echo "path=/wo""rk/x" >"$trial/a.sh" && must_object "a machine's path"
seq 601 >"$trial/a.py" && must_object "601 lines"
printf 'text \n' >"$trial/a.md" && must_object "spaces at the end of a line"
if [ "$formatter" = yes ]; then
    echo 'int  main( void ){return 0;}' >"$trial/a.c" && must_object "a badly laid out file"
else
    echo "note: clang-format 14 is not here, so the layout is not checked"
fi

cd "${1:-$(dirname "$0")/..}" || exit 1
wrong=$(check .)
[ -z "$wrong" ] && echo "style: as it should be" && exit 0
echo "$wrong"
exit 1
