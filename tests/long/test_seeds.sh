#!/usr/bin/env bash
# A thousand failures drawn from seeds, at whole runs over the network in memory; `make test` has some of them.
# labels: once
cd "$(dirname "$0")/../.." || exit 1
RT_FAILURES=1000 exec "${RT_BUILD:-build}/tests/test_failures"
