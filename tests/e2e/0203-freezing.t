#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A fine-tuning run on a real Slurm freezes its layers: it begins with another run's weights, hands layers over, leaves a node,
# and the job that waits starts there. The loss of every step equals that of one worker alone. Where the rule looks at gradients
# nobody knows before what will freeze: the daemon acts on what it sees.
# shellcheck disable=SC2086,SC2154 # lists of options; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

train_alone "$D/before.jsonl" train.steps=20 prune.begin=0 prune.end=0 checkpoint.dir="$D/before" data.eval_every=0 ||
    bail "no weights to begin with: $(tail -n 1 "$D/before.jsonl.out")"
weights=$D/before/step-00000020
run="$endless prune.begin=0 prune.end=0 checkpoint.weights=$weights freeze.layers=6 freeze.begin=20 freeze.end=120 freeze.every=20"
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'

# JOB: of each block that is frozen, how many bytes a weight it has less than one that learns, and what it still keeps for backward.
frozen_state() {
    timeout 20 dynpipe report -j "$1" --json 2>/dev/null | jq -r '.report.layers[1:-1] | map(select(.params > 0)) |
        (map(select(.frozen | not)) | .[0]) as $learns | map(select(.frozen)) |
        map("\(($learns.state_bytes - .state_bytes) / .params) \(.activation_bytes)") | unique | join(", ")' 2>/dev/null
}
frozen_state_is_known() { [ -n "$(frozen_state "$1")" ]; }

# freezing_run NAME OVERRIDES...: until the job that waits behind it runs on a node that it gave back.
freezing_run() {
    local name=$1 other
    shift
    take_cores
    job=$(submit "$name" $release -- "$D/$name.jsonl" $run "$@")
    wait_for 60 job_is "$job" RUNNING
    ok $? "$name: a run begins on four nodes"
    other=$(sbatch --parsable -N1 --gpus-per-node=1 --exclusive -o "$D/$name.other" --wrap "srun hostname")
    is "$(job_state "$other")" PENDING "$name: another job has to wait"
    wait_for 300 nodes_fewer "$job" 4
    ok $? "$name: layers freeze, and the run becomes smaller"
    wait_for 120 job_is "$other" COMPLETED
    ok $? "$name: the waiting job runs on the freed node"
    job_is "$job" RUNNING
    ok $? "$name: while training goes on"
    wait_for 300 steps_done "$D/$name.jsonl" 140
    ok $? "$name: to behind the last freezing"
    if [ "$name" = planned ]; then
        wait_for 120 frozen_state_is_known "$job"
        is "$(frozen_state "$job")" "12 0" "$name: of a frozen block's 16 bytes a weight 4 are left, and no activations are kept"
    fi
    end_run "$job" "$name"
}

freezing_run planned freeze.rule=linear
is "$(jq -r 'select(.event == "frozen") | "\(.step) \(.value | floor)"' "$D/planned.jsonl" | tr '\n' ' ')" \
    "20 1 40 2 60 3 80 4 100 5 120 6 " "layers freeze when the schedule says"
like "$(cat "$D/planned.out")" "begins with the weights of $weights" "it began with the weights"
like "$(dynpipe report -j "$job")" "HAND-OVER" "the report tells of hand-overs"
same_as_alone $run freeze.rule=linear -- planned

freezing_run seen freeze.rule=noise freeze.noise=0.9
same_as_alone $run freeze.rule=noise freeze.noise=0.9 -- seen
is "$(drained_nodes)" "" "no node is drained"
done_testing
