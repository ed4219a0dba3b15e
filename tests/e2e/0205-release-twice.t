#!/bin/bash
# With slurmdbd a job may shrink as often as it likes: a run gives its nodes back one after the other,
# as pruning frees them, and keeps the losses of one worker alone.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
for p in slurmdbd mariadbd; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done

run="train.steps=700 prune.begin=20 prune.end=320 prune.every=50 data.eval_every=0"
run_cluster --dbd --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
alone "$D/alone.jsonl" $run
ok $? "one worker alone trains to the end"

job=$(submit train --dynpipe=release --dynpipe-min-gpus=1 -- "$D/train.jsonl" $run)
wait_for 60 nodes_fewer "$job" 4
ok $? "the run gives nodes back"
first=$(job_nodes "$job")
wait_for 120 nodes_fewer "$job" "$first"
ok $? "and, smaller by then ($first nodes), gives back more"
wait_for 240 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the run ends well"
report=$(dynpipe report -j "$job" --json)
[ "$(jq '.report.job.shrinks_used' <<<"$report")" -ge 2 ]
ok $? "Slurm shrank it $(jq '.report.job.shrinks_used' <<<"$report") times"
losses "$D/alone.jsonl" >"$D/alone.loss"
losses "$D/train.jsonl" >"$D/train.loss"
runs "every loss is bit for bit that of one worker alone" cmp "$D/alone.loss" "$D/train.loss"
is "$(drained_nodes)" "" "no node is drained"
done_testing
