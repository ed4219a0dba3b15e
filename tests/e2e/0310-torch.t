#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A trainer in PyTorch (etc/examples/torch_pipeline.py) on a real Slurm: it freezes layers, the daemon moves them, a node is given
# back and the job that waits starts there. Its losses are those of one process without DynPipe. So they are where the coordinator's
# daemon is killed behind the votes.
# shellcheck disable=SC2086,SC2154 # lists of options; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/torch.sh
. "$DP_SRCDIR/tests/e2e/torch.sh"
# shellcheck source=tests/e2e/records.sh
. "$DP_SRCDIR/tests/e2e/records.sh"

take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'

job=$(torch_run frozen --exclusive $release -- "$python" "$example")
wait_for 120 job_is "$job" RUNNING
ok $? "a run of PyTorch begins on four nodes"
other=$(sbatch --parsable -N1 --gpus-per-node=1 --exclusive -o "$D/other.out" --wrap "srun hostname")
is "$(job_state "$other")" PENDING "another job has to wait"
wait_for 300 foreign_steps_done "$D/frozen.out" 5
ok $? "it trains"
like "$(dynpipe status -j "$job")" "PyTorch [0-9.]+.*torch_pipeline.py" "status says what trains"
wait_for 300 nodes_fewer "$job" 4
ok $? "layers freeze, and the run becomes smaller"
wait_for 120 job_is "$other" COMPLETED
ok $? "the waiting job runs on the freed node"
job_is "$job" RUNNING
ok $? "while training goes on"
wait_for 300 foreign_steps_done "$D/frozen.out" 100
ok $? "to behind the last freezing"
report=$(dynpipe report -j "$job" --json)
runs "layers moved" test "$(jq '[.report.handovers[] | select(.outcome == "committed" and .moved_layers > 0)] | length' <<<"$report")" -ge 1
end_torch "$job" frozen

take_cores
job=$(torch_run killed --exclusive $release -- "$python" "$example")
stop_coordinator_at "$job" COMMIT && kill -KILL "$stopped" && wait_for 30 dead "$stopped"
ok $? "the coordinator's daemon is killed when all have voted, and nobody knows what was decided"
steps=$(foreign_losses "$D/killed.out" | wc -l)
cluster start-daemon 1
torch_makes_steps killed 20
ok $? "started again, it says so, and training goes on"
end_torch "$job" killed
diag "killed behind step $steps"
same_as_fixed frozen killed
is "$(drained_nodes)" "" "no node is drained"
done_testing
