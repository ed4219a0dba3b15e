#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Workers that are lost without a word, and the others, who go on in the same step of the same job from their newest
# checkpoint: one that is killed, whose node then goes back to Slurm; two at once, in a run without checkpoints; a node with
# everything on it; the one that leads, and then the next one. The steps that are made again have the losses that they had, to the last bit, and what follows those of an
# undisturbed run. Without a daemon the run ends, and says why.
# shellcheck disable=SC2046,SC2086,SC2154 # $run and pids are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=80 prune.every=20"
run_cluster --conf SlurmdTimeout=20 --daemon-conf 'run: { confirm_s = 2.0; };'

# begin NAME SBATCH-OPTIONS -- OVERRIDES: four workers that meet by the daemons. Their srun says what became of those that were
# killed, 137.
begin() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X
#!/bin/bash
srun --mpi=none --no-kill --kill-on-bad-exit=0 -n 4 $(worker_command "$D/$name.jsonl" $run "$@")
rc=\$?
echo "srun ended with \$rc"
[ \$rc = 75 ] || [ \$rc = 137 ]
X
    sbatch --parsable -J "$name" -N4 --gpus-per-node=1 --exclusive -o "$D/$name.out" "${options[@]}" "$D/$name.sh"
}
steps_of() { steps_done "$D/$1.jsonl" "$2"; }
regrouped() { [ "$(grep -c '"event":"regrouped"' "$D/$1.jsonl")" = "$2" ]; }
from_step() { jq -r 'select(.event == "regrouped") | .step' "$D/$1.jsonl" | tail -n 1; }
last_step() { jq -r 'select(.loss != null) | .step' "$D/$1.jsonl" | tail -n 1; }
passes() { # NAME MORE
    local now
    now=$(last_step "$1")
    wait_for 120 steps_of "$1" $((now + $2))
}
in_job() { scontrol show hostnames "$(squeue -h -j "$1" -o %N)" | grep -qx "$2"; }
not_in_job() { ! in_job "$@"; }

# end NAME JOB: asked to stop, it ends well; no step has two losses, none is missing, and all are those of one worker.
end() {
    scancel --signal=TERM "$2"
    wait_for 120 job_ended "$2"
    is "$(job_state "$2")" COMPLETED "$1: the run ends well when it is asked to"
    each_step_once "$1"
    wait_for 60 all_nodes_idle
    ok $? "$1: every node is free afterwards"
}

# One worker, in mode release.
job=$(begin one $release -- checkpoint.dir=$D/one checkpoint.every=40)
paused() { timeout 10 dynpipe pause -j "$job" >"$D/pause.out" 2>&1; }
wait_for 60 paused
ok $? "one: no node is given back for another reason"
wait_for 120 steps_of one 90
ok $? "one: a run with checkpoints passes step 90"
before=$(workers_on "$job" n3 | head -n 1)
kill -KILL "$before"
wait_for 60 regrouped one 1
ok $? "one: after kill -9 of a worker the others regroup"
runs "one: and train on, in the same step" passes one 60
is "$(($(from_step one) % 40))" 0 "one: from a checkpoint: step $(from_step one)"
said="regrouped: worker 2 on n3 was lost \(process $before\); 3 workers go on from step $(from_step one) of checkpoint $D/one/step-"
like "$(cat "$D/one.out")" "$said" "one: the user reads who was lost, and from where the others go on"
like "$(dynpipe explain -j "$job" 2>&1)" "worker 2 on n3 was lost" "one: and so does explain"
like "$(dynpipe report -j "$job" 2>&1)" "worker 2 on n3 was lost" "one: and report"
wait_for 60 not_in_job "$job" n3
ok $? "one: the node of the lost worker goes back to Slurm"
free() { [ "$(node_state n3)" = idle ]; }
wait_for 60 free
ok $? "one: and is free for the next job"
passes one 20
end one "$job"

# Two at once, in mode balance, and no checkpoint.
job=$(begin two --dynpipe=balance --)
wait_for 120 steps_of two 60
ok $? "two: a run without checkpoints passes step 60"
kill -KILL $(workers_on "$job" n2 | head -n 1) $(workers_on "$job" n4 | head -n 1)
wait_for 60 regrouped two 1
ok $? "two: after kill -9 of two workers the others regroup once"
runs "two: and train on" passes two 100
is "$(from_step two)" 0 "two: from the beginning"
said="worker 1 on n2 was lost .*, and 1 more; 2 workers go on from step 0 with new weights: no checkpoint was made"
like "$(cat "$D/two.out")" "$said" "two: which is said"
is "$(losses "$D/two.jsonl" | grep -c '^30 ')" 2 "two: step 30 was made twice"
is "$(job_nodes "$job")" 4 "two: in mode balance the job keeps its nodes"
end two "$job"

