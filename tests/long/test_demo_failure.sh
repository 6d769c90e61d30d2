#!/usr/bin/env bash
# make demo-failure: a device of the demo is killed and comes back, and the parameters are the README's.
# labels: once
cd "$(dirname "$0")/../.." || exit 1
exec tools/demo-failure.sh
