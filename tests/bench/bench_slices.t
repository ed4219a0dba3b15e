#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_slices: what it refuses. tests/e2e/0207-slices.t has the runs.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
bench=$DP_SRCDIR/worker/bench/bench_slices
like "$("$bench" --help)" "How long is a GPU nobody's.*--companions" "--help says what it measures"
# shellcheck disable=SC2154 # dir comes from lib.sh
like "$("$bench" --build "$dir" 2>&1; echo "rc=$?")" "is not built: name the folder.*rc=2" "a folder without programs is named"
like "$("$bench" --rounds 0 2>&1; echo "rc=$?")" "'0' is not a number from 1 to 99.*rc=2" "a wrong number is refused"
like "$("$bench" --nonsense 2>&1; echo "rc=$?")" "unknown option '--nonsense'.*rc=2" "and what is no option"
like "$("$bench" --build 2>&1; echo "rc=$?")" "--build needs a value.*rc=2" "or lacks its value"
done_testing
