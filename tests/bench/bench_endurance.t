#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_endurance: a few hand-overs, a few slices that leave and come back, and what it says about bad options. What a coordinator costs
# is no test: other processes have the cores, too.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
# shellcheck source=tests/lib/cores.sh
. "$DP_SRCDIR/tests/lib/cores.sh"
for p in jq sbatch bible munged; do
    command -v $p >/dev/null || [ -x "/usr/sbin/$p" ] || skip_all "$p is not installed"
done
[ -e "$DP_BUILDDIR/spank_plugin/spank_dynpipe.so" ] || skip_all "the plugin is not built"
bench=$DP_SRCDIR/worker/bench/bench_endurance
take_core
tmp=$(mktemp -d "${TMPDIR:-/tmp}/dpbenchXXXXXX") || bail "no temporary directory"
trap 'rm -rf "$tmp"' EXIT

timeout 200 "$bench" handovers --count 40 --build "$DP_BUILDDIR" >"$tmp/out" 2>&1
is "$((2 > $?))" 1 "forty hand-overs" || diag "$(cat "$tmp/out")"
is "$(grep -cE '^ +[0-9]+ +[0-9]+ ( +[0-9]+/[0-9]+ *){5} +[0-9]+$' "$tmp/out")" 21 "a line for each twentieth"
like "$(cat "$tmp/out")" "epoch 40, step [0-9]+" "all were made"
timeout 400 "$bench" grow --slices 4 --least 2 --rest 1 --build "$DP_BUILDDIR" >"$tmp/out" 2>&1
is "$((2 > $?))" 1 "four slices" || diag "$(cat "$tmp/out")"
like "$(cat "$tmp/out")" "2 are taken: 2 are left" "two leave"
like "$(cat "$tmp/out")" "and come back: 4" "and come back"
unlike "$(cat "$tmp/out")" "losses are not" "with the losses of one worker"

like "$("$bench" --build "$tmp" 2>&1)" "handovers or grow" "it wants to know which"
like "$("$bench" grow --build "$tmp" 2>&1)" "dynpiped is not built" "a folder without programs is named"
like "$("$bench" handovers --count 3 2>&1)" "'3' is not a number from 40 on" "too few hand-overs are refused"
like "$("$bench" grow --least 64 2>&1)" "'64' is not a number below --slices" "so is what is not less"
like "$("$bench" --what 2>&1)" "unknown '--what'" "an unknown option is named"
done_testing
