#!/usr/bin/env bash
# Which part of src/ may include which. A part may always include itself and the public header. Three rules matter
# most: net never sees a message, exchange never sees a layer, nn never sees a socket. Run as a test; `tools/check_includes.sh DIRECTORY` checks another tree.
# labels: once
set -u

# part: what it may include
allowed='
base:
tensor:    base
nn:        tensor base
optim:     base
data:      tensor base
formats:   nn data optim tensor base
wire:      base
net:       base
sim:       net base
metrics:   base
job:       formats nn data optim tensor base
cluster:   wire net metrics base
control:   cluster job optim wire net metrics base
learn:     job formats nn data optim tensor metrics base
plan:      job learn nn tensor wire base
ring:      exchange plan control cluster learn job nn optim data tensor wire net metrics base
exchange:  control cluster job optim wire net metrics base
run:       ring exchange plan learn control cluster job formats nn data optim tensor wire net metrics base
lab:       run ring exchange plan learn control cluster job formats nn data optim tensor wire net metrics base
dashboard: metrics net base
cli:       dashboard lab run ring exchange plan learn control cluster job formats nn data optim tensor wire net metrics base
'

# Prints a line for every include that breaks the table; fails when there is one.
check() { # DIRECTORY
    find "$1/src" "$1/include" -name '*.[ch]' -print0 2>/dev/null | sort -z |
        xargs -0 awk -v table="$allowed" -v root="$1/" '
            BEGIN {
                rows = split(table, row, "\n")
                for (i = 1; i <= rows; i++) {
                    words = split(row[i], word, /[: ]+/)
                    for (j = 1; j <= words; j++) may[word[1], word[j]] = 1
                    if (words > 0) known[word[1]] = 1
                }
            }
            FNR == 1 {
                file = substr(FILENAME, length(root) + 1)
                split(file, path, "/")
                part = path[1] == "include" ? "the public header" : path[2]
                if (path[1] == "src" && !(part in known)) {
                    print file ": " part " has no row in the table of tools/check_includes.sh"
                    bad = 1
                }
            }
            /^[ \t]*#[ \t]*include[ \t]*"/ {
                split($0, quoted, "\"")
                target = quoted[2]
                if (target !~ "/") {
                    print file ":" FNR ": write \"" part "/" target "\": names count from src/"
                    bad = 1
                    next
                }
                sub("/.*", "", target)
                if (!((part, target) in may)) {
                    print file ":" FNR ": " part " may not include " target
                    bad = 1
                }
            }
            END { exit bad }'
}

# The check must be able to fail: it must report these.
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
mkdir -p "$trial/src/net" "$trial/src/nn" "$trial/src/elsewhere"
echo '#include "wire/message.h"' >"$trial/src/net/tcp.c"
echo '#include "layer.h"' >"$trial/src/nn/dense.c"
echo 'int x;' >"$trial/src/elsewhere/x.c"
if [ "$(check "$trial" | wc -l)" -ne 3 ]; then
    echo "check_includes: the check itself is broken: it passed a tree with three mistakes" >&2
    check "$trial"
    exit 1
fi

check "${1:-$(dirname "$0")/..}" && echo "include directions: all as the table says"
