#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_saving: one short round of its runs, and what it says about bad options. How far predictions are from the
# truth is no test: other processes have the cores, too.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
# shellcheck source=tests/lib/cores.sh
. "$DP_SRCDIR/tests/lib/cores.sh"
for p in jq sbatch taskset munged; do
    command -v $p >/dev/null || [ -x "/usr/sbin/$p" ] || skip_all "$p is not installed"
done
[ "$(nproc)" -ge 2 ] || skip_all "two workers need two cores"
[ -e "$DP_BUILDDIR/spank_plugin/spank_dynpipe.so" ] || skip_all "the plugin is not built"
bench=$DP_SRCDIR/worker/bench/bench_saving
take_cores
tmp=$(mktemp -d "${TMPDIR:-/tmp}/dpbenchXXXXXX") || bail "no temporary directory"
trap 'rm -rf "$tmp"' EXIT

"$bench" --build "$DP_BUILDDIR" --rounds 1 --steps 40 --keep "$tmp/kept" model.blocks=2 model.channels=32 model.context=16 \
    train.batch=1 train.microbatches=2 >"$tmp/out" 2>"$tmp/err"
rc=$?
is "$((rc < 2))" 1 "all runs" || diag "$(cat "$tmp/err" "$tmp/out")"
is "$(grep -cE '^1 +(release|fixed|balanced) +[0-9.]+ +[0-9.]+ +[0-9.]+, [0-9.]+; [0-9.]+$' "$tmp/out")" 3 "a line for each run"
unlike "$(cat "$tmp/out")" "losses" "all of them trained alike"
is "$(grep -cE '^(fixed layout, s|fixed layout, device-s|all devices balanced, s) +predicted +[0-9.]+ +measured +[0-9.]+ +[-+][0-9.]+ %$' "$tmp/out")" 3 \
    "predicted beside measured"
is "$(jq -r '.saving.fixed.time_s == .saving.run.time_s' "$tmp/kept/fixed-1.json")" true "a run that kept its layout is its own fixed run"
like "$("$bench" --build "$tmp" 2>&1)" "dynpipe-worker is not built" "a folder without programs is named"
like "$("$bench" --steps 3 2>&1)" "'3' is not a number from 40 on" "too few steps are refused"
like "$("$bench" --what 2>&1)" "unknown option '--what'" "an unknown option is named"
done_testing
