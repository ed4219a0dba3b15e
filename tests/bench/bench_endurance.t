#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_endurance: a few hand-overs, a few slices that leave and come back, and what it says about bad options. What a coordinator costs
# is no test: other processes have the cores, too.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
# shellcheck disable=SC2154 # dir comes from lib.sh
needs_slurm bible
bench=$DP_SRCDIR/worker/bench/bench_endurance
take_core

timeout 200 "$bench" handovers --count 40 --build "$DP_BUILDDIR" >"$dir/out" 2>&1
is "$((2 > $?))" 1 "forty hand-overs" || diag "$(cat "$dir/out")"
is "$(grep -cE '^ +[0-9]+ +[0-9]+ ( +[0-9]+/[0-9]+ *){5} +[0-9]+$' "$dir/out")" 21 "a line for each twentieth"
like "$(cat "$dir/out")" "epoch 40, step [0-9]+" "all were made"
timeout 400 "$bench" grow --slices 4 --least 2 --rest 1 --build "$DP_BUILDDIR" >"$dir/out" 2>&1
is "$((2 > $?))" 1 "four slices" || diag "$(cat "$dir/out")"
like "$(cat "$dir/out")" "2 are taken: 2 are left" "two leave"
like "$(cat "$dir/out")" "and come back: 4" "and come back"
unlike "$(cat "$dir/out")" "losses are not" "with the losses of one worker"

like "$("$bench" --build "$dir" 2>&1)" "handovers or grow" "it wants to know which"
like "$("$bench" grow --build "$dir" 2>&1)" "dynpiped is not built" "a folder without programs is named"
like "$("$bench" handovers --count 3 2>&1)" "'3' is not a number from 40 on" "too few hand-overs are refused"
like "$("$bench" grow --least 64 2>&1)" "'64' is not a number below --slices" "so is what is not less"
like "$("$bench" --what 2>&1)" "unknown '--what'" "an unknown option is named"
done_testing
