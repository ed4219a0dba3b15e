#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# make bench-reference: what the references promise holds in each of its runs, and the table of doc/policies.md is
# what it prints.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
program=${DP_BUILDDIR:-.}/policies/bench/bench_reference
[ -x "$program" ] || skip_all "$program is not built"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/dpreferenceXXXXXX") || bail "no temporary directory"
trap 'case $BASHPID in $$) rm -rf "$tmp" ;; esac' EXIT

"$program" >"$tmp/out"
is $? 0 "it runs"
# One line for each run and reference: devices microbatches densities reference percent later gpu-seconds
awk '/ stages, / { run = $1 " " $3 " " $6; next }
     $1 == "reference" { next }
     { name = $1; percent = $2
       if ($1 == "balanced") percent = 0
       if ($1 == "efficiency") { name = "fixed"; percent = 100 }
       print run, name, percent, $(NF - 5), $(NF - 3) }' "$tmp/out" >"$tmp/rows"
is "$(wc -l <"$tmp/rows")" 96 "12 runs with 8 references each"
is "$(awk '$4 == "fixed" && $6 > $5' "$tmp/rows")" "" "fixed: none ends later than it may"
is "$(awk '($4 == "fixed" || $4 == "balanced") && $7 > 0' "$tmp/rows")" "" "and none takes more device-seconds than the fixed layout"
is "$(awk '$4 == "balanced" && $6 > 0' "$tmp/rows")" "" "balancing alone makes none later"

# The table's columns, in order.
cell() { # RUN NAME PERCENT
    awk -v run="$1" -v name="$2" -v percent="$3" '$1 " " $2 " " $3 == run && $4 == name && $5 == percent {
        print ($6 == 0 && $7 == 0) ? "0, 0" : $6 ", " $7 }' "$tmp/rows"
}
while read -r run; do
    line="| ${run// /, } |"
    for column in "balanced 0" "fixed 5" "fixed 10" "fixed 25" "start 5" "best 5" "fixed 100"; do
        # shellcheck disable=SC2086 # name and percent
        line+=" $(cell "$run" $column) |"
    done
    ok $((! $(grep -cF "$line" "$DP_SRCDIR/doc/policies.md"))) "doc/policies.md has $line"
done < <(cut -d' ' -f1-3 "$tmp/rows" | sort -u)
done_testing
