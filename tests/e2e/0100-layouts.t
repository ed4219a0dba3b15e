#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a run computes does not depend on how many workers compute it, on their schedule, or on how
# often it was stopped, killed and resumed: loss and gradient norm of every step are the same text.
# Then: what is wrong with a configuration, a text or a checkpoint is said clearly.
# Needs mpirun for several workers; no Slurm, no network, no root.
. "${DP_SRCDIR:?}/tests/lib/tap.sh"
. "${DP_SRCDIR:?}/tests/lib/training.sh"

begin_mpirun

# The project's own sources: a text that is always there.
cat "$DP_SRCDIR"/common/*.[ch] "$DP_SRCDIR"/common/*/*.[ch] >"$dir/text.txt"
cat >"$dir/gpt.conf" <<EOF
model: { blocks = 6; channels = 64; heads = 4; context = 32; vocabulary = 256; };
train: { steps = 40; batch = 2; microbatches = 6; warmup = 5; lr = 3e-3; min_lr = 3e-3; };
data: { path = "$dir/text.txt"; eval_every = 20; eval_batches = 3; };
prune: { begin = 8; end = 24; every = 8; final = 0.8; };
checkpoint: { resume = "none"; };
output: { tune = "$dir/tune.json"; every = 1000; };
EOF

# Step, loss, gradient norm and sparsity of every step; of a step that was done twice the last one.
losses() {
    sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*"sparsity":\([^,]*\),.*/\1 \2 \3 \4/p' \
        "$dir/$1" 2>/dev/null | awk '{ line[$1] = $0 } END { for (s in line) print line[s] }' | sort -n
}

evals() { sed -n 's/^{"event":"eval","step":\([0-9]*\),"value":\([^,]*\),.*/\1 \2/p' "$dir/$1" | sort -n | uniq; }

# same LOG WANT NAME [first step [last step]]
same() {
    local range="\$1 >= ${4:-0} && \$1 <= ${5:-40}"
    if cmp -s <(losses "$1") <(losses "$2" | awk "$range") &&
        [ "$(losses "$1" | tail -n 1 | cut -d' ' -f1)" = "${5:-40}" ]; then
        ok 0 "$3"
    else
        diag "$(diff <(losses "$1") <(losses "$2") | head -n 6)"
        diag "$(tail -n 5 "$dir/$1.out")"
        ok 1 "$3"
    fi
}

# ---- layouts and schedules -------------------------------------------------------------------------

for head in false true; do
    name=$([ $head = true ] && echo "tied head" || echo "own head")
    train 1 "one-$head" model.tied_head=$head
    is "$?" 0 "$name: one worker trains 40 steps"
    is "$(losses "one-$head" | wc -l)" 40 "$name: every step is in the log"
    is "$(losses "one-$head" | awk '$1 == 25 { print ($4 > 0.7999 && $4 < 0.8001) }')" 1 "$name: sparsity 0.8 is reached"
    is "$(losses "one-$head" | awk 'NR == 1 { a = $2 } { b = $2 } END { print (b < a - 1) }')" 1 "$name: the loss falls"
    for n in 2 $([ $head = true ] || echo 3) 4; do
        train "$n" "n$n-$head" model.tied_head=$head
        same "n$n-$head" "one-$head" "$name: $n workers, the same loss in every step"
        is "$(evals "n$n-$head")" "$(evals "one-$head")" "$name: $n workers, the same validation loss"
    done
    train 3 "gpipe-$head" model.tied_head=$head pipeline.schedule=gpipe
    same "gpipe-$head" "one-$head" "$name: GPipe on 3 workers, the same losses"
done
# Blocks, sparse from 50 % zeros on whatever this machine would measure.
# tune_at BLOCK FILE
tune_at() {
    local shape comma="" entries
    entries=$(for shape in "192 64" "64 64" "256 64" "64 256"; do
        # shellcheck disable=SC2086 # two numbers
        printf '%s{"c_out": %d, "c_in": %d, "n": 64, "crossover": 0.5, "block": "%s"}' "$comma" $shape "$1"
        comma=", "
    done)
    echo "{\"format\": \"dynpipe-tune\", \"version\": 3, \"entries\": [$entries]}" >"$2"
}
tune_at 4x1 "$dir/tune-4x1.json"
blocks="prune.granularity=4x1 output.tune=$dir/tune-4x1.json"
for n in 1 2 4; do
    # shellcheck disable=SC2086 # two options
    train "$n" "blocks-$n" $blocks
    same "blocks-$n" blocks-1 "4x1 blocks: $n workers, the same loss in every step"
done
is "$(losses blocks-1 | awk '$1 == 25 { print ($4 > 0.7999 && $4 < 0.8001) }')" 1 "4x1 blocks: sparsity 0.8 is reached"
train 2 blocks-threads prune.granularity=4x1 output.tune="$dir/tune-4x1.json" pipeline.threads=2
same blocks-threads blocks-1 "4x1 blocks: two threads a worker, the same losses"
tune_at 32x32 "$dir/tune-32x32.json"
blocks="prune.granularity=32x32 output.tune=$dir/tune-32x32.json"
for n in 1 3; do
    # shellcheck disable=SC2086 # two options
    train "$n" "square-$n" $blocks
    same "square-$n" square-1 "32x32 blocks: $n workers, the same loss in every step"
