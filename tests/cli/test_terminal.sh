#!/usr/bin/env bash
# The progress display on a terminal: one line that is redrawn and fits, validations that stay, colours on demand.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || skip "there is no script(1) here (Debian: bsdutils)"
script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "no pseudo-terminal here"
write_run 4

# show COLUMNS NAME: trains on a terminal of that width; what it showed goes to the file NAME
show() {
    script -qec "stty cols $1; '$RINGTMP' train run.yaml --out $2-run --set train.report_seconds=0 \
        --set data.hold_out=0.2" /dev/null >"$2" </dev/null || fail "train on a terminal of $1 columns"
}
export TERM=xterm
unset NO_COLOR
show 100 colour
grep -q $'\r' colour || fail "nothing is redrawn"
grep -q $'\033\[36m#' colour || fail "no colour"
grep -q 'validation loss .*accuracy' colour || fail "no validation"
grep -q 'test accuracy' colour || fail "no result"

export NO_COLOR=1
for columns in 100 80 40 12; do
    show $columns plain
    rm -rf plain-run
    grep -q $'\033\[36m' plain && fail "colour in spite of NO_COLOR"
    # the states of the redrawn line, without the codes that clear it
    tr '\r' '\n' <plain | sed 's/\x1b\[K//g' | grep '^epoch [0-9]*/' >drawn
    [ -s drawn ] || fail "nothing drawn on $columns columns"
    awk -v columns="$columns" 'length >= columns' drawn | grep . && fail "too wide for $columns columns"
    if [ $columns -ge 80 ]; then grep -q '\[#*\.*\]' drawn || fail "no bar on $columns columns"; fi
done

# a terminal that can do nothing gets plain lines
TERM=dumb show 80 dumb
grep -q $'\033' dumb && fail "control codes on a dumb terminal"
says dumb "epoch 4/4, update"
finish
