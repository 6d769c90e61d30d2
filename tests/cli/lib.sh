# What the scripts of this directory share: a place to work in, small data, and checks that show what went wrong.
# Sourced. $RINGTMP is the command under test.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../support/table.sh"

: "${RINGTMP:?set it to the path of the ringtmp binary}"
case $RINGTMP in /*) ;; *) RINGTMP=$PWD/$RINGTMP ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

failures=0
fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# skip WHY: leaves the test; a failure where nothing may be missing (.ci/run sets RT_NO_SKIP)
skip() {
    [ -z "${RT_NO_SKIP:-}" ] || {
        echo "FAILED: may not be skipped here: $*" >&2
        exit 1
    }
    echo "skipped: $*"
    exit 77
}

# run STATUS WORD...: runs ringtmp; its output goes to the files out and err; the exit status must be STATUS
run() {
    local expected=$1 status=0
    shift
    "$RINGTMP" "$@" >out 2>err || status=$?
    [ "$status" -eq "$expected" ] || {
        fail "ringtmp $*: exit status $status, not $expected"
        head -c 2000 out err >&2
    }
}

# says FILE TEXT: the file holds the text
says() {
    grep -qF -- "$2" "$1" || {
        fail "${BASH_SOURCE[1]##*/}:${BASH_LINENO[0]}: no '$2' in $1:"
        head -c 2000 "$1" >&2
    }
}

# refuses STATUS TEXT WORD...: ringtmp ends with STATUS, one sentence that holds TEXT, and nothing on its output
refuses() {
    local expected=$1 text=$2
    shift 2
    run "$expected" "$@"
    says err "$text"
    [ "$(grep -c . err)" -eq 1 ] || fail "ringtmp $*: $(grep -c . err) lines of error, not one: $(cat err)"
    grep -q '^ringtmp: ' err || fail "ringtmp $*: the error does not begin with 'ringtmp: '"
    [ ! -s out ] || fail "ringtmp $*: prints '$(head -1 out)' beside its error"
}

# field NAME FILE: the value of a field of a summary
field() {
    sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | head -1
}

# A run file for table.csv with small layers; $1: epochs
write_run() {
    make_table 240 6 3 >table.csv
    cat >run.yaml <<EOF
model:
  input: 6
  layers:
    - dense: 16
    - relu
    - dropout: 0.1
    - dense: 3
  loss: cross_entropy
data:
  train: {csv: {file: table.csv, label: label}}
  split: 0.25
  standardize: true
train:
  batch: 10
  epochs: $1
  optimizer: {momentum: {lr: 0.05}}
EOF
}

finish() {
    [ "$failures" -eq 0 ] || {
        echo "$failures checks failed" >&2
        exit 1
    }
    exit 0
}