# A node, in a job that does not mind (--no-kill).
job=$(begin node --dynpipe=balance --no-kill -- checkpoint.dir=$D/node checkpoint.every=40)
wait_for 120 steps_of node 90
ok $? "node: a run passes step 90"
lose_node n4 "$job"
wait_for 150 not_in_job "$job" n4
ok $? "node: Slurm takes a dead node out of the job"
wait_for 60 regrouped node 1
ok $? "node: and the others regroup"
runs "node: and train on" passes node 60
like "$(cat "$D/node.out")" "worker 3 on n4 was lost .*; 3 workers go on" "node: it is said which"
is_noted() { [ "$(status "$job" ".slots[] | select(.node == \"n4\") | .state")" = released ]; }
wait_for 60 is_noted
ok $? "node: nobody asks for that node again"
return_node n4
scontrol update nodename=n4 state=resume 2>/dev/null
end node "$job"

# Worker 0 leads the run, then worker 1, and then worker 2. The log goes on in one file, a hand-over is ordered by whoever leads,
# and the batch host stays in the job, though none of its workers does.
job=$(begin leader $release -- checkpoint.dir=$D/leader checkpoint.every=40)
wait_for 60 paused
ok $? "leader: no node is given back for another reason"
wait_for 120 steps_of leader 90
ok $? "leader: a run passes step 90"
kill -KILL $(workers_on "$job" n1 | head -n 1)
wait_for 60 regrouped leader 1
ok $? "leader: after kill -9 of worker 0 the others regroup"
is "$(($(from_step leader) % 40))" 0 "leader: from a checkpoint: step $(from_step leader)"
like "$(cat "$D/leader.out")" "worker 0 on n1 was lost .*; 3 workers go on, worker 1 leads, from step .*; layout x" "leader: the user reads who leads now"
passes leader 20
moved() { dynpipe layout --set "x|0-1|2-4|5-7" -j "$job" >"$D/layout.out" 2>&1; }
wait_for 20 moved
ok $? "leader: layers can be moved"
handed_over() { grep -q '"event":"handover"' "$D/leader.jsonl"; }
wait_for 60 handed_over
ok $? "leader: and worker 1 orders it"
saves=$(grep -c '"event":"saved"' "$D/leader.jsonl")
runs "leader: it is asked for a checkpoint" dynpipe save -j "$job"
saved_more() { [ "$(grep -c '"event":"saved"' "$D/leader.jsonl")" -gt "$saves" ]; }
wait_for 60 saved_more
ok $? "leader: and makes it"
kill -KILL $(workers_on "$job" n2 | head -n 1)
wait_for 60 regrouped leader 2
ok $? "leader: after kill -9 of worker 1 the others regroup again"
like "$(cat "$D/leader.out")" "worker 1 on n2 was lost .*; 2 workers go on, worker 2 leads" "leader: worker 2 leads"
wait_for 60 not_in_job "$job" n2
ok $? "leader: the node of worker 1 goes back to Slurm"
runs "leader: the batch host does not" in_job "$job" n1
passes leader 20
end leader "$job"

# Nobody is left to say who goes on, and the user asks for the end: it comes before Slurm would make it (KillWait).
job=$(begin deaf --dynpipe=balance -- checkpoint.dir=$D/deaf checkpoint.every=40)
wait_for 120 steps_of deaf 50
ok $? "deaf: a run passes step 50"
kill -KILL $(cat "$D"/run/dynpiped.n[1-4].pid) $(workers_on "$job" n4 | head -n 1)
scancel --signal=TERM "$job"
wait_for 60 job_ended "$job"
ok $? "deaf: a run that waits for a coordinator ends when it is asked to"
like "$(cat "$D/deaf.out")" "asked to stop, and the coordinator named nobody lost since; the run ends here, start it again" "deaf: and says how to go on"

same_as_alone $run -- one-whole two-whole node-whole leader-whole
done_testing
