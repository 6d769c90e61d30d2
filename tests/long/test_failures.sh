#!/usr/bin/env bash
# A hundred failures in a row, with the same nodes: workers and masters are killed or stopped for up to 10 s, at random moments. The
# same result, nothing left behind. The seed is printed; FAILURES_SEED=... draws the same failures, FAILURES='strategy=...' tries
# a single one.
# labels: once
. "$(dirname "$0")/../cluster/lib.sh"
. "$tests/failures.sh"
fail_at_random processes 100 4000
finish
