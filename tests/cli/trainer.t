#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe explain and status of runs whose trainer is not ours.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh
command -v jq >/dev/null || skip_all "jq is not installed"

jq '.mode = "observe" | .trainer = {name: "PyTorch \u001b[31m2.1", moves_layers: false, leaves: true, equal_cost: false,
        mode_asked: "release", observed: "its trainer cannot move layers"} |
    .expected = [range(12) | {step: (1000 * (. + 1)), layers: 3, microbatch_ms: 2.5}] |
    .proposal = {megatron_layout: "Et*5|t*2L", megatron_options: null, deepspeed_parts: "[0, 6, 9]", torch_split_points: "layers.5",
        text: "0-5|6-8|x|x", cuts: [0, 6, 9, 9, 9], workers: 2, since_s: 7.5, now_ms: 12.25, then_ms: 9.5}' \
    "$data/explain.json" >"$tmp/explain.json"
exit_is 0 "explain" explain --from "$tmp/explain.json"
like "$out" 'trainer PyTorch \\x1b\[31m2\.1' "names the trainer, made harmless"
like "$out" "observed: its trainer cannot move layers" "says why it is observed"
like "$out" "begin again with 0-5\|6-8\|x\|x, on 2 workers: 9\.500 ms a step predicted, now 12.250 ms" "what to begin again with"
like "$out" "Megatron   Et\*5\|t\*2L" "as Megatron takes it"
like "$out" "DeepSpeed  \[0, 6, 9\]" "as DeepSpeed does"
like "$out" "PyTorch    layers.5" "and as PyTorch does"
like "$out" "expected from step 8000 on: 2\.500 ms a microbatch on 3 layers" "what the trainer expects"
like "$out" "and of 4 steps more" "of the first steps"
unlike "$out" "from step 9000" "and no more"
exit_is 0 "explain of our own worker" explain --from "$data/explain.json"
unlike "$out" "begin again" "proposes nothing"
done_testing
