#!/usr/bin/env bash
# Cables between nodes in network namespaces are cut at random moments, in both directions or one, for a while or for good: fifty
# times in a row, with the same nodes. The same result, nothing left behind. FAILURES_SEED and FAILURES: see test_failures.sh.
# labels: once
. "$(dirname "$0")/../cluster/lib.sh"
. "$tests/namespaces.sh"
. "$tests/failures.sh"
fail_at_random cables 50 4000
finish
