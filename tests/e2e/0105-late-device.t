#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The worker relies on nothing that kernels/backend.h does not promise: on a device that works as late as it may, its lanes
# in any order, with memory that the host cannot touch (tests/lib/late_backend.c), every loss is bit for bit that of the
# cpu, however many workers there are, through pruning, evaluation, checkpoints and resuming. A test of its own shows that
# lanes that do not wait for each other are noticed. Work that fails late ends the run with the operation's name, and
# nothing that was saved is damaged.
# Needs mpirun for several workers; no Slurm, no network, no root.
. "${DP_SRCDIR:?}/tests/lib/tap.sh"
. "${DP_SRCDIR:?}/tests/lib/training.sh"

begin_mpirun

cat "$DP_SRCDIR"/common/*.[ch] >"$dir/text.txt"
cat >"$dir/gpt.conf" <<EOF
model: { blocks = 6; channels = 64; heads = 4; context = 32; vocabulary = 256; };
train: { steps = 30; batch = 2; microbatches = 6; warmup = 5; lr = 3e-3; min_lr = 3e-3; };
data: { path = "$dir/text.txt"; eval_every = 10; eval_batches = 3; };
prune: { begin = 8; end = 24; every = 8; final = 0.8; };
checkpoint: { resume = "none"; };
output: { tune = "$dir/tune.json"; every = 1000; };
EOF

write_tune "$dir/tune.json" 0.25 64 "weight 4x1 32x32" "192,64 64,64 256,64 64,256"
cp "$dir/tune.json" "$dir/tune.before"

# train N LOG [section.key=value ...]: N workers on the cpu; what they print goes to LOG.out
train() {
    local n=$1 log=$2 launch=()
    shift 2
    [ "$n" = 1 ] || launch=("$mpirun" --oversubscribe --bind-to none -n "$n")
    timeout -k 1 300 "${launch[@]}" "$worker" "$dir/gpt.conf" output.log="$dir/$log" "$@" >"$dir/$log.out" 2>&1
}
# late SEED N LOG ...: the same on the late device
late() {
    local seed=$1
    shift
    DYNPIPE_CUDA_PLUGIN=$DP_BUILDDIR/tests/lib/late_backend.so DYNPIPE_LATE_SEED=$seed train "$@" pipeline.backend=cuda
}

# Of what was done twice the last one.
losses() { all_losses "$dir/$1" | awk '{ line[$1 $2] = $0 } END { for (s in line) print line[s] }' | sort -k1n -k2; }
same() { # LOG WANT NAME
    if cmp -s <(losses "$1") <(losses "$2") && [ "$(losses "$1" | wc -l)" = 33 ]; then
        ok 0 "$3"
    else
        diag "$(diff <(losses "$1") <(losses "$2") | head -n 6)"
        diag "$(tail -n 5 "$dir/$1.out")"
        ok 1 "$3"
    fi
}

for head in false true; do
    for kind in weight 4x1 32x32; do
        name="granularity $kind, tied head $head"
        keys=("model.tied_head=$head" "prune.granularity=$kind")
        train 1 cpu "${keys[@]}"
        ok $? "$name: the cpu trains"
        for n in 1 2 3; do
            late $n $n late "${keys[@]}"
            same late cpu "$name: $n late workers have its losses"
        done
    done
done
train 3 cpu pipeline.schedule=gpipe
late 4 3 late pipeline.schedule=gpipe
same late cpu "gpipe: 3 late workers have the losses of 3 on the cpu"

# Saved by two, gone on with by three; on the cpu and on the late device.
train 1 cpu
late 5 2 late checkpoint.dir="$dir/ck" checkpoint.every=10 train.steps=30
rm -rf "$dir/ck/step-00000030"
late 6 3 late checkpoint.dir="$dir/ck" checkpoint.resume=auto
same late cpu "a checkpoint of 2 late workers, gone on with by 3"
rm -rf "$dir/ck/step-00000030"
train 2 late checkpoint.dir="$dir/ck" checkpoint.resume=auto
same late cpu "and by 2 on the cpu"

# Lanes that do not wait: noticed, in one order or another.
noticed=no
for seed in 1 2 3 4 5 6; do
    DYNPIPE_LATE_DEAF=1 late $seed 2 deaf
    cmp -s <(losses deaf) <(losses cpu) || noticed=yes
done
is $noticed yes "lanes that do not wait for each other give other losses"

# A piece of work fails: early, in the model's making, in a step, while a checkpoint is written.
for at in 1 50 3000 15000 30000; do
    rm -rf "$dir/ck2"
    DYNPIPE_LATE_FAIL=$at late 7 1 failed checkpoint.dir="$dir/ck2" checkpoint.every=5
    isnt $? 0 "work $at fails: so does the run"
    like "$(cat "$dir/failed.out")" "late device: [a-z_]+: this piece of work was told to fail" "work $at: and says which"
    [ -d "$dir/ck2" ] || continue
    newest=$(find "$dir/ck2" -maxdepth 1 -name 'step-*' ! -name '*.tmp' | sort | tail -n 1)
    [ -n "$newest" ] || continue
    train 1 late checkpoint.dir="$dir/ck2" checkpoint.resume=auto
    losses late | awk -v from="${newest##*-0}" '$1 > from + 0' >"$dir/rest"
    cmp -s "$dir/rest" <(losses cpu | awk -v from="${newest##*-0}" '$1 > from + 0')
    ok $? "work $at: ${newest##*/} goes on as if nothing had been"
done
cmp -s "$dir/tune.json" "$dir/tune.before"
ok $? "no device measured what is sparse"
done_testing
