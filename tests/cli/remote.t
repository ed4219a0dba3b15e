#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The command on a machine without a daemon: Slurm names the batch host, and the daemon there answers
# over TCP with munge.
# shellcheck disable=SC2034,SC2154 # D comes from the sourced file
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"
dynpipe=$DP_BUILDDIR/cli/dynpipe
plugin=$DP_BUILDDIR/spank_plugin/spank_dynpipe.so
worker=$DP_BUILDDIR/worker/dynpipe-worker
for p in "$dynpipe" "$plugin" "$worker" "$DP_BUILDDIR/daemon/dynpiped"; do
    [ -e "$p" ] || skip_all "$p is not built"
done
export LC_ALL=C.UTF-8 COLUMNS=100

cluster_up --nodes 2 --gpus 1 --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock"
export DYNPIPE_CONF=$D/etc/dynpipe.conf SLURMD_NODENAME=login
unset DYNPIPE_SOCKET
cat "$DP_SRCDIR"/common/*.c "$DP_SRCDIR"/common/*/*.c >"$D/text.txt"
cat >"$D/train.sh" <<X
#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=1 --dynpipe=balance --job-name=remote
srun $mpi -n 2 $worker $DP_SRCDIR/etc/gpt-prune.conf data.path=$D/text.txt model.blocks=2 \\
    model.channels=32 model.context=32 train.steps=1000000000 train.microbatches=2 prune.begin=20 prune.end=100 \\
    checkpoint.dir= output.tune=$D/tune.json || [ \$? = 75 ] # asked to stop
X
# The first task of an array has a job id of its own; squeue writes ARRAY_3.
array=$(sbatch --parsable --array=3-4%1 -o "$D/train.out" "$D/train.sh") || bail "the job was not accepted"
has_begun() { job=$(squeue -h -j "${array}_3" -t RUNNING -o %A 2>/dev/null) && [ -n "$job" ]; }
wait_for 60 has_begun || bail "the job does not start"
isnt "$job" "$array" "a task of an array has its own id"
"$dynpipe" watch -j "$job" --interval 0.2 >"$D/watch" 2>&1 &
watcher=$!
trains() { "$dynpipe" status -h -j "$job" -o state,layout 2>"$D/err" | grep -qE "^(training|migrating)"; }
runs "status finds the batch host's daemon" wait_for 60 trains
diag "$(cat "$D/err")"
like "$("$dynpipe" status -j "$job" 2>&1)" "job $job" "status -j"
like "$("$dynpipe" status -j "${array}_3" 2>&1)" "job $job" "status -j ARRAY_TASK"
"$dynpipe" status -j "${array}_7" >"$D/err" 2>&1
is "$? $(cat "$D/err")" "1 dynpipe status: job ${array}_7: no task 7 of it has begun" "a task that there is not"
"$dynpipe" explain -j "${array}_7" -n 1 >"$D/err" 2>&1
is "$? $(cat "$D/err")" "1 dynpipe explain: job ${array}_7: no task 7 of it has begun" "whatever option follows"
"$dynpipe" status -j "${array}+1" >"$D/err" 2>&1
is "$? $(cat "$D/err")" "1 dynpipe status: job ${array}+1: no component 1 of it has begun" "a job without components"
cluster stop slurmctld STOP
"$dynpipe" status -j "${array}_3" >"$D/err" 2>&1
is "$? $(cat "$D/err")" "1 dynpipe status: Slurm: no answer in time" "a slurmctld that is stopped: who does not answer is said"
cluster stop slurmctld CONT
like "$("$dynpipe" status -h --node n1 2>&1)" "$job" "--node n1 has the run"
runs "watch, begun before the run, sees steps" wait_for 60 file_has "$D/watch" "step [0-9]+/1000000000 loss"
scancel "${array}_4"
scancel --signal=TERM "$job"
wait "$watcher"
is "$?" 0 "and ends with the run"
diag "$(tail -n 3 "$D/watch")"
wait_for 60 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the job completed"
like "$("$dynpipe" report -j "$job" 2>&1)" "job $job.*TOKENS PER DEVICE-S.*this run .*fixed layout " "report after the end"
diag "$("$dynpipe" report -j "$job" 2>&1)"
done_testing
