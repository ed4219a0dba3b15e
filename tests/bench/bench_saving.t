#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_saving: one short round of its runs, and what it says about bad options. How far predictions are from the
# truth is no test: other processes have the cores, too.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
# shellcheck disable=SC2154 # dir comes from lib.sh
needs_slurm taskset
[ "$(nproc)" -ge 2 ] || skip_all "two workers need two cores"
bench=$DP_SRCDIR/worker/bench/bench_saving
take_cores

"$bench" --build "$DP_BUILDDIR" --rounds 1 --steps 40 --keep "$dir/kept" model.blocks=2 model.channels=32 model.context=16 \
    train.batch=1 train.microbatches=2 >"$dir/out" 2>"$dir/err"
rc=$?
is "$((rc < 2))" 1 "all runs" || diag "$(cat "$dir/err" "$dir/out")"
is "$(grep -cE '^1 +(release|fixed|balanced) +[0-9.]+ +[0-9.]+ +[0-9.]+, [0-9.]+; [0-9.]+$' "$dir/out")" 3 "a line for each run"
unlike "$(cat "$dir/out")" "losses" "all of them trained alike"
is "$(grep -cE '^(fixed layout, s|fixed layout, device-s|all devices balanced, s) +predicted +[0-9.]+ +measured +[0-9.]+ +[-+][0-9.]+ %$' "$dir/out")" 3 \
    "predicted beside measured"
is "$(jq -r '.saving.fixed.time_s == .saving.run.time_s' "$dir/kept/fixed-1.json")" true "a run that kept its layout is its own fixed run"
like "$("$bench" --build "$dir" 2>&1)" "dynpipe-worker is not built" "a folder without programs is named"
like "$("$bench" --steps 3 2>&1)" "'3' is not a number from 40 on" "too few steps are refused"
like "$("$bench" --what 2>&1)" "unknown option '--what'" "an unknown option is named"
done_testing
