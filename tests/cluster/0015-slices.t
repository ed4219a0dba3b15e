#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What Slurm tells a daemon of the tasks of a job array, jobs of one GPU each that share nodes: which are there and where,
# which began first, and which are over, ended, requeued or not yet begun. And of jobs that comments make companions of one.
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"

cluster_up --nodes 2 --gpus 2 --cpus 4 --no-daemon
probe=$DP_BUILDDIR/tests/lib/slices_probe
me=$(id -u)
short=(-n1 --mem=100 -t 10 -o /dev/null)

# A task runs until its file is there. The last one to begin has the array's own id: Slurm is asked by array and task.
cat >"$D/task.sh" <<'END'
#!/bin/bash
until [ -e "$1/$SLURM_ARRAY_TASK_ID" ]; do sleep 0.1; done
END

task_job() { squeue -h -t all -j "$1_$2" -o %A; } # ARRAY TASK
seen() { "$probe" "$1" "$me"; }
shows() { seen "$1" | grep -qx -- "$2"; }

mkdir "$D/a"
array=$(sbatch --parsable "${short[@]}" --requeue --array=0-3 --gpus=1 "$D/task.sh" "$D/a") || bail "sbatch refuses an array"
for t in 0 1 2 3; do wait_for 60 job_is "${array}_$t" RUNNING || bail "task $t does not begin"; done
for t in 0 1 2 3; do job[t]=$(task_job "$array" "$t"); done
wait_for 10 shows "$array" 'home [0-9]*'
is "$(seen "$array" | head -n1)" "rc=0 n=4 " "all four tasks are there"
for t in 0 1 2 3; do
    shows "$array" "${job[t]} $(squeue -h -j "${array}_$t" -o %N) running 0"
    ok $? "task $t is job ${job[t]} on its node"
done
is "$(seen "$array" | awk '$3 == "running" {n[$2]++} END {print n["n1"], n["n2"]}')" "2 2" "two of them on each node"
first=$(for t in 0 1 2 3; do echo "$(date -d "$(squeue -h -j "${array}_$t" -o %S)" +%s) $t ${job[t]}"; done | sort -n -k1 -k2 | head -n1 | cut -d' ' -f3)
is "$(seen "$array" | tail -n1)" "home $first" "home is the one that began first, and of one second the lowest task"
is "$("$probe" "$array" $((me + 1)) | head -n1)" "rc=0 n=0 " "none of them is another user's"

mkdir "$D/b"
waiting=$(sbatch --parsable "${short[@]}" --array=0-1 --gpus=1 "$D/task.sh" "$D/b")
is "$(seen "$waiting")" "rc=0 n=0 others wait
home none" "of an array that waits for GPUs none is there"

# The end of one of two on a node frees its GPU, and the next job has it; its neighbour goes on.
touch "$D/a/2"
wait_for 60 job_ended "${array}_2"
wait_for 60 job_is "${waiting}_0" RUNNING
is "$(squeue -h -t all -j "${array}_2" -o %T)" COMPLETED "a slice that ends by itself is completed"
is "$(seen "$array" | head -n1)" "rc=0 n=3 " "and is there no more"
next=$(task_job "$waiting" 0)
is "$(squeue -h -j "${waiting}_0" -o %N)" "$(squeue -h -t all -j "${array}_2" -o %N)" "the next job runs on its node"
wait_for 10 shows "$waiting" "home $next"
ok $? "that is home of its own array"

scontrol requeue "${array}_3"
wait_for 60 shows "$array" "rc=0 n=2 others wait"
touch "$D/b/0" "$D/b/1"
wait_for 60 job_is "${array}_3" PENDING
# In the second of its end it must not start again: its credential is revoked with a time in whole seconds.
scontrol update JobId="${array}_3" StartTime=now+3
wait_for 60 shows "$array" "${job[3]} n[12] running 1"
ok $? "one that was requeued comes back as another life"
touch "$D/a/0" "$D/a/1" "$D/a/3"
wait_for 60 all_nodes_idle

# As long as Slurm waits for what is left of one that was requeued, it is there, though its next life is counted already.
cat >"$D/deaf.sh" <<'END'
#!/bin/bash
trap '' TERM
touch "$1"
while :; do sleep 1; done
END
begun() { [ -e "$D/$1" ]; }
deaf=$(sbatch --parsable "${short[@]}" --requeue --array=0-0 --gpus=1 "$D/deaf.sh" "$D/deaf")
wait_for 60 begun deaf
scontrol requeue "${deaf}_0"
wait_for 10 shows "$deaf" "$(task_job "$deaf" 0) n[12] ending 1"
ok $? "one that was requeued is there while something of it lives"
wait_for 60 shows "$deaf" "rc=0 n=0 others wait"
ok $? "and then no more"
scancel "$deaf"

