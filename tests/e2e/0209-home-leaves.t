#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Home, the slice whose job a run has its name of, is a slice like any other: it is cancelled, killed or preempted, and the rest trains
# on, in the same run. The coordinator lives on in the daemon beside it, also when that is restarted; slices that begin then find the
# run by asking others. Losses are those of one worker.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
slices_hysteresis=50.0 # who has layers is what this looks at
slices_cluster 4.0 'poll_s = 2.0;'
task_of() { squeue -h -r -t all -j "$1" -o "%A %i" | sed -n "s/^$2 //p"; } # ARRAY JOB: scancel knows a task by its number
kill_worker() { kill -KILL "$(workers_on "$1" "$(squeue -h -j "$1" -o %N)")"; } # JOB
logs() { cat "$D"/log/dynpiped.n*.log; }

# ---- home is cancelled, a task comes later, the coordinator's daemon is restarted ---------------------------------

rest=$(sbatch --parsable -w n2 -n1 -c1 --gpus=3 --mem=100 -o "$D/rest.out" --wrap "sleep 1000")
wait_for 60 job_is "$rest" RUNNING
block=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o "$D/block.out" --wrap "sleep 1000")
wait_for 60 job_is "$block" RUNNING
gone=$(array gone 0-4 --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=5 -- $run)
wait_for 60 steps_done "$D/gone.jsonl" 5
ok $? "gone: they train"
home=$(home_of "$gone")
wait_for 60 holders_are "$home" 3
ok $? "gone: three of them, on two nodes"
node=$(squeue -h -j "$home" -o %N)
scancel "$(task_of "$gone" "$home")"
wait_for 60 job_ended "$home"
is "$(job_state "$home")" CANCELLED "gone: home is cancelled"
wait_for 60 holders_are "$home" 2
ok $? "gone: and the others have its layers"
makes_steps gone
ok $? "gone: they train on"
is "$(grep -c '"event":"regrouped"' "$D/gone.jsonl")" 0 "gone: nothing was made again"
like "$(timeout 10 dynpipe explain -j "$home" 2>&1)" "$node +[a-z]+ +beside the coordinator" "gone: explain says where the coordinator is"
is_told() { logs | grep -q "job=$home is over .*its run goes on with other slices"; }
wait_for 60 is_told
ok $? "gone: the daemon beside it knows that the run outlives its job"
scancel "$rest"
wait_for 60 states_are "$gone" "1 CANCELLED, 4 RUNNING"
wait_for 60 holders_are "$home" 4
ok $? "gone: tasks that begin then find the run, and have layers"
makes_steps gone
ok $? "gone: all train"
cluster stop "daemon:$node" KILL
cluster start "daemon:$node"
known() { [ "$(status "$home" .state 2>/dev/null)" != "" ]; }
wait_for 60 known
wait_for 60 holders_are "$home" 4
ok $? "gone: a restarted daemon has the run again from its journal"
makes_steps gone
ok $? "gone: they train on"
mapfile -t others < <(squeue -h -r -t R -j "$gone" -o %i)
scancel "${others[0]}"
wait_for 60 holders_are "$home" 3
ok $? "gone: and lets another slice go"
makes_steps gone
ok $? "gone: the rest trains"
scancel --signal=TERM "$gone"
wait_for 120 all_ended "$gone"
is "$(states "$gone")" "2 CANCELLED, 3 COMPLETED" "gone: all that are left end well"
reported() { dynpipe report -j "$home" >"$D/gone.report" 2>&1; }
wait_for 60 reported
ok $? "gone: the run has its report"
is "$(find "$D"/spool -name "job-$home.*.journal" | wc -l)" 0 "gone: no journal is left"

# ---- home is killed without a word --------------------------------------------------------------------------------

scancel "$block"
wait_for 60 all_nodes_idle
killed=$(array killed 0-2 --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=3 -- $run checkpoint.dir="$D/killed.ckpt" checkpoint.every=20)
wait_for 60 steps_done "$D/killed.jsonl" 25
ok $? "killed: three slices train"
home=$(home_of "$killed")
kill_worker "$home"
wait_for 60 job_ended "$home"
wait_for 60 file_has "$D/killed.jsonl" '"event":"regrouped"'
ok $? "killed: the others regroup"
makes_steps killed
ok $? "killed: and go on"
scancel --signal=TERM "$killed"
wait_for 120 all_ended "$killed"
is "$(states "$killed")" "2 COMPLETED, 1 FAILED" "killed: and end well"

# ---- a job that asked for companions: the same, and one that begins when it is over ----------------------------------

wait_for 60 all_nodes_idle
block=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o "$D/block.out" --wrap "sleep 1000")
wait_for 60 job_is "$block" RUNNING
cat >"$D/one.sh" <<X
#!/bin/bash
srun -n1 $(worker_command "$D/one.jsonl" $run checkpoint.dir="$D/one.ckpt" checkpoint.every=20) && exit
rc=\$?
sleep 3 # the job outlives its worker: those that wait are wanted all the same
[ \$rc = 75 ]
X
one=$(sbatch --parsable -J one -w n1 -n1 -c1 --gpus=1 --mem=500 -t 60 -o "$D/one.%j.out" --dynpipe=balance --dynpipe-min-gpus=1 \
    --dynpipe-slices=3 "$D/one.sh")
family() { squeue -h -t all -o '%A %T %k' | sed -n "s/^\([0-9]* [A-Z]*\) .*dynpipe: slice of $1\$/\1/p"; } # HOME: its companions
n_are() { [ "$(family "$1" | grep -c " $2\$")" = "$3" ]; }
wait_for 60 steps_done "$D/one.jsonl" 25
wait_for 60 holders_are "$one" 2
ok $? "one: a job and a companion train"
wait_for 60 n_are "$one" PENDING 1
ok $? "one: and another one waits"
kill_worker "$one"
wait_for 60 job_ended "$one"
makes_steps one
ok $? "one: the job's own worker is killed, and the companion goes on"
scancel "$block"
wait_for 60 n_are "$one" RUNNING 2
wait_for 60 holders_are "$one" 2
ok $? "one: who begins then joins"
makes_steps one
ok $? "one: they train"
for job in $(family "$one" | sed -n 's/ RUNNING$//p') "$one"; do scancel --signal=TERM "$job"; done
none() { ! { squeue -h -t all -j "$one" -o %T; family "$one"; } | grep -qE 'PENDING|RUNNING|COMPLETING'; }
wait_for 120 none
ok $? "one: all end"

each_step_once killed
each_step_once one
same_as_alone $run -- gone killed-whole one-whole
is "$(drained_nodes)" "" "no node is drained"
done_testing
