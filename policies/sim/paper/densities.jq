# SPDX-License-Identifier: BSD-3-Clause
# The trace of worker 0 of a run of one worker into densities.json: of each pruning level, the part of every block's
# matrices that is left. --arg command: how the run was started; $channels: its width.
#
#   jq -s -f densities.jq --arg command '...' --argjson channels 64 run.trace.0
(12 * $channels * $channels) as $weights
| [.[] | select(.step) | {step, density: [.layers[1:-1][] | 1 - (.parameters - .nonzeros) / $weights]}]
| map(. + {sparsity: (1 - (.density | add / length))})
| group_by(.sparsity * 10000 | round)
| {source: $command,
   levels: map(last | {sparsity: (.sparsity * 10000 | round / 10000), density: (.density | map(. * 10000 | round / 10000))})}
