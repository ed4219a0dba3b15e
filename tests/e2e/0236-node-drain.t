#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# scontrol drains a node of a run of whole nodes: its layers go to the others by a hand-over, the job shrinks itself by the node, which
# is drained then, long before the run ends, and the losses are those of one worker. Where that cannot be (the job's own node; a
# second shrink, which this Slurm does not allow without slurmdbd; mode balance) the workers stay, and status and explain say why.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=0 prune.end=0"
run_cluster --daemon-key 'poll_s = 1.0;' --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
drain() { scontrol update NodeName="$1" State=drain Reason=maintenance; }
says() { status "$job" "[.slots[] | select(.node == \"$1\") | .text][0]" | grep -qE -- "$2"; } # NODE WHAT

# Nothing is packed: all four are wanted as long as a step may take no longer than the fastest does.
job=$(submit train --dynpipe=release --dynpipe-min-gpus=1 --dynpipe-reference=best --dynpipe-max-slowdown=0 -- "$D/train.jsonl" $run)
wait_for 60 steps_done "$D/train.jsonl" 5
ok $? "a run on four nodes trains"
t0=$EPOCHREALTIME
drain n3
wait_for 120 node_is n3 drained
ok $? "a node that is drained is given back while the run goes on"
diag "$(awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s after scontrol drained it", b - a }')"
is "$(job_nodes "$job") $(squeue -h -j "$job" -o %N)" "3 n[1-2,4]" "the job has the other three"
is "$(job_state "$job")" RUNNING "and runs"
wait_for 60 holders_are "$job" 3
ok $? "three workers have its layers"
makes_steps train
ok $? "they train"
is "$(grep -c '"event":"regrouped"' "$D/train.jsonl")" 0 "nothing was made again"
is "$(tasks_on "$job" n3)" "" "no process of the run is left on that node"
released() { [ "$(status "$job" '[.slots[] | select(.node == "n3").state][0]')" = released ]; }
wait_for 60 released
ok $? "Slurm confirms it"
like "$(status "$job" '[.events[].text] | join("; ")')" "Slurm drains n3: its workers are to leave; .*n3 is gone: .*n3 is released" "status says why layers moved"

drain n1
wait_for 60 says n1 "Slurm drains it; the run stays: it is coordinated there"
ok $? "the job's own node stays, and status says so"
like "$(dynpipe explain -j "$job" 2>&1)" "the batch host, which Slurm never takes back; Slurm drains it" "explain, too"
case $(job_nodes "$job"),$(status "$job" .job.shrinks_allowed) in
    3,1)
        drain n2
        wait_for 60 says n2 "Slurm drains it; its workers stay: this Slurm lets a job shrink once, and it has"
        ok $? "a second one cannot be given back here, and stays" ;;
    *) skip "a second one cannot be given back here" "this Slurm lets a job shrink again" ;;
esac
makes_steps train
ok $? "the run goes on there"
like "$(sinfo -h -N -o '%N %T' | sort | tr '\n' ';')" "^n1 draining;n2 (draining|allocated);n3 drained;n4 allocated;$" "Slurm waits for it"
end_run "$job" train
for n in n1 n2 n3; do scontrol update NodeName=$n State=resume 2>/dev/null; done
wait_for 60 all_nodes_idle
ok $? "all nodes are free in the end"

job=$(submit keep --dynpipe=balance -- "$D/keep.jsonl" $run)
wait_for 60 steps_done "$D/keep.jsonl" 5
drain n2
wait_for 60 says n2 "Slurm drains it; its workers stay: nodes go back to Slurm in mode release only"
ok $? "in mode balance they stay"
is "$(job_nodes "$job")" 4 "the job keeps its nodes"
end_run "$job" keep
scontrol update NodeName=n2 State=resume
same_as_alone $run -- train keep
done_testing
