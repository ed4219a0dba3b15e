#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_simulator: one short round of its runs, its figures, and what it says about bad options. How far the
# simulator is from the truth is no test: other processes have the cores, too.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
for p in jq mpirun; do
    command -v $p >/dev/null || skip_all "$p is not installed"
done
[ "$(nproc)" -ge 2 ] || skip_all "two workers need two cores"
bench=$DP_SRCDIR/worker/bench/bench_simulator
programs=(--worker "$DP_BUILDDIR/worker/dynpipe-worker" --dynpipe "$DP_BUILDDIR/cli/dynpipe")

dir=$(mktemp -d) || bail "no temporary directory"
trap 'case $BASHPID in $$) rm -rf "$dir" ;; esac' EXIT
# With the address sanitizer: PMIx's library loses five bytes in each process.
echo "leak:libpmix" >"$dir/lsan"
export LSAN_OPTIONS=suppressions=$dir/lsan:print_suppressions=0

# Steps of a few milliseconds: a window of a second is full of them, and with these limits every run counts.
"$bench" "${programs[@]}" --steps 200 --tries 1 --lost 100 --others 100 --keep "$dir/kept" model.blocks=8 model.channels=32 \
    model.context=16 train.batch=1 train.microbatches=2 >"$dir/out" 2>"$dir/err"
rc=$?
is "$((rc < 2))" 1 "all runs" || diag "$(cat "$dir/err" "$dir/out")"
is "$(grep -cE '^ *(pruned-(0|50|80|90)|frozen-(5|3-6)) (1f1b|gpipe) +0-[246]\|[357]-9 +[0-9.]+ +[0-9.]+ +[-+][0-9.]+ % +[0-9]+ ' "$dir/out")" 36 \
    "four sparsities, layers frozen in two ways, two schedules, three layouts"
like "$(cat "$dir/out")" "runs +36: error [0-9.]+ % in the median, [0-9.]+ % at worst" "median and worst"
like "$(cat "$dir/out")" "of these, with frozen layers +12: error [0-9.]+ % in the median" "of frozen layers, too"
# The backward of a block that is frozen is 0: four from the beginning, behind the embedding; two, and then five.
frozen() { jq -r 'select(.layers | type == "array") | [.layers[1:][] | select(.backward_input_ns + .backward_weight_ns == 0)] | length' "$1" | uniq | tr '\n' ' '; }
is "$(frozen "$dir/kept/frozen-5-1f1b-0-6_7-9.trace.0")" "4 " "a prefix is frozen"
is "$(frozen "$dir/kept/frozen-3-6-1f1b-0-6_7-9.trace.0")" "0 2 5 " "a schedule freezes on the way"
# Both times are rounded to three digits behind the point, the error to one: on a busy machine, where it is large, that is more.
is "$(awk '/^ *(pruned|frozen)-/ { e = 100 * ($5 / $4 - 1) - $6; most = 0.06 + 0.05 * ($5 / $4) * (1 / $4 + 1 / $5)
    if (e < -most || e > most) print }' "$dir/out" | head -n 3)" "" "every error is that of its line"
is "$(find "$dir/kept" -name '*.trace.*' | wc -l)" 72 "--keep keeps the traces"
like "$(head -n 1 "$dir/kept/pruned-90-gpipe-0-2_3-9.trace.0")" '"link_latency_ns":[0-9]+,"link_transfer_ns":[0-9]+' "a trace knows its link"
like "$("$bench" "${programs[@]}" --steps 3 2>&1)" "'3' is not a number from 12 on" "too few steps are refused"
like "$("$bench" --worker "$dir/none" 2>&1)" "no program" "a missing program is named"
like "$("$bench" --what 2>&1)" "unknown option '--what'" "an unknown option is named"
done_testing
