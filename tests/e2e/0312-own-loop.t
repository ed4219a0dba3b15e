#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A training loop that cannot move layers (etc/examples/own_loop.py) on a real Slurm: it is observed, and hears what it should begin
# again with. It saves, its batch script gives nodes back, a job that waits starts there, and training goes on from the checkpoint
# on fewer nodes, with the losses of a run that was never interrupted.
# shellcheck disable=SC2086,SC2154 # lists of options; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/foreign.sh
. "$DP_SRCDIR/tests/e2e/foreign.sh"
python=$(find_python 'import sys; sys.exit(sys.version_info < (3, 9))') || skip_all "no python3 (3.9 or newer) here"

take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
# All nodes are this machine, and workers meet in the folder of checkpoints.
loop="--hosts= --freeze 20:6 --layers 12"
job=$(PYTHON=$python LOOP=$DP_SRCDIR/etc/examples/own_loop.py CHECKPOINTS=$D/saved sbatch --parsable -N3 $release --dynpipe-min-gpus=1 \
    -o "$D/loop.out" "$DP_SRCDIR/etc/examples/own_loop.sbatch" $loop --steps 10000000)
wait_for 60 job_is "$job" RUNNING
ok $? "a loop begins on three nodes"
other=$(sbatch --parsable -N2 --gpus-per-node=1 --exclusive -o "$D/other.out" --wrap "srun -N1 hostname")
is "$(job_state "$other")" PENDING "a job of two nodes has to wait"
wait_for 300 foreign_steps_done "$D/loop.out" 5
ok $? "it trains"
like "$(dynpipe explain -j "$job")" "own_loop.py" "explain says what trains"
wait_for 300 nodes_fewer "$job" 3
ok $? "it saves, and its script gives nodes back"
kept=$(job_nodes "$job")
wait_for 120 job_is "$other" COMPLETED
ok $? "the waiting job runs"
like "$(cat "$D/loop.out")" "$kept of 3 nodes do as well" "the script says how many nodes do"
saved=$(jq .step "$D/saved/next.json")
wait_for 120 foreign_steps_done "$D/loop.out" $((saved + 50))
ok $? "training goes on from step $saved on $kept node(s)"
job_is "$job" RUNNING
ok $? "in the same job"
like "$(dynpipe explain -j "$job")" "cannot move layers" "explain says why no layer moves"
scancel "$job"
wait_for 60 job_ended "$job"

foreign_losses "$D/loop.out" >"$D/loop.loss"
is "$(cut -d' ' -f1 "$D/loop.loss" | uniq -d)" "" "no step was made twice"
leave_cores
idly env -u DYNPIPE_SOCKET timeout 600 "$python" "$DP_SRCDIR/etc/examples/own_loop.py" --dir "$D/fixed" --fixed $loop \
    --steps "$(wc -l <"$D/loop.loss")" >"$D/fixed.out" 2>&1
ok $? "one worker alone trains as far" || diag "$(tail -n 3 "$D/fixed.out")"
foreign_losses "$D/fixed.out" >"$D/fixed.loss"
runs "every loss is that of it, to the last bit" cmp "$D/fixed.loss" "$D/loop.loss"
is "$(drained_nodes)" "" "no node is drained"
done_testing
