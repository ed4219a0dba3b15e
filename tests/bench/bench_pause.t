#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_pause: a few hand-overs on a private Slurm, of a run that stands still for them and of one whose layers are copied before, with the
# same losses, and what it says about bad options. For how long they stand still is no test: other processes have the cores, too.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
# shellcheck disable=SC2154 # dir comes from lib.sh
needs_slurm bible
bench=$DP_SRCDIR/worker/bench/bench_pause
take_core

timeout 400 "$bench" --channels 64 --count 3 --rounds 1 --build "$DP_BUILDDIR" >"$dir/out" 2>&1
is $? 0 "three hand-overs of each run" || diag "$(cat "$dir/out")"
runs "a line for the run that stands still: nothing is copied beside a step" grep -qE '^off1( +[0-9]+[.][0-9]){3} +- +0[.]0$' "$dir/out"
runs "a line for the run that copies while it trains" grep -qE '^always1( +[0-9]+[.][0-9]){5}$' "$dir/out" || diag "$(cat "$dir/out")"
like "$(cat "$dir/out")" "all runs have the same losses, [0-9]+ steps" "with the same losses"
runs "and what moved" grep -qE '^[0-9]+[.][0-9] MiB move each time' "$dir/out"
# However few bytes there are: one step is trained between the boundary whose state is copied and the one that switches.
runs "copying takes steps" test "$(awk '$1 == "always1" { print ($6 >= 1) }' "$dir/out")" = 1

like "$("$bench" --build "$dir" 2>&1)" "dynpiped is not built" "a folder without programs is named"
like "$("$bench" --channels 33 2>&1)" "'33' is not a multiple of 32" "channels that no block has are refused"
like "$("$bench" --count 0 2>&1)" "'0' is not a number from 1 to 999" "so are no hand-overs"
like "$("$bench" --what 2>&1)" "unknown '--what'" "an unknown option is named"
done_testing
