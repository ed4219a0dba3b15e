#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Slices that come when the run trains already are taken in by a hand-over, without a restart: tasks of the array that began later,
# and one that Slurm took and gave back. Losses are those of one worker whatever comes when; the daemon of home may be restarted
# in between, and a newcomer may die. A run that gave slices back because it does not need them takes none. One that waits when its
# run ends is told, and finds out where nobody tells it.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
slices_hysteresis=50.0 # who has layers is what this looks at
slices_cluster 4.0 'poll_s = 2.0;'

# ---- two of four begin, the others come later, on another node ---------------------------------------------------

block=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o "$D/block.out" --wrap "sleep 1000")
wait_for 60 job_is "$block" RUNNING
rest=$(sbatch --parsable -w n2 -n1 -c1 --gpus=4 --mem=100 -o "$D/rest.out" --wrap "sleep 1000")
wait_for 60 job_is "$rest" RUNNING
late=$(array late 0-3 --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=4 -- $run)
wait_for 60 steps_done "$D/late.jsonl" 5
ok $? "late: those that are there train"
is "$(states "$late")" "2 PENDING, 2 RUNNING" "late: and two tasks wait"
home=$(home_of "$late")
wait_for 60 holders_are "$home" 2
ok $? "late: the layout has two" # the second one joins, where it was slow
scancel "$rest"
wait_for 60 states_are "$late" "4 RUNNING"
wait_for 60 holders_are "$home" 4
ok $? "late: the others begin on another node, and have layers of it"
makes_steps late
ok $? "late: all train"
like "$(status "$home" '[.events[].text] | join("; ")')" "n2 \(job [0-9]+\) (and 1 more join|joins)" "late: by a hand-over"
is "$(grep -c '"event":"regrouped"' "$D/late.jsonl")" 0 "late: nothing was made again"

# ---- one that Slurm takes comes again, with home's daemon restarted since, and one that dies is only missed ----------

# A task that is not home's: the array's own number is that of its last task, too, so scontrol has to be told the task.
other() { squeue -h -r -t R -j "$late" -o "%A %i" | grep -v "^$home " | head -n1; }
read -r again task < <(other)
scontrol requeue "$task"
wait_for 60 task_is "$task" PENDING # when it has ended, Slurm lets it wait two minutes from then on
scontrol update JobId="$task" StartTime=now+3
wait_for 60 holders_are "$home" 3
ok $? "again: a slice is requeued, and its layers are elsewhere"
cluster stop "daemon:n1" KILL # home's
cluster start "daemon:n1"
wait_for 120 task_is "$task" RUNNING
wait_for 60 holders_are "$home" 4
ok $? "again: its next life has layers"
makes_steps late
ok $? "again: all train"
like "$(status "$home" '[.events[].text] | join("; ")')" "job $again\) joins" "again: by a hand-over"
is "$(grep -c '"event":"regrouped"' "$D/late.jsonl")" 0 "again: nothing was made again"

# ---- their node is drained: they leave it, and Slurm would have let them stay -------------------------------------------

on_n2() { squeue -h -r -t R -w n2 -j "$late" -o %i | wc -l; }
n_there=$(on_n2)
scontrol update NodeName=n2 State=drain Reason=maintenance
none_on_n2() { [ "$(on_n2)" = 0 ]; }
is "$(squeue -h -j "$home" -o %N)" n1 "drained: home is elsewhere, and need not leave"
wait_for 60 none_on_n2
ok $? "drained: $n_there slices leave the node that is drained"
wait_for 60 holders_are "$home" $((4 - n_there))
ok $? "drained: and the others have their layers"
makes_steps late
ok $? "drained: those train"
is "$(grep -c '"event":"regrouped"' "$D/late.jsonl")" 0 "drained: nothing was made again"
scontrol update NodeName=n2 State=resume

# ---- a worker that dies ---------------------------------------------------------------------------------------------

left=$(holders "$home")
read -r killed task < <(other)
node=$(squeue -h -j "$killed" -o %N)
pid=$(workers_on "$killed" "$node" | head -n1)
runs "again: a worker is found" kill -KILL "$pid"
wait_for 60 holders_are "$home" $((left - 1))
ok $? "again: a worker that is killed is missed by the others, which go on"
# There is no checkpoint, so they begin with step 1.
redone() { [ "$(sed '1,/"event":"regrouped"/d' "$D/late.jsonl" | grep -c '"loss"')" -ge 20 ]; }
wait_for 60 redone
ok $? "again: they do"
end_array "$late" late
like "$(states "$late")" "^3 COMPLETED, 1 FAILED$" "late: all others end well"
each_step_once late # a worker was lost

# ---- who is not needed ---------------------------------------------------------------------------------------------

# A newcomer that waits, because the run is paused, and is cancelled, or is there when the run ends.
wait_for 60 all_nodes_idle
paused() { timeout 10 dynpipe pause -j "$home" >"$D/pause.out" 2>&1; }
seated() { [ "$(cat "$D/$1".*.out | grep -c "waits to be taken in")" = 2 ]; }
# two_wait NAME: two slices of an array train on n1 and are paused, two newcomers wait on n2. Sets array and home.
two_wait() {
    rest=$(sbatch --parsable -w n2 -n1 -c1 --gpus=4 --mem=100 -o "$D/rest.out" --wrap "sleep 1000")
    wait_for 60 job_is "$rest" RUNNING
    array=$(array "$1" 0-3 --dynpipe=balance --dynpipe-min-gpus=2 --dynpipe-slices=4 -- $run)
    wait_for 60 steps_done "$D/$1.jsonl" 5
    home=$(home_of "$array")
    wait_for 60 paused
    ok $? "$1: the run is paused"
    scancel "$rest"
    wait_for 60 states_are "$array" "4 RUNNING"
    wait_for 60 seated "$1"
    ok $? "$1: two newcomers wait"
}
two_wait idle
idle=$array
makes_steps idle
is "$(holders "$home")" 2 "idle: and are not taken in"
last=$(squeue -h -r -t R -w n2 -j "$idle" -o %i | tail -n1)
scancel "$last"
wait_for 60 task_is "$last" CANCELLED
ok $? "idle: one that is cancelled ends"
is "$(grep -hc "does not join the run: Slurm ends its job" "$D"/idle.*.out | paste -sd+ | bc)" 1 "idle: and says why"
end_array "$idle" idle
like "$(states "$idle")" "^1 CANCELLED, 3 COMPLETED$" "idle: with the run the other one ends, too"

# A newcomer whose node hears nothing of the run's end: home's daemon is lost with its journals, and the slices of its node are over.
two_wait cut
cut=$array
cluster stop daemon:n1 KILL
find "$D/dynpipe/n1" -name 'job-*.journal' -delete
squeue -h -r -t R -w n1 -j "$cut" -o %i | while read -r task; do scancel "$task"; done
on_n1() { squeue -h -r -w n1 -j "$cut" -o %i | wc -l; }
none_on_n1() { [ "$(on_n1)" = 0 ]; }
wait_for 60 none_on_n1
cluster start daemon:n1
wait_for 60 all_ended "$cut"
ok $? "cut: they find out that their run is over"
like "$(cat "$D"/cut.*.out)" "does not join the run: the run of job [0-9]+ is over" "cut: and say so"
scancel "$block"

same_as_alone $run -- late-whole idle
is "$(drained_nodes)" "" "no node is drained any more"
done_testing
