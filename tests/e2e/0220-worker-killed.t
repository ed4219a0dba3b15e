#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of a worker: the run ends with a clear message and resumes from the last checkpoint, also on
# another number of workers, with the same losses as if nothing had happened.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=80 prune.every=20"
run_cluster

saved="checkpoint.dir=$D/saved checkpoint.every=40 checkpoint.resume=auto"
job=$(submit first --dynpipe=balance -- "$D/first.jsonl" $run $saved)
wait_for 120 steps_done "$D/first.jsonl" 90
ok $? "a run with checkpoints passes step 90"
# Under PMIx any worker's death ends the step, else that of worker 0 (and 0221-worker-lost has the others).
node=${mpi:+n3}
victim=$(workers_on "$job" "${node:=n1}" | head -n 1)
kill -KILL "$victim"
wait_for 120 job_ended "$job"
isnt "$(job_state "$job")" COMPLETED "after kill -9 of a worker the run does not end as if all were well"
like "$(cat "$D/first.out")" "dynpipe: .*$node.* signal 9" "the user reads which worker died of what"
wait_for 60 all_nodes_idle
ok $? "all nodes are free again"
is "$(drained_nodes)" "" "no node is drained"

last=$(find "$D/saved" -maxdepth 1 -name 'step-*[0-9]' | sed 's/.*step-0*//' | sort -n | tail -n 1)
is "$((last >= 80 && last % 40 == 0))" 1 "the last checkpoint is one of those that were due: step $last"
cat >"$D/second.sh" <<Y
#!/bin/bash
srun $mpi -n 2 $(worker_command "$D/second.jsonl" $run $saved train.steps=$((last + 60)))
Y
job=$(sbatch --parsable -N2 --gpus-per-node=1 --exclusive --dynpipe=balance -o "$D/second.out" "$D/second.sh")
wait_for 200 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the run resumes on two nodes and ends well"
like "$(cat "$D/second.out")" "step-0*$last" "it says from which checkpoint"

# What the first run did up to the checkpoint and the second after it is one run.
losses "$D/first.jsonl" | head -n "$last" >"$D/both.loss"
losses "$D/second.jsonl" >>"$D/both.loss"
alone "$D/alone.jsonl" $run train.steps=$((last + 60))
ok $? "one worker alone trains to the same step"
losses "$D/alone.jsonl" >"$D/alone.loss"
is "$(wc -l <"$D/alone.loss")" $((last + 60)) "with a loss in every step"
runs "every loss before and after the checkpoint is that of the undisturbed run" cmp "$D/alone.loss" "$D/both.loss"
done_testing