wide=$(sbatch --parsable "${short[@]}" -N2 -n2 --array=0-0 "$D/task.sh" "$D/b2")
wait_for 60 job_is "${wide}_0" RUNNING
is "$(seen "$wide" | head -n1)" "rc=0 n=0 " "a task of two nodes is no slice"
scancel "$wide"
plain=$(sbatch --parsable "${short[@]}" --wrap "sleep 60")
wait_for 60 job_is "$plain" RUNNING
is "$(seen "$plain" | head -n1)" "rc=0 n=0 " "nor is a job of no array"
scancel "$plain"
like "$(seen 4000000 | head -n1)" "^rc=1 n=0 slurm: " "of a job that Slurm does not know it says so"

# ---- companions: jobs of no array that name home in their comments ------------------------------------------------------

wait_for 60 all_nodes_idle
of() { "$probe" of "$1" "$me"; }
is "$(of 4000000)" "rc=0 n=0 
home none: Slurm knows no job 4000000 of this user" "a job that Slurm does not know is nobody's home"
early=$(sbatch --parsable "${short[@]}" --begin=now+1hour --comment "dynpipe: slice of $((plain + 2))" --wrap "sleep 1000")
since() { [ "$(date +%s)" -gt "$1" ]; }
wait_for 10 since "$(date +%s)" # Slurm tells times in whole seconds
home=$(sbatch --parsable "${short[@]}" --gpus=1 --comment "dynpipe: home of slices" --wrap "sleep 1000")
is "$home" "$((plain + 2))" "the next job has the next number"
wait_for 60 job_is "$home" RUNNING
wait_for 10 since "$(date +%s)"
is "$(of "$home")" "rc=0 n=1 
$home $(squeue -h -j "$home" -o %N) running 0
home $home" "a job alone is home; what was submitted before it began is none of its companions"
deaf=$(sbatch --parsable "${short[@]}" --requeue --comment "dynpipe: slice of $home" "$D/deaf.sh" "$D/deaf companion")
wait_for 60 begun "deaf companion"
scontrol requeue "$deaf"
of_shows() { of "$home" | grep -qx -- "$1"; }
wait_for 10 of_shows "$deaf n[12] ending 1"
ok $? "a companion that was requeued is there while something of it lives"
not_of_shows() { ! of_shows "$@"; }
wait_for 60 not_of_shows "$deaf n[12] .*"
ok $? "and then no more"
scancel "$deaf"
companion() { sbatch --parsable "${short[@]}" --comment "$1" "${@:2}" --wrap "sleep 1000"; }
mine=$(companion "my; dynpipe: slice of $home" --gpus=1)
waits=$(companion "dynpipe: slice of $home" --hold)
for c in "dynpipe: slice of $home." "dynpipe: slice of 0$home" "dynpipe: slice of $home; mine" "xdynpipe: slice of $home" $'dynpipe: slice of\n'"$home" \
    "dynpipe: slice of $home; dynpipe: slice of 4711"; do companion "$c" >/dev/null; done
sbatch --parsable "${short[@]}" --array=0-1 --comment "dynpipe: slice of $home" --wrap "sleep 1000" >/dev/null
chain=$(companion "dynpipe: slice of $mine")
wait_for 60 job_is "$mine" RUNNING
wait_for 60 job_is "$chain" RUNNING
is "$(of "$home")" "rc=0 n=2 others wait
$home $(squeue -h -j "$home" -o %N) running 0
$mine $(squeue -h -j "$mine" -o %N) running 0
home $home" "one runs and one waits; comments that are only similar, and tasks of an array, make none"
is "$(of "$mine" | tail -n1)" "home none: job $mine is itself a slice of job $home" "a companion is no home"
is "$("$probe" of "$home" $((me + 1)) | tail -n1)" "home none: Slurm knows no job $home of this user" "nor is a job of another user's"
if [ "$me" = 0 ]; then
    foreign=$(companion "dynpipe: slice of $home" --uid=65534 --gid=65534 -D /)
    wait_for 60 job_is "$foreign" RUNNING
    is "$(of "$home" | head -n1)" "rc=0 n=2 others wait" "another user's job that names it is no companion"
    is "$("$probe" of "$home" 65534 | tail -n1)" "home none: Slurm knows no job $home of this user" "and the job that it names is none of that user's"
else
    skip "another user's job that names it is no companion" "not root"
fi
for ((i = 0; i < 520; i++)); do companion "dynpipe: slice of $home" --hold >/dev/null; done
like "$(of "$home" | head -n1)" "^rc=0 n=[12] others wait cut" "of a user who marks hundreds of his jobs so the list is cut"
scancel "$home"
wait_for 60 job_ended "$home"
like "$(of "$home" | tail -n1)" "^home none: job $home is over" "when home is over its companions have none"
like "$(squeue -h -j "$early,$waits" -o %T)" PENDING "those that wait are not touched by who only looks"
scancel -u "$(id -un)"
done_testing