done
is "$(losses square-1 | awk '$1 == 25 { print ($4 > 0.79 && $4 < 0.81) }')" 1 "32x32 blocks: sparsity 0.8 is reached"
# shellcheck disable=SC2086 # two options
train 2 square-first $blocks checkpoint.dir="$dir/square" checkpoint.every=20 checkpoint.keep=9
ckpt=$(find "$dir/square" -maxdepth 1 -name '*20' | head -n 1)
# shellcheck disable=SC2086 # two options
train 3 square-second $blocks checkpoint.resume="${ckpt:-none}"
same square-second square-1 "32x32 blocks: three workers go on from a checkpoint of two" 21

train 8 "n8" model.tied_head=true
same n8 one-true "as many workers as layers, the same losses"
train 2 "threads" pipeline.threads=3
same threads one-false "two workers of three threads, the same losses"
train 2 "heavy" pipeline.layout="0-5|6-7"
same heavy one-false "a layout to begin with, the same losses"
like "$(cat "$dir/heavy")" '"layout":"0-5\|6-7"' "and the layout is in force"
train 2 "traced" output.trace="$dir/trace"
same traced one-false "writing a trace of the costs changes nothing"
for r in 0 1; do
    missing=
    for s in 16 20 24 40; do grep -q "^{\"step\":$s," "$dir/trace.$r" || missing="$missing $s"; done
    is "$missing" "" "worker $r: no window goes on over a pruning, and none is lost"
done
runs "dynpipe simulate plays the traces again" "$DP_BUILDDIR/cli/dynpipe" simulate --json "$dir/trace.0" "$dir/trace.1"
UCX_TLS=tcp train 3 "tcp"
same tcp one-false "over TCP, the same losses"

# ---- checkpoints -----------------------------------------------------------------------------------

ck="$dir/ck"
train 4 saved checkpoint.dir="$ck" checkpoint.every=15 checkpoint.keep=10
same saved one-false "writing checkpoints changes nothing"
train 2 resumed checkpoint.resume="$ck/step-00000015"
same resumed one-false "saved on 4 workers, resumed on 2: the same losses" 16
like "$(cat "$dir/resumed.out")" "resumed: .*step-00000015" "the checkpoint is named"

# The losses do not depend on how long a run is: its learning rate is constant and its pruning has steps of
# its own. So a run that waits for a signal lasts until it comes, on any machine.
# start N LOG CHECKPOINTS EVERY: such a run in the background, with evaluations so that it goes step by step.
start() {
    timeout -k 1 300 "$mpirun" --oversubscribe --bind-to none -n "$1" "$worker" "$dir/gpt.conf" output.log="$dir/$2" \
        data.eval_every=1 data.eval_batches=40 checkpoint.dir="$dir/$3" checkpoint.every="$4" checkpoint.keep=1000 \
        checkpoint.resume=auto train.steps=1000000000 >"$dir/$2.out" 2>&1 &
    run=$!
}
# start() runs timeout, which runs mpirun, which runs the workers.
worker_pids() { pgrep -P "$(pgrep -P "$1" | head -n 1)" -x dynpipe-worker; }
last_step() { losses "$1" | tail -n 1 | cut -d' ' -f1; }
has_step() { [ "$(last_step "$1")" -ge "$2" ] 2>/dev/null; }
saved_at() { sed -n 's/.*"event":"saved","step":\([0-9]*\).*/\1/p' "$dir/$1"; }
has_saved() { [ -n "$(saved_at "$1")" ]; }

# resume N LOG CHECKPOINTS NAME: go on to a later step; all losses are those of one worker that never stopped.
resume() {
    local last=$(($(last_step "$2") + 20))
    train "$1" "$2" checkpoint.dir="$dir/$3" checkpoint.resume=auto train.steps=$last
    train 1 "$2-alone" train.steps=$last
    same "$2" "$2-alone" "$4" 1 $last
}

never=1000000000
start 3 term ck-term $never
wait_for 120 has_step term 7 || bail "the run does not get to step 7"
kill -TERM "$(worker_pids $run | tail -n 1)"
wait $run
is "$?" 75 "SIGTERM to any worker: the run ends with 75"
like "$(cat "$dir/term.out")" "stopped: by a signal, after saving" "and says why"
resume 4 term ck-term "resumed after SIGTERM: the same losses"

start 2 usr1 ck-usr1 $never
wait_for 120 has_step usr1 7 || bail "the run does not get to step 7"
kill -USR1 "$(worker_pids $run | tail -n 1)"
wait_for 120 has_saved usr1
ok $? "SIGUSR1: the run saves"
wait_for 120 has_step usr1 $(($(saved_at usr1) + 3))
ok $? "and goes on"
kill -TERM "$(worker_pids $run | tail -n 1)"
wait $run
is "$?" 75 "until it is asked to stop"
is "$(saved_at usr1 | wc -l)" 2 "both times it has saved out of turn"

