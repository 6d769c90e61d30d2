#!/usr/bin/env bash
# What make test tries with some strategies and losses, with all of them: workers and servers of exchanges, and several rings.
# labels: once
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/../cluster" && pwd)
ALL=1 bash "$tests/test_exchange_recovery.sh" && ALL=1 bash "$tests/test_hybrid_recovery.sh"
