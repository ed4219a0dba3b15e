#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What Slurm tells a daemon of the tasks of a job array, jobs of one GPU each that share nodes: which are there and where,
# which began first, and which are over, ended, requeued or not yet begun.
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
first=$(for t in 0 1 2 3; do echo "$(date -d "$(squeue -h -j "${array}_$t" -o %S)" +%s) ${job[t]}"; done | sort -n -k1 -k2 | head -n1 | cut -d' ' -f2)
is "$(seen "$array" | tail -n1)" "home $first" "home is the one that began first"
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

wide=$(sbatch --parsable "${short[@]}" -N2 -n2 --array=0-0 "$D/task.sh" "$D/b2")
wait_for 60 job_is "${wide}_0" RUNNING
is "$(seen "$wide" | head -n1)" "rc=0 n=0 " "a task of two nodes is no slice"
scancel "$wide"
plain=$(sbatch --parsable "${short[@]}" --wrap "sleep 60")
wait_for 60 job_is "$plain" RUNNING
is "$(seen "$plain" | head -n1)" "rc=0 n=0 " "nor is a job of no array"
scancel "$plain"
like "$(seen 4000000 | head -n1)" "^rc=1 n=0 slurm: " "of a job that Slurm does not know it says so"
done_testing
