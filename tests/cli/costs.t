#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe plan --costs: estimates for a device, what is said of them, and that nothing is estimated unless somebody asks.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh
cd "$tmp" || exit 1
export DYNPIPE_DATA=$DP_SRCDIR/etc

# Four products and what is between them, without a time.
awk 'BEGIN {
    print "node0 -- Input -- forward_compute_time=0, backward_compute_time=0, activation_size=0, parameter_size=0"
    for (i = 1; i <= 8; i++) {
        text = i % 2 ? "Linear(in_features=1024, out_features=1024, bias=False)" : i == 4 ? "GELU()" : "ReLU(inplace)"
        printf "node%d -- %s -- forward_compute_time=0, backward_compute_time=0, activation_size=8388608, parameter_size=%d\n",
            i, text, i % 2 ? 4194304 : 0
        edge = edge sprintf("\tnode%d -- node%d\n", i - 1, i) }
    printf "%s", edge }' >model.txt
says() { tr -s ' \n' ' ' <<<"$out"; }
total() { "$dynpipe" plan model.txt --devices=2 --costs=estimate --json "$@" | jq .plan.single_device_ns; }

exit_is 1 "no time, and no estimate asked for" plan model.txt --devices=2
like "$err" 'no node takes any time' "is not estimated"
exit_is 0 "--costs=estimate" plan model.txt --devices=2 --costs=estimate --device=h100
like "$(says)" 'costs estimated for NVIDIA H100 SXM5 at fp32, by its vendor.s figures' "says for what"
like "$(says)" 'error [0-9.]+ % slower in the mean, [0-9.]+ % in the median, [0-9]+ % at worst than by measured times' "says how far off"
like "$(says)" 'by the roofline alone, since nothing was learned of it: GELU' "names what was not learned"
like "$(says)" 'to measure node[0-9]+.*--costs=complete makes plans that are' "and what to measure"
"$dynpipe" plan model.txt --devices=2 --costs=estimate --device=h100:bf16 --json >bf16.json
is "$(jq -c '.plan.costs | [.from, .device, .precision, .is_device_measured, .unknown_types, (.measure | length)]' bf16.json)" \
    '["estimate","h100","bf16",false,["GELU"],3]' "a document says the same"
runs "a faster rate takes less time" test "$(jq .plan.single_device_ns bf16.json)" -lt "$(total --device=h100)"
runs "a slower device takes more" test "$(total --device=l4)" -gt "$(total --device=h100)"
is "$(total --device=h100)" "$(total --device=h100)" "the same again"

# Times of the file are looked at where that is asked for only.
sed 's/\(node[0-9]* -- .*\)forward_compute_time=0, backward_compute_time=0/\1forward_compute_time=7, backward_compute_time=3/' model.txt >timed.txt
is "$("$dynpipe" plan timed.txt --devices=2 --json | jq -c '[.plan.costs, .plan.single_device_ns]')" '[null,80000000]' "a profile's own times are the default"
is "$("$dynpipe" plan timed.txt --devices=2 --costs=measured --json | jq .plan.single_device_ns)" 80000000 "--costs=measured"
is "$("$dynpipe" plan timed.txt --devices=2 --costs=estimate --device=h100 --json | jq .plan.single_device_ns)" "$(total --device=h100)" \
    "--costs=estimate looks at none"
sed 's/^\(node1 -- .*\)forward_compute_time=0/\1forward_compute_time=40/' model.txt >one.txt
"$dynpipe" plan one.txt --devices=2 --costs=complete --device=h100 --json >complete.json
runs "--costs=complete takes what was measured for all of its kind" test "$(jq .plan.single_device_ns complete.json)" -gt 120000000
is "$(jq -r .plan.costs.from complete.json)" complete "and says so"

# A device and coefficients of one's own.
jq '.devices |= [.[] | select(.name == "l4") | .name = "mine" | .title = "mine" | .is_measured = true]' "$DYNPIPE_DATA/graph-devices.json" >mine.json
is "$(total --device=./mine.json)" "$(total --device=l4)" "a device in a file"
exit_is 0 "a measured one" plan model.txt --devices=2 --costs=estimate --device=./mine.json:bf16
like "$(says)" 'estimated for mine at bf16, as it was measured' "is told"
jq 'del(.held_out) | .types |= {Linear}' "$DYNPIPE_DATA/graph-costs.json" >few.json
exit_is 0 "--coefficients" plan model.txt --devices=2 --costs=estimate --device=l4 --coefficients=few.json
like "$(says)" 'error not known: these coefficients have not been tried.*learned of it: ReLU, GELU' "says what is not known of them"

while IFS=: read -r code args text; do
    # shellcheck disable=SC2086 # several words
    exit_is "$code" "${args:-no option}" plan model.txt --devices=2 $args
    like "$err" "$text" "says why"
done <<'X'
2:--costs=guess:--costs=guess. expected measured, estimate or complete
2:--costs=estimate:for which device. Use --device=NAME
2:--device=h100:--device. only with --costs=estimate or complete; --devices=N
2:--coefficients=few.json:--coefficients. only with --costs=estimate or complete
1:--costs=estimate --device=h99:--device. unknown device .h99.; known. a100-40gb, a100
1:--costs=estimate --device=h100 --coefficients=none.json:none.json
1:--costs=estimate --device=h100 --coefficients=model.txt:model.txt.1. 
1:--costs=estimate --device=./few.json:format. expected .dynpipe devices.
X
exit_is 1 "a graph that has no operators" plan "$data/plan-costs.json" --costs=estimate --device=h100
like "$err" 'only PipeDream' "says so"
DYNPIPE_DATA=$tmp/nowhere exit_is 1 "no files installed" plan model.txt --devices=2 --costs=estimate --device=h100
like "$err" 'nowhere/graph-devices.json' "names the file"
exit_is 0 "--costs=help" plan --costs=help
is "$(cut -d' ' -f1 <<<"$out" | paste -sd' ')" "measured estimate complete" "lists all"
exit_is 0 "--device=help" plan --device=help
like "$out" 'h100 +NVIDIA H100 SXM5: fp32 67, tf32 494.5, bf16 989 TFLOP/s, 3350 GB/s \(NVIDIA H100 data sheet\)' "lists rates and where they are from"
done_testing
