#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# backend = "cuda" on a private Slurm, on the emulator (doc/cuda.md): whole runs of a tiny model that is pruned to sparse
# matrices. With 1, 2 and 3 workers, each with another order of the emulator, every loss has the same bits, and is that of
# the cpu within 1e-4; some of the runs record segments of their steps and replay them. Layers are handed over between workers, a run gives a node back and the job that waits starts
# there. A device that fails and a worker that is killed end the run with a clear message, and what was saved before goes
# on as if nothing had been.
# shellcheck disable=SC2086,SC2154,SC2317 # $pruned and the like are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
. "$DP_SRCDIR/tests/lib/training.sh"

choose_cuda
export DYNPIPE_EMU="seed=1 check=1"

# A step of it takes the emulator a quarter of a second.
model="model.blocks=2 model.channels=32 model.heads=2 model.context=32 train.batch=1 train.microbatches=2 train.warmup=3"
# Matrices are sparse from 30 % zeros on: nothing is measured, on no device.
write_tune "$tune" 0.3 32 "4x1 32x32" "96,32 32,32 128,32 32,128"
cp "$tune" "$D/tune.before"

# Each rank its own order of threads, blocks and streams; FAIL: what else the emulator of rank 1 is told.
cat >"$D/rank" <<'X'
#!/bin/bash
DYNPIPE_EMU="seed=$((SLURM_PROCID + 1)) check=1"
[ "$SLURM_PROCID" != 1 ] || DYNPIPE_EMU="$DYNPIPE_EMU $FAIL"
export DYNPIPE_EMU
exec "$@"
X
chmod 755 "$D/rank"

# emulated NAME N SBATCH-OPTIONS -- OVERRIDES...: a run of N workers; prints the job id.
emulated() {
    local name=$1 n=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X
#!/bin/bash
srun $mpi --no-kill --kill-on-bad-exit=0 -n $n "$D/rank" $(worker_command "$D/$name.jsonl" "$@" pipeline.backend=cuda) || [ \$? = 75 ]
X
    sbatch --parsable -J "$name" -N$n --gpus-per-node=1 --exclusive -o "$D/$name.out" "${options[@]}" "$D/$name.sh"
}

# close_to NAME WANT: every loss within 1e-4 of the other run's, relative.
close_to() {
    local said
    said=$(paste -d ' ' <(losses "$D/$1.jsonl") <(losses "$D/$2.jsonl") | awk '
        { d = ($2 > $4 ? $2 - $4 : $4 - $2) / $4; if ($1 != $3 || !($4 > 0) || d > 1e-4) { print; bad = 1 } if (d > most) most = d }
        END { printf "largest difference %.1e\n", most; exit bad || NR == 0 }')
    ok $? "$1: every loss is that of the cpu within 1e-4"
    diag "$said"
}
zeros() { jq -r 'select(.sparsity != null) | .sparsity * 100 | round' "$D/$1.jsonl" | tail -n 1; }

# ---- 1, 2 and 3 workers ------------------------------------------------------------------------------

run_cluster --nodes 3 --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 1; confirm_s = 1.0; max_slowdown = 100.0; };'
pruned="train.lr=3e-3 train.min_lr=3e-3 data.eval_every=0 prune.begin=2 prune.end=8 prune.every=2 prune.final=0.75"
for block in 4x1 32x32; do
    for n in 1 2 3; do
        record=$([ $n = 1 ] || [ $block-$n = 4x1-3 ] && echo off || echo on) # against one worker without
        jobs+=("$(emulated "$block-$n" $n --dynpipe=observe -- $pruned train.steps=12 prune.granularity=$block pipeline.record=$record)")
    done
    train_alone "$D/$block-cpu.jsonl" $pruned train.steps=12 prune.granularity=$block
    ok $? "$block: the cpu trains"
done
for job in "${jobs[@]}"; do
    wait_for 300 job_ended "$job"
    is "$(job_state "$job")" COMPLETED "job $job ends well"
done
for block in 4x1 32x32; do
    close_to $block-1 $block-cpu
    is "$(zeros $block-1)" 75 "$block: three quarters are pruned"
    for n in 2 3; do
        runs "$block: every loss of $n workers is bit for bit that of one" cmp <(losses "$D/$block-1.jsonl") <(losses "$D/$block-$n.jsonl")
    done
done
# What follows would only wait in vain.
[ "$tap_failed" -eq 0 ] || done_testing

# ---- a hand-over, a release ----------------------------------------------------------------------------

# Whatever a step takes on three nodes, two are allowed: this is about the device, not about what pays.
endless_pruned="$endless train.warmup=3 prune.begin=2 prune.end=8 prune.every=2 prune.final=0.75 prune.granularity=32x32"
job=$(emulated train 3 --dynpipe=release --dynpipe-min-gpus=2 --dynpipe-max-slowdown=100 --dynpipe-reference=start -- \
    $endless_pruned pipeline.record=on handover.background=always "'pipeline.layout=0-1|2|3'")
