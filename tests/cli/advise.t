#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe simulate --advise: how many devices to ask for, and layouts as other programs take them.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh
command -v jq >/dev/null || skip_all "jq is not installed"
example=$DP_SRCDIR/etc/examples/simulate-7b.json

exit_is 0 "the example of doc/simulator.md" simulate "$example" --scheme=freeze,schedule=geometric --advise
missing=$(sed -n '/--advise$/,/^runs the file/s/^    //p' "$DP_SRCDIR/doc/simulator.md" | sed '1d;/^\.\.\.$/d;/^$/d' |
    while IFS= read -r line; do grep -qxF -- "$line" <(sed 's/ *$//' <<<"$out") || echo "$line"; done)
is "$missing" "" "prints what stands there"
exit_is 0 "as JSON" simulate "$example" --scheme=freeze,schedule=geometric --advise --json
printf '%s\n' "$out" >"$tmp/advice.json"
runs "it is valid" valid_json "$tmp/advice.json"
is "$(jq -c '.simulation.advice | [.request, (.rows | length), (.rows[7].parts | map(.first)), .giving_back.first_devices, .giving_back.last_devices]' "$tmp/advice.json")" \
    "[6,8,[1,2001,4001,6001,8001],8,4]" "has every number of devices and every stretch"
is "$(jq -r .simulation.saving.cheaper_by "$tmp/advice.json")" "scheme freeze" "what a scheme gains is not called pruning"
exit_is 0 "columns" simulate "$example" --iterations 1 --advise -h -o devices,fast
is "$(tail -n 2 <<<"$out" | tr -s ' ' | tr '\n' ';')" " 7 0; 8 1;" "as they are asked for"
exit_is 2 "columns of the other table" simulate "$example" --iterations 1 --advise -o bubble
like "$err" "unknown column 'bubble'" "are not known there"
exit_is 0 "a graph" simulate "$DP_SRCDIR/etc/examples/two-towers.txt" --devices 3 --advise
exit_is 2 "with --cluster" simulate --cluster "$DP_SRCDIR/etc/examples/simulate-cluster.json" --advise
like "$err" "--advise cannot be combined with --cluster" "is an error"

# ---- notations ----
model() { # DEVICES LAYERS [MEMBERS]: a kind each of e, b, h
    printf '{"source": "x", "devices": %s, "microbatches": 4, "kinds": {%s}, "layers": %s%s}\n' "$1" \
        "$(for k in "e 0.1" "b 1" "h $head" "x 0.1"; do set -- $k; printf '"%s": {"forward_ms": %s, "backward_input_ms": %s, "backward_weight_ms": %s},' "$1" "$2" "$2" "$2"; done | sed 's/,$//')" \
        "$2" "${3:-}"
}
notation() { # the layout on all devices, and the four notations
    "$dynpipe" simulate - --advise --json | jq -c '.simulation.advice.rows[-1].parts[0] | [.layout, .megatron_layout, .megatron_options, .deepspeed_parts, .torch_split_points]'
}
options="--pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 4 --decoder-last-pipeline-num-layers 2"
head=2
is "$(model 3 '["e", {"kind": "b", "count": 10}, "h"]' | notation)" \
    "[[5,4,3],\"Et*4|t*4|t*2L\",\"$options\",\"[0, 5, 9, 12]\",\"layers.4,layers.8\"]" "embedding, blocks and head"
is "$(model 2 '[{"kind": "b", "count": 6}]' | notation)" \
    '[[3,3],"Et*3|t*3L","--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 3","[0, 3, 6]","layers.3"]' \
    "blocks alone: Megatron has embedding and loss at the ends"
head=9
is "$(model 2 '["e", {"kind": "b", "count": 8}, "h"]' | notation)" '[[9,1],"Et*8|L",null,"[0, 9, 10]","head"]' "a head that has a device of its own"
is "$(model 1 '["e", {"kind": "b", "count": 8}, "h"]' | notation)" '[[10],"Et*8L",null,"[0, 10]",""]' "one device"
head=1
is "$(model 2 '["e", "x", {"kind": "b", "count": 8}, "h"]' | notation | jq -c '.[1:3]')" '[null,null]' "Megatron has one layer before the blocks"
is "$(model 2 '[{"kind": "b", "count": 8}]' ', "schedule": "interleaved", "chunks": 2' | notation)" \
    '[[2,2,2,2],"Et*2|t*2|t*2|t*2L",null,"[0, 2, 4, 6, 8]","layers.2,layers.4,layers.6"]' "chunks: a stage each"
done_testing
