#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Workers whose devices write into each other's memory train what they train when their messages pass the host, bit for bit,
# whatever the schedule and the number of workers; the log says which way messages take, and why. On the emulator
# (doc/cuda.md), whose workers are processes with a device each; with DP_CARD=1 on a card, which all share. One that is killed takes
# the run with it, and the others say so.
# Needs mpirun; no Slurm, no network, no root.
. "${DP_SRCDIR:?}/tests/lib/tap.sh"
. "${DP_SRCDIR:?}/tests/lib/training.sh"

choose_cuda
begin_mpirun

cat "$DP_SRCDIR"/common/*.[ch] >"$dir/text.txt"
cat >"$dir/gpt.conf" <<X
model: { blocks = 2; channels = 16; heads = 2; context = 8; vocabulary = 256; };
train: { steps = 3; batch = 1; microbatches = 5; warmup = 2; lr = 3e-3; min_lr = 3e-3; };
data: { path = "$dir/text.txt"; eval_every = 2; eval_batches = 6; };
checkpoint: { resume = "none"; };
output: { tune = "$dir/tune.json"; every = 1000; };
X
# No shape is sparse: nothing is measured.
write_tune "$dir/tune.json" 1 0 "" ""

# train SEED N LOG [section.key=value ...]: N workers on emulated devices; EMU: what else the emulators are told
train() {
    local seed=$1 n=$2 log=$3
    shift 3
    DYNPIPE_EMU="seed=$seed count=$n $EMU" timeout -k 1 300 "$mpirun" --oversubscribe --bind-to none -n "$n" "$worker" \
        "$dir/gpt.conf" output.log="$dir/$log" pipeline.backend=cuda "$@" >"$dir/$log.out" 2>&1
}
losses() { all_losses "$dir/$1"; }
same() { # LOG NAME
    cmp -s <(losses "$1") <(losses one) && [ "$(losses "$1" | wc -l)" = 5 ] && ok 0 "$2" && return
    diag "$(diff <(losses "$1") <(losses one) | head -n 6)"
    diag "$(tail -n 5 "$dir/$1.out")"
    ok 1 "$2"
}

train 1 1 one
ok $? "one worker trains"
train 2 2 off pipeline.link=off
same off "two workers through the host: the same bits"
like "$(cat "$dir/off.out")" "workers 0 and 1 go through staging memory: pipeline.link is off" "that is said, and why"
for seed in 3 4 5; do # at once, late, sometimes
    train $seed 2 on
    same on "two workers from device to device, seed $seed: the same bits"
    like "$(cat "$dir/on.out")" "messages between workers 0 and 1 go from device to device" "that is said, too"
    is "$(grep -c 'messages between' "$dir/on.out")" 1 "once"
done
EMU="check=0"
train 6 3 three
same three "three workers from device to device: the same bits"
is "$(grep -c 'go from device to device' "$dir/three.out")" 2 "for each two neighbours"
train 7 3 gpipe pipeline.schedule=gpipe
same gpipe "gpipe: the same bits"
if [ -z "${DP_CARD:-}" ]; then
    EMU="check=0 ipc=0"
    train 8 2 without
    same without "where devices do not see each other messages pass the host: the same bits"
    like "$(cat "$dir/without.out")" "workers 0 and 1 go through staging memory: .*cannot be shown" "and that is said"
fi

# Worker 1 is killed when the first step is in the log; mpirun would end worker 0 before it has said a word.
cat >"$dir/rank" <<X
#!/bin/bash
trap '' TERM
DYNPIPE_EMU="seed=1 count=2 check=0" "$worker" "\$@" 2>"$dir/rank.\$OMPI_COMM_WORLD_RANK" &
echo \$! >"$dir/pid.\$OMPI_COMM_WORLD_RANK"
wait \$!
echo \$? >"$dir/status.\$OMPI_COMM_WORLD_RANK"
X
chmod 755 "$dir/rank"
timeout -k 1 300 "$mpirun" --oversubscribe --bind-to none -n 2 "$dir/rank" "$dir/gpt.conf" output.log="$dir/killed" \
    pipeline.backend=cuda train.steps=1000000 >/dev/null 2>&1 &
wait_for 120 grep -q '"step":1,' "$dir/killed"
kill -KILL "$(cat "$dir/pid.1")"
wait_for 60 test -s "$dir/status.0"
ok $? "a worker is killed: so ends the other one"
is "$(cat "$dir/status.0")" 1 "with an error"
like "$(cat "$dir/rank.0")" "worker 0 of 2: .*worker 1.*the run ends here" "that says who was killed"
wait
done_testing