connected() { [ "$(status "$job" '[.workers[] | select(.connected)] | length')" = 3 ]; }
wait_for 60 connected
ok $? "a run of three workers on the emulator"
runs "its coordinator is told to wait" wait_for 60 dynpipe pause -j "$job"
cat >"$D/observer.sh" <<X
#!/bin/bash
. "$DP_SRCDIR/tests/e2e/observe.sh"
observe \$1 "$D/observer.seen"
X
observer=$(sbatch --parsable -N1 --gpus-per-node=1 --exclusive -o "$D/observer.out" "$D/observer.sh" "$job")
wait_for 120 steps_done "$D/train.jsonl" 9
ok $? "it is pruned"
layout_is() { [ "$(status "$job" .layout.text)" = "$1" ]; }
runs "a block of sparse matrices is to go to the second worker" dynpipe layout -j "$job" --set '0|1-2|3'
wait_for 60 layout_is '0|1-2|3'
ok $? "and goes there"
like "$(jq -r 'select(.event == "handover").text' "$D/train.jsonl" | tail -n 1)" "copied during [0-9]+ steps before" "copied while they train"
is "$(job_state "$observer")" PENDING "another job has to wait"
dynpipe resume -j "$job" >/dev/null
wait_for 120 job_is "$observer" RUNNING
ok $? "the run gives a node back, and the job that waits starts there"
is "$(job_nodes "$job") $(job_state "$job")" "2 RUNNING" "while training goes on on the others"
n=$(losses "$D/train.jsonl" | wc -l)
wait_for 60 steps_done "$D/train.jsonl" $((n + 2))
ok $? "step by step"
end_run "$job" train
wait_for 60 job_ended "$observer"
like "$(cat "$D/observer.seen" 2>/dev/null)" "^nothing of the run was seen" "no process of the run is on the released node"
same_as_alone $endless_pruned pipeline.backend=cuda -- train
take_core

# ---- a device that fails, a worker that is killed --------------------------------------------------------

# goes_on NAME KEYS...: from its last checkpoint, with one worker, with the losses of the run that nothing happened to.
goes_on() {
    local name=$1 last end
    shift
    last=$(find "$D/$name.saved" -maxdepth 1 -name 'step-*[0-9]' | sed 's/.*step-0*//' | sort -n | tail -n 1)
    is "$((last >= 2 && last % 2 == 0))" 1 "$name: the last checkpoint is one of those that were due: step $last"
    end=$((last < 8 ? 9 : last + 1)) # beyond the last pruning
    train_alone "$D/$name-on.jsonl" "$@" pipeline.backend=cuda checkpoint.dir="$D/$name.saved" train.steps=$end
    ok $? "$name: it goes on from its last checkpoint"
    runs "$name: as if nothing had been" cmp <(losses "$D/$name-on.jsonl") <(losses "$D/alone.jsonl" | sed -n "$((last + 1)),${end}p")
}
if [ -z "${DP_CARD:-}" ]; then
    failing=$(FAIL=fail=3000 emulated failing 2 --dynpipe=balance --dynpipe-policy=keep -- $endless_pruned checkpoint.dir="$D/failing.saved" checkpoint.every=2)
    wait_for 120 job_ended "$failing"
    is "$(job_state "$failing")" FAILED "failing: the job fails with its device"
    like "$(cat "$D/failing.out")" "worker 1 of 2: step [0-9]+: .*cuda: [a-z_, ]+: .*returned by cuda[A-Z]" \
        "failing: the user reads whose device failed in what"
    goes_on failing $endless_pruned
fi

wait_for 60 all_nodes_idle
killed=$(emulated killed 2 --dynpipe=balance --dynpipe-policy=keep -- $endless_pruned checkpoint.dir="$D/killed.saved" checkpoint.every=2)
wait_for 120 steps_done "$D/killed.jsonl" 5
ok $? "killed: a run with checkpoints trains"
node=${mpi:+n2} # any worker ends the step under PMIx, else worker 0
victim=$(workers_on "$killed" "${node:=n1}" | head -n 1)
kill -KILL "$victim"
wait_for 120 job_ended "$killed"
isnt "$(job_state "$killed")" COMPLETED "killed: after kill -9 of a worker the run does not end as if all were well"
like "$(cat "$D/killed.out")" "dynpipe: .*$node.* signal 9" "killed: the user reads which worker died of what"
goes_on killed $endless_pruned
is "$(drained_nodes)" "" "no node is drained"
runs "no worker measured what is sparse" cmp "$tune" "$D/tune.before"
done_testing
