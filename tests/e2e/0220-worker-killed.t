#!/bin/bash
# kill -9 of a worker: the run ends with a clear message and resumes from the last checkpoint, also on
# another number of workers, with the same losses as if nothing had happened.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="train.steps=200 prune.begin=20 prune.end=80 prune.every=20 data.eval_every=0"
run_cluster
alone "$D/alone.jsonl" $run
ok $? "one worker alone trains to the end"
losses "$D/alone.jsonl" >"$D/alone.loss"

saved="checkpoint.dir=$D/saved checkpoint.every=40 checkpoint.resume=auto"
job=$(submit first --dynpipe=balance -- "$D/first.jsonl" $run $saved)
wait_for 60 steps_done "$D/first.jsonl" 90
ok $? "a run with checkpoints passes step 90"
victim=$(workers_on "$job" n3 | head -n 1)
kill -KILL "$victim"
wait_for 60 job_ended "$job"
isnt "$(job_state "$job")" COMPLETED "after kill -9 of a worker the run does not end as if all were well"
like "$(cat "$D/first.out")" "dynpipe: .*n3.* signal 9" "the user reads which worker died of what"
wait_for 30 all_nodes_idle
ok $? "all nodes are free again"
is "$(drained_nodes)" "" "no node is drained"

cat >"$D/second.sh" <<X
#!/bin/bash
srun --mpi=pmix -n 2 $(worker_command "$D/second.jsonl" $run $saved)
X
job=$(sbatch --parsable -N2 --gpus-per-node=1 --exclusive --dynpipe=balance -o "$D/second.out" "$D/second.sh")
wait_for 200 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the run resumes on two nodes and ends well"
like "$(cat "$D/second.out")" "step-0*80" "it says from which checkpoint"
losses "$D/second.jsonl" >"$D/second.loss"
runs "every loss after the checkpoint is that of the undisturbed run" \
    cmp <(tail -n "$(wc -l <"$D/second.loss")" "$D/alone.loss") "$D/second.loss"
is "$(tail -n 1 "$D/second.loss" | cut -d' ' -f1)" "$(tail -n 1 "$D/alone.loss" | cut -d' ' -f1)" "up to the last step"
done_testing
