#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tasks of a job array, jobs of one GPU each, are one run (--dynpipe-slices): they meet, train, hand layers over, and go back one by
# one, each by the end of its job, while the rest trains on and another job has the GPU. On one node and on two; losses are those
# of one worker. Who is too late, or none of them, is refused and ends.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
take_cores
slices_cluster 8.0
task_job() { squeue -h -t all -j "$1_$2" -o %A; } # ARRAY TASK
logs() { cat "$D"/log/dynpiped.n*.log; }

# ---- four slices on one node become two, and other jobs have their GPUs -----------------------------------------

one=$(array one 0-3 -w n1 $release --dynpipe-slices=4 -- $run)
wait_for 60 states_are "$one" "4 RUNNING"
other=$(sbatch --parsable -w n1 -n1 -c1 --gpus=1 --mem=100 -o "$D/other.out" --wrap "sleep 1000")
is "$(job_state "$other")" PENDING "one: another job waits for a GPU of that node"
wait_for 60 steps_done "$D/one.jsonl" 5
ok $? "one: four jobs of one GPU train as one run"
home=$(home_of "$one")
is "$(status "$home" '[.slots[] | .job] | length')" 4 "one: status has four slices"
marked() { [ "$(squeue -h -r -j "$one" -o %k | sort | uniq -c | awk '{$1 = $1} 1')" = "1 dynpipe: home of slices
3 dynpipe: slice of $home" ]; }
wait_for 60 marked
ok $? "one: comments of the tasks say what belongs together"
cores() { sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$1/status"; }
is "$(cores "$(workers_on "$home" n1)")" "$(cores self)" "one: where Slurm binds no job a slice may run on every core, as its neighbours do"
wait_for 240 job_is "$other" RUNNING
ok $? "one: the job that waited runs on a GPU that a slice had"
like "$(states "$one")" "^[12] COMPLETED, [23] RUNNING$" "one: a slice has completed, the others run"
wait_for 240 states_are "$one" "2 COMPLETED, 2 RUNNING"
ok $? "one: and another slice goes"
makes_steps one
ok $? "one: the rest trains on"
is "$(job_state "$home")" RUNNING "one: the slice whose job the run is stays"
like "$(timeout 10 dynpipe status -j "$(squeue -h -r -j "$one" -o %A | grep -vx "$home")" 2>&1)" "a slice of the run of job $home on n1" "one: who asks for another slice is told where to look"
is_released() { logs | grep -qE "job=$home n1 \(job [0-9]+\) is released"; }
wait_for 60 is_released
ok $? "one: the coordinator has seen Slurm end them"
end_array "$one" one
is "$(states "$one")" "4 COMPLETED" "one: all slices end well"
scancel "$other"

# ---- two nodes, with one task more than there are slices; the daemon of home is restarted meanwhile --------------

wait_for 60 all_nodes_idle
two=$(array two 0-4 -c4 $release --dynpipe-slices=4 -- $run)
wait_for 60 states_are "$two" "1 PENDING, 4 RUNNING"
ok $? "two: two slices on each node, and one waits"
wait_for 60 steps_done "$D/two.jsonl" 5
ok $? "two: they train"
home=$(home_of "$two")
node=$(squeue -h -j "$home" -o %N)
cluster stop "daemon:$node" KILL
cluster start "daemon:$node"
late() { cat "$D/two".*.out | grep -qE "the run has the [0-9] slices? that it needs"; }
wait_for 240 late
ok $? "two: the task that begins on a GPU that came back is told that the run, which gave it back, needs no more"
wait_for 60 states_are "$two" "2 COMPLETED, 1 FAILED, 2 RUNNING" || wait_for 60 states_are "$two" "1 COMPLETED, 1 FAILED, 3 RUNNING"
ok $? "two: and ends, while the others train"
makes_steps two
ok $? "two: they do"
scancel --signal=TERM "$two"
wait_for 120 all_ended "$two"
is "$(states "$two")" "4 COMPLETED, 1 FAILED" "two: all slices of the run end well"

# ---- who does not belong there ------------------------------------------------------------------------------------

wait_for 60 all_nodes_idle
array lone 0-2%2 -w n1 --dynpipe=balance --dynpipe-slices=3 -- $run >"$D/lone.id"
lone=$(cat "$D/lone.id")
plain=$(sbatch --parsable -n1 --gpus=1 --mem=500 --dynpipe=balance --dynpipe-slices=1 -o "$D/plain.out" \
    --wrap "srun -n1 $(worker_command "$D/plain.jsonl" $run)")
wait_for 60 states_are "$lone" "1 PENDING, 2 RUNNING"
# A worker of the same user's, outside of the slice's step; and one of another user's.
pretend() { # JOB: as its worker
    # shellcheck disable=SC2046
    env SLURM_JOB_ID="$1" SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0 DYNPIPE_SLICES=3 DYNPIPE_WIREUP_S=5 \
        ${2:-} timeout 60 $(worker_command "$D/pretend.jsonl" $run) 2>&1
}
slice=$(task_job "$lone" 0)
has_come() { logs | grep -q "job=$slice is a slice of the run"; } # its own worker has
wait_for 60 has_come
like "$(pretend "$slice")" "was not started by any task of step 0|another process is the worker" "a process outside of the slice's step is refused"
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$worker" 2>/dev/null; then
    like "$(pretend "$slice" "setpriv --reuid 65534 --regid 65534 --clear-groups")" "belongs to another user" "another user's process is refused"
else
    skip "another user's process is refused" "no other user reaches the build"
fi
wait_for 60 job_ended "$plain"
is "$(job_state "$plain")" FAILED "a job that is no task of an array, and is to have no companion, is no slice"
like "$(cat "$D/plain.out")" "this job is none" "and is told so"
wait_for 60 all_ended "$lone"
is "$(states "$lone")" "3 FAILED" "fewer slices than are needed do not begin"
like "$(cat "$D"/lone.*.out)" "2 of 3 slices have joined in 8 s, and the run needs more" "and say so"
like "$(cat "$D"/lone.*.out)" "no more than [12] of the 3 slices that the run needs are there, and no task of the array waits" "a task that begins when the others are over does not wait"
runs "nothing was trained" test ! -s "$D/lone.jsonl"

# ---- Slurm takes slices, one after the other, and says so before: their layers go to the others ----------------------

taken=$(array taken 0-3 -w n1 $release --dynpipe-min-gpus=1 --dynpipe-slices=4 -- $run)
wait_for 60 steps_done "$D/taken.jsonl" 5
ok $? "taken: four slices train"
home=$(home_of "$taken")
paused() { timeout 10 dynpipe pause -j "$home" >"$D/pause.out" 2>&1; }
wait_for 60 paused
ok $? "taken: none is given back for another reason"
mapfile -t others < <(squeue -h -r -j "$taken" -o "%A %i" | sed -n "/^$home /!s/.* //p") # scancel knows a task by its number
scancel --signal=TERM "${others[0]}"
wait_for 60 job_ended "${others[0]}"
is "$(job_state "${others[0]}")" COMPLETED "taken: one that is asked to end ends well"
scancel "${others[1]}"
wait_for 60 job_ended "${others[1]}"
is "$(job_state "${others[1]}")" CANCELLED "taken: another one is cancelled"
makes_steps taken
ok $? "taken: the rest trains on"
is "$(grep -c '"event":"regrouped"' "$D/taken.jsonl")" 0 "taken: both had left before Slurm killed them (KillWait is 5 s here): nothing had to be made again"
like "$(status "$home" '[.events[].text] | join(" ")')" "Slurm ends n1 \(job [0-9]+\): worker [1-3] asks to be let go .*committed at step [0-9]+: Slurm ends n1 \(job" "taken: status says why layers moved"
given_back() { [ "$(status "$home" '[.slots[] | select(.state == "released")] | length')" = 2 ]; }
wait_for 60 given_back
ok $? "taken: the two are given back"
end_array "$taken" taken

# ---- with fewer slices than expected, and cancelled -----------------------------------------------------------------

few=$(array few 0-1 --dynpipe=balance --dynpipe-min-gpus=2 --dynpipe-slices=3 -- $run checkpoint.dir="$D/few.ckpt")
wait_for 60 steps_done "$D/few.jsonl" 5
ok $? "few: two of three begin when the time is over"
scancel "$few"
wait_for 120 all_ended "$few"
is "$(states "$few")" "2 CANCELLED" "few: scancel of the array ends the run"
runs "few: with a checkpoint" test -n "$(find "$D/few.ckpt" -name '*.manifest' -o -name 'manifest*' -o -name '*.json' 2>/dev/null | head -n1)"

same_as_alone $run -- one two taken
is "$(drained_nodes)" "" "no node is drained"
done_testing
