#!/bin/bash
# A pruning run on a real Slurm hands layers over, leaves nodes, and the job that waits starts on one
# of them while training goes on. The loss of every step equals that of one worker alone, and no
# process of the run starts on a released node again.
# shellcheck disable=SC2016,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="train.steps=700 prune.begin=20 prune.end=120 prune.every=20 data.eval_every=0"
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'

# shellcheck disable=SC2086
alone "$D/alone.jsonl" $run
ok $? "one worker alone trains to the end"

# shellcheck disable=SC2086
job=$(submit train --dynpipe=release --dynpipe-min-gpus=1 -- "$D/train.jsonl" $run)
wait_for 20 job_is "$job" RUNNING
ok $? "sbatch --dynpipe=release starts a run on four nodes"

# The observer runs on what the run gave back, for as long as the run lasts, and looks for it there.
cat >"$D/observer.sh" <<X
#!/bin/bash
. "$DP_SRCDIR/tests/e2e/observe.sh"
observe $job "$D/observer.seen" "$D/train.jsonl"
X
observer=$(sbatch --parsable -N1 --gpus-per-node=1 --exclusive -o "$D/observer.out" "$D/observer.sh")
is "$(job_state "$observer")" PENDING "another job has to wait"

wait_for 120 nodes_fewer "$job" 4
ok $? "the run becomes smaller"
kept=$(job_nodes "$job")
wait_for 30 job_is "$observer" RUNNING
ok $? "the waiting job starts on a freed node"
job_is "$job" RUNNING
ok $? "while training goes on"
node=$(squeue -h -j "$observer" -o %N)
isnt "$node" n1 "and not on the batch host, which never goes back"

wait_for 240 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the run ends well on $kept node(s)"
wait_for 30 job_ended "$observer"
is "$(cat "$D/observer.seen" 2>/dev/null)" "nothing of the run was seen on $node" \
    "no process of the run is or comes back on the released node"

losses "$D/alone.jsonl" >"$D/alone.loss"
losses "$D/train.jsonl" >"$D/train.loss"
is "$(wc -l <"$D/train.loss")" 700 "every step has its loss"
runs "bit for bit those of one worker alone" cmp "$D/alone.loss" "$D/train.loss"

report=$(dynpipe report -j "$job" --json)
[ "$(jq '[.report.handovers[]? | select(.outcome == "committed")] | length' <<<"$report")" -ge 1 ]
ok $? "the report tells at least one hand-over"
[ "$(jq '.report.releases | length' <<<"$report")" -ge 1 ]
ok $? "and the release"
is "$(drained_nodes)" "" "no node is drained"
done_testing
