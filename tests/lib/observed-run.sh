# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # who sources it uses what is set; D and the rest come from cluster-test.sh
# A private Slurm of three nodes with plugin and daemons, and a small run on all of them that daemons only observe: for
# tests of what is said where a node cannot be asked. Source it after tests/lib/cluster-test.sh. Sets
#   dynpipe, plugin, worker   programs
# and has
#   $D/train.sh         for sbatch: trains until it is asked to stop; steps in $D/log.jsonl
#   run_value FILTER    of the run of $job in `dynpipe status --json`
#   misses REGEX        a node that is missing, and why: "NODE: TEXT"
#   all_there           all three workers are connected, and no node is missing
#   says STATUS NAME REGEX TEST-NAME   a test: $D/check, what `dynpipe check` printed, has this line
dynpipe=$DP_BUILDDIR/cli/dynpipe
plugin=$DP_BUILDDIR/spank_plugin/spank_dynpipe.so
worker=$DP_BUILDDIR/worker/dynpipe-worker
for p in "$dynpipe" "$plugin" "$worker"; do [ -e "$p" ] || skip_all "$p is not built"; done
export LC_ALL=C.UTF-8 COLUMNS=300

cluster_up --nodes 3 --gpus 1 --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock"
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock SLURMD_NODENAME=n1
cat "$DP_SRCDIR"/common/*.c "$DP_SRCDIR"/common/*/*.c >"$D/text.txt"
cat >"$D/train.sh" <<Y
#!/bin/bash
#SBATCH --nodes=3 --gpus-per-node=1 --dynpipe=observe --job-name=observed
srun $mpi -n 3 $worker $DP_SRCDIR/etc/gpt-prune.conf data.path=$D/text.txt model.blocks=2 output.log=$D/log.jsonl \\
    model.channels=32 model.context=32 train.steps=1000000000 train.microbatches=2 prune.begin=20 prune.end=100 \\
    checkpoint.dir= output.tune=$D/tune.json || [ \$? = 75 ] # asked to stop
Y

run_value() { timeout 20 "$dynpipe" status -j "$job" --json 2>/dev/null | jq -r ".run | $1" 2>/dev/null; }
misses() {
    { # without PMIx there is no coordinator before all workers have met
        run_value '.missing[] | .node + ": " + .text'
        timeout 20 "$dynpipe" status --json 2>/dev/null | jq -r ".runs[]? | select(.job_id == $job) | .missing[]? | .node + \": \" + .text"
    } | grep -qE -- "$1"
}
all_there() { [ "$(run_value '[.workers[] | select(.connected)] | length')" = 3 ] && [ "$(run_value '.missing | length')" = 0 ]; }
says() {
    grep -qE "^$1 +$2 +$3" "$D/check"
    ok $? "$4" || diag "$(cat "$D/check")"
}
