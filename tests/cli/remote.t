#!/bin/bash
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
cat "$DP_SRCDIR"/common/*.c >"$D/text.txt"
cat >"$D/train.sh" <<X
#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=1 --dynpipe=balance --job-name=remote
srun --mpi=pmix -n 2 $worker $DP_SRCDIR/etc/gpt-prune.conf data.path=$D/text.txt model.blocks=2 \\
    model.channels=32 model.context=32 train.steps=1000000000 train.microbatches=2 prune.begin=20 prune.end=100 \\
    checkpoint.dir= output.tune=$D/tune.json || [ \$? = 75 ] # asked to stop
X
job=$(sbatch --parsable -o "$D/train.out" "$D/train.sh") || bail "the job was not accepted"
"$dynpipe" watch -j "$job" --interval 0.2 >"$D/watch" 2>&1 &
watcher=$!
trains() { "$dynpipe" status -h -j "$job" -o state,layout 2>"$D/err" | grep -qE "^(training|migrating)"; }
runs "status finds the batch host's daemon" wait_for 60 trains
diag "$(cat "$D/err")"
like "$("$dynpipe" status -j "$job" 2>&1)" "job $job" "status -j"
like "$("$dynpipe" status -h --node n1 2>&1)" "$job" "--node n1 has the run"
runs "watch, begun before the run, sees steps" wait_for 60 file_has "$D/watch" "step [0-9]+/1000000000 loss"
scancel --signal=TERM "$job"
wait "$watcher"
is "$?" 0 "and ends with the run"
diag "$(tail -n 3 "$D/watch")"
wait_for 60 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the job completed"
like "$("$dynpipe" report -j "$job" 2>&1)" "job $job.*TOKENS PER GPU-S.*this run .*fixed layout " "report after the end"
diag "$("$dynpipe" report -j "$job" 2>&1)"
done_testing
