#!/usr/bin/env bash
# Workers and masters of every kind of run are killed or stopped at random moments: the same result, nothing left behind.
# tests/long/test_failures.sh has a hundred of them; FAILURES_SEED and FAILURES: see there.
# labels: once
. "$(dirname "$0")/lib.sh"
. "$tests/failures.sh"
fail_at_random quick 5 2000
finish
