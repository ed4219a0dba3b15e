#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A pruning run on a real Slurm hands layers over, leaves nodes, and the job that waits starts on one
# of them while training goes on to its last step. The loss of every step equals that of one worker
# alone, and no process of the run starts on a released node again.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'

# The observer runs on what the run gave back, for as long as the run lasts, and looks for it there.
cat >"$D/observer.sh" <<Y
#!/bin/bash
. "$DP_SRCDIR/tests/e2e/observe.sh"
observe \$1 "$D/observer.seen"
Y
is_decided() { job_is "$observer" RUNNING || job_ended "$job"; }

# How many steps it takes until the observer runs depends on the machine. A run of which less than a quarter was left then
# is done again, longer.
for steps in 1000 4000 16000; do
    rm -f "$D/train.jsonl" "$D/observer.seen"
    job=$(submit train $release -- "$D/train.jsonl" $run train.steps=$steps)
    wait_for 60 job_is "$job" RUNNING
    started=$?
    observer=$(sbatch --parsable -N1 --gpus-per-node=1 --exclusive -o "$D/observer.out" "$D/observer.sh" "$job")
    before=$(job_state "$observer")
    wait_for 300 is_decided || break
    job_is "$job" RUNNING && ! steps_done "$D/train.jsonl" $((steps * 3 / 4)) && break
    diag "$steps steps were nearly over before the observer ran"
    wait_for 600 job_ended "$job"
    wait_for 60 all_nodes_idle
done
ok $started "sbatch --dynpipe=release starts a run on four nodes"
is "$before" PENDING "another job has to wait"
nodes_fewer "$job" 4
ok $? "the run becomes smaller"
kept=$(job_nodes "$job")
job_is "$observer" RUNNING
ok $? "the waiting job starts on a freed node"
job_is "$job" RUNNING
ok $? "while training goes on"
node=$(squeue -h -j "$observer" -o %N)
isnt "$node" n1 "and not on the batch host, which never goes back"

wait_for 600 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the run ends well on $kept node(s)"
wait_for 60 job_ended "$observer"
is "$(cat "$D/observer.seen" 2>/dev/null)" "nothing of the run was seen on $node" \
    "no process of the run is or comes back on the released node"
is "$(losses "$D/train.jsonl" | wc -l)" $steps "every step has its loss"
same_as_alone $run -- train

report=$(dynpipe report -j "$job" --json)
runs "the report tells at least one hand-over" test "$(jq '[.report.handovers[]? | select(.outcome == "committed")] | length' <<<"$report")" -ge 1
is "$(jq '.report | (.saving.run.device_s - .device_seconds_held | fabs) < 0.01 and (.saving.run.time_s - .now_s | fabs) < 0.01 and
    .saving.fixed.device_s == 4 * .saving.fixed.time_s and .saving.balanced.time_s <= .saving.fixed.time_s and
    .saving.unknown_steps < .saving.steps and (.saving.is_forecast | not)' <<<"$report")" true \
    "the run stands beside its fixed layout and all nodes balanced"
like "$(dynpipe explain -j "$job")" "DEVICES +STEP +TIME +LATER +DEVICE-S" "explain has the trade for the nodes that it held last"
runs "and the release" test "$(jq '.report.releases | length' <<<"$report")" -ge 1
# jq writes a number that it counted with as it writes all of them, and any other one as it was read.
is "$(jq -c '[.report.step, .report.loss_step, .report.loss + 0]' <<<"$report")" \
    "$(jq -c 'select(.loss != null) | [.step, .step, .loss + 0]' "$D/train.jsonl" | tail -n 1)" "its loss is that of the last step"
# ---- requeued: where the job gave a node back it may start again, as soon as Slurm says so ---------------

take_cores
job=$(submit requeued $release --requeue -- "$D/requeued.jsonl" $run)
wait_for 120 nodes_fewer "$job" 4
ok $? "another run gives a node back"
scontrol requeue "$job"
wait_for 60 job_is "$job" PENDING
rm -f "$D/requeued.jsonl"
# Not in the same second: slurmd takes the new credential for the one that the requeue revoked.
scontrol update JobId="$job" StartTime=now+2
wait_for 60 job_is "$job" RUNNING
is "$(job_nodes "$job")" 4 "requeued, it has all nodes again"
wait_for 120 steps_done "$D/requeued.jsonl" 5
ok $? "and all its workers train"
end_run "$job" requeued

is "$(drained_nodes)" "" "no node is drained"
done_testing
