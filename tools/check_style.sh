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

check() { # DIRECTORY
    local bad=0 file lines
    while read -r file; do
        lines=$(wc -l <"$file")
        if [ "$lines" -gt 600 ]; then
            echo "$file: $lines lines; one idea a file, 600 lines at most"
            bad=1
        fi
    done < <(files "$1" '*.[ch]' '*.sh' '*.py' '*.cmake' CMakeLists.txt Makefile)

    # The words are put together here so that this file does not contain them.
    local undone="TO""DO|FIX""ME|X""XX" machine="/wo""rk/|/ro""ot/|/ho""me/[a-z]"
    while read -r file; do
        grep -HnE "\b($undone)\b" "$file" && { echo "  ^ do it, or write an issue"; bad=1; }
        grep -HnE "(^|[^A-Za-z0-9_.])($machine)" "$file" && { echo "  ^ a path of somebody's machine"; bad=1; }
        grep -HnE '[[:space:]]+$' "$file" && { echo "  ^ spaces at the end of a line"; bad=1; }
    done < <(files "$1" '*.[ch]' '*.sh' '*.py' '*.cmake' '*.md' '*.yaml' '*.in' '*.map' CMakeLists.txt Makefile run)

    # Other versions of clang-format lay some lines out differently, so only the one of Debian 12 decides.
    if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
        while read -r file; do
            clang-format --style="file:$format" --dry-run -Werror "$file" 2>/dev/null && continue
            echo "$file: not laid out by clang-format; run make format"
            bad=1
        done < <(files "$1" '*.[ch]')
    else
        echo "note: clang-format 14 is not here, so the layout was not checked"
    fi
    return $bad
}

format=$(cd "$(dirname "$0")/.." && pwd)/.clang-format

# A check that cannot fail is worth nothing: it must object to each of these alone.
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
must_object() { # WHAT
    if check "$trial" >/dev/null 2>&1; then
        echo "check_style: the check itself is broken: it passed $1" >&2
        exit 1
    fi
    rm -f "$trial"/*
}
echo "/* TO""DO */" >"$trial/a.c" && must_object "work left undone"
echo "path=/wo""rk/x" >"$trial/a.sh" && must_object "a machine's path"
seq 601 >"$trial/a.py" && must_object "601 lines"
printf 'text \n' >"$trial/a.md" && must_object "spaces at the end of a line"
if command -v clang-format >/dev/null && clang-format --version | grep -q 'version 14\.'; then
    echo 'int  main( void ){return 0;}' >"$trial/a.c" && must_object "a badly laid out file"
fi

check "${1:-$(dirname "$0")/..}" && echo "style: as it should be"