start 3 killed ck-killed 5
wait_for 120 has_step killed 12 || bail "the run does not get to step 12"
kill -KILL "$(worker_pids $run | tail -n 1)"
wait $run
isnt "$?" 0 "SIGKILL of a worker ends the run with an error"
like "$(cat "$dir/killed.out")" "left or died; the run ends here|mpirun noticed that process rank" "which is said"
resume 2 killed ck-killed "resumed after SIGKILL: the same losses as if nothing had happened"

# ---- what is wrong is said -------------------------------------------------------------------------

# refuses NAME REGEX N [override ...]
refuses() {
    local name=$1 regex=$2 n=$3 rc
    shift 3
    train "$n" refused "$@"
    rc=$?
    if [ $rc -eq 0 ] || [ $rc -ge 124 ]; then
        diag "ended with $rc"
        ok 1 "$name"
    else
        like "$(cat "$dir/refused.out")" "$regex" "$name"
    fi
}

refuses "more workers than layers" "9 workers for 8 layers" 9
is "$(grep -c "9 workers for 8 layers" "$dir/refused.out")" 1 "which is said once"
refuses "a layout for other workers" "pipeline.layout: layout '0-7'" 2 pipeline.layout=0-7
refuses "blocks that do not fit" "multiple of 4" 1 prune.granularity=4x1 model.channels=66 model.heads=3
refuses "square blocks that do not fit" "128x128 .* multiple of 128, not 64: attn.qkv.weight is 192 x 64" 1 prune.granularity=128x128
DYNPIPE_SOCKET=$dir/no.sock train 3 lonely train.steps=2 prune.begin=0 prune.end=0
is "$?" 0 "a run without its daemon"
is "$(grep -c "no coordinator" "$dir/lonely.out")" 1 "says so once, not once a worker"
like "$(cat "$dir/lonely.out")" "worker 0 on .* and 2 more of 3 workers: no coordinator: $dir/no.sock: " "and for how many, and why"
# PMIx keeps files under TMPDIR and says "NOT-FOUND" where they have no room.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    mkdir "$dir/full"
    # shellcheck disable=SC2016 # for the shell that has the full folder
    unshare -m bash -c 'mount -t tmpfs -o size=64k none "$1/full" && head -c 65536 /dev/zero >"$1/full/fill"
        TMPDIR=$1/full timeout -k 1 300 "${@:2}"' - "$dir" "$mpirun" --oversubscribe --bind-to none -n 2 \
        bash -c '>"$0/started"; exec "${@}"' "$dir" "$worker" "$dir/gpt.conf" >"$dir/full.out" 2>&1
    rc=$?
    isnt "$rc" 0 "a full TMPDIR"
    # With PMIx 5 it is mpirun, the server, that writes those files: it dies of it itself (SIGBUS), without a word, where
    # it would report the death of a worker.
    if [ ! -e "$dir/started" ]; then
        skip "is named" "this mpirun starts nothing there"
    elif [ "$rc" -gt 128 ] && [ ! -s "$dir/full.out" ]; then
        skip "is named" "this mpirun itself dies there, of signal $((rc - 128))"
    else
        like "$(cat "$dir/full.out")" "no space is left in $dir/full" "is named"
    fi
else
    skip "a full TMPDIR" "needs root"
fi
refuses "missing text" "$dir/none.txt" 2 data.path="$dir/none.txt"
: >"$dir/empty.txt"
refuses "empty text" "$dir/empty.txt" 1 data.path="$dir/empty.txt"
refuses "unknown key" "learning_rate" 1 train.learning_rate=1
refuses "number out of range" "train.beta1" 2 train.beta1=2
printf 'model: {\n  blocks = 2;\n  layers = 3;\n};\n' >"$dir/bad.conf"
like "$("$worker" "$dir/bad.conf" 2>&1)" "bad.conf:3: " "an unknown key in the file: file and line"
refuses "a learning rate that blows up the loss" "lower train.lr; checkpoints are as they were" 2 \
    train.lr=10 train.clip=0 train.warmup=0 train.min_lr=10 train.weight_decay=10
refuses "a checkpoint that is not there" "ck-none" 2 checkpoint.resume="$dir/ck-none"

head -c 30000 /dev/urandom >"$dir/bytes.txt"
train 2 bytes data.path="$dir/bytes.txt" train.steps=2 prune.begin=0 prune.end=0
is "$?" 0 "text that is no UTF-8 trains"

file=$(find "$ck/step-00000030" -type f ! -name 'manifest*' | sort | sed -n 4p)
python3 - "$file" <<'EOF' || bail "cannot flip a bit"
import sys
f = open(sys.argv[1], "r+b")
f.seek(1000)
b = f.read(1)[0]
f.seek(1000)
f.write(bytes([b ^ 1]))
EOF
refuses "a checkpoint with one flipped bit" "$(basename "$file")" 2 checkpoint.resume="$ck/step-00000030"

runs "--help" "$worker" --help
runs "--version" "$worker" --version
runs "--check-config" "$worker" --check-config "$dir/gpt.conf"
fails "no configuration" "$worker"

done_testing
