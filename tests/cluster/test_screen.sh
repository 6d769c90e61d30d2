#!/usr/bin/env bash
# What a person sees of several devices on a terminal: tables that fit, in narrow and low windows too, and that are still
# there after Ctrl-C.
# labels: once
screen=$(cd "$(dirname "$0")/../cli" && pwd)/screen.py
. "$(dirname "$0")/lib.sh"
python3 -c 'import pty; pty.openpty()' 2>/dev/null || skip "no pseudo-terminal here"
export NO_COLOR=1
write_pictures 96
write_model mlp '[flatten, dense: 24, relu, dense: 20, tanh, dense: 4]'

# look COLUMNS ROWS SECONDS WORD...: what ringtmp shows; Ctrl-C after so many seconds, 0: never; to the file seen
look() {
    python3 "$screen" "$1" "$2" "$3" "$RINGTMP" "${@:4}" >seen || status=$?
    sed -i 's/\^C//' seen # the key, which the terminal shows wherever the cursor is
}
# fits COLUMNS: no row of a table is broken: they alone have two spaces between words
fits() {
    awk -v columns="$1" 'length > columns' seen | grep . && fail "too wide for $1 columns"
    ! grep -qE '^ *[0-9.]+ %$|^(idle|link|planned)$' seen || fail "a row is broken on $1 columns: $(cat seen)"
}

# ---- Ctrl-C ----
status=0
look 100 40 0.5 train mlp.yaml --nodes 3 --out stopped --set train.updates=100000000 --set train.epochs=100000000 --set train.report_seconds=0.05
[ "$status" -eq 1 ] || fail "status $status after Ctrl-C: $(cat seen)"
table=$(grep -nE '^node +layers +samples/s +idle % +queue +MB/s$' seen | tail -1 | cut -d: -f1)
[ -n "$table" ] || fail "the table of devices is gone: $(cat seen)"
sed -n "$((table + 1)),\$p" seen >below
for line in '^ +0  master +0-' '^ +1  local 1 ' '^ +2  local 2 ' '^epoch [0-9]+/.*[0-9]( samples)?/s ' '^stopping: the checkpoint is being written' \
    '^ringtmp: interrupted; the checkpoint is in stopped/checkpoint' '^  .*ringtmp train mlp.yaml --nodes 3 ' 'cursor: 0'; do
    grep -m1 -nE -- "$line" below | cut -d: -f1 >>order
    grep -qE -- "$line" below || fail "no '$line' below the table: $(cat seen)"
done
sort -nc order || fail "not one below the other: $(cat seen)"
[ "$(grep -c '^ *0  master' below)" -eq 1 ] || fail "the table is drawn anew after Ctrl-C: $(cat seen)"

# ---- narrow ----
for columns in 120 79 50 30; do
    status=0
    look $columns 40 0 train mlp.yaml --nodes 3 --out "shown-$columns" --set train.report_seconds=0
    [ "$status" -eq 0 ] || fail "status $status on $columns columns: $(cat seen)"
    grep -v 'samples/s[;,]\|^Predicted\|^One device\|^There are\|params_sha256\|cross_entropy with\|training examples' seen >tables
    mv tables seen
    fits $columns
    for word in slots memory busy idle link planned 'MB used'; do # of the plan, and of the table at the end: nothing is lost
        grep -qw -- "$word" seen || fail "no $word on $columns columns: $(cat seen)"
    done
    [ "$(grep -c 'queue' seen)" -eq 0 ] || fail "a live table is left on $columns columns: $(cat seen)"
    status=0
    look $columns 40 0 plan mlp.yaml --nodes 3
    [ "$status" -eq 0 ] && grep -qE '^ +2  local 2( |$)' seen || fail "no plan on $columns columns: $(cat seen)"
done

# ---- low: more devices than lines ----
write_model long '[flatten, dense: 8, relu, dense: 8, relu, dense: 8, relu, dense: 8, relu, dense: 4]'
status=0
look 80 6 0.5 train long.yaml --nodes 8 --out low --set train.updates=100000000 --set train.epochs=100000000 --set train.report_seconds=0.05
grep -q '^      and 5 more$' seen || fail "not all devices are on the screen, and it is not told: $(cat seen)"
[ "$(grep -c '^node .*queue' seen)" -eq 1 ] || fail "what is above the screen was drawn again: $(cat seen)"
finish
