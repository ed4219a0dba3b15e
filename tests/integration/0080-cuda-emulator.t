#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A worker trains on the emulator of the CUDA backend (doc/cuda.md): a tiny model, from the first step through pruning,
# evaluation and a checkpoint to the last one. Loss and gradient norm of every step are those of the cpu within 1e-4, and
# bit for bit the same whatever order the emulator's seed chose, and whether segments of a step are recorded or not. What
# the device cannot do ends the run, with the operation's name, and leaves no damaged checkpoint.
# With DP_CARD=1 the same on the machine's card, without its failures. No Slurm, no network, no root;
# tests/e2e/0106-cuda-emulator.t has several workers.
# shellcheck disable=SC2086 # $masked and the like are lists
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
. "$DP_SRCDIR/tests/lib/training.sh"

worker=$DP_BUILDDIR/worker/dynpipe-worker
unset DYNPIPE_SOCKET DYNPIPE_EMU
choose_cuda
dir=$(mktemp -d "${TMPDIR:-/tmp}/dpintXXXXXX") || bail "no temporary folder"
trap 'case $BASHPID in $$) rm -rf "$dir" ;; esac' EXIT

steps=8
cat "$DP_SRCDIR"/common/*.[ch] >"$dir/text.txt"
cat >"$dir/gpt.conf" <<X
model: { blocks = 2; channels = 32; heads = 2; context = 32; vocabulary = 256; };
train: { steps = $steps; batch = 1; microbatches = 2; warmup = 3; lr = 3e-3; min_lr = 3e-3; };
data: { path = "$dir/text.txt"; eval_every = 4; eval_batches = 1; };
prune: { begin = 2; end = 6; every = 2; final = 0.75; };
checkpoint: { resume = "none"; };
output: { every = 1000; };
X

# CROSSOVER: from which sparsity on matrices are sparse. With such a table nothing is measured.
tune() {
    write_tune "$dir/tune-$1.json" "$1" 32 "weight 4x1 32x32" "96,32 32,32 128,32 32,128"
    cp "$dir/tune-$1.json" "$dir/before-$1.json"
}
tune 1.0
tune 0.3

# train LOG [section.key=value ...]: on the cpu; what the worker prints goes to LOG.out
train() {
    local log=$1
    shift
    timeout -k 1 300 "$worker" "$dir/gpt.conf" output.log="$dir/$log" "$@" >"$dir/$log.out" 2>&1
}
# emulated SETTINGS LOG ...: the same on the emulator
emulated() {
    local settings=$1
    shift
    DYNPIPE_EMU=$settings train "$@" pipeline.backend=cuda
}

losses() { all_losses "$dir/$1"; }
from() { awk -v from="$1" '$1 > from'; } # STEP: of what is read, what comes behind it
same() { # LOG WANT NAME
    if cmp -s <(losses "$1") <(losses "$2") && [ "$(losses "$1" | wc -l)" = $((steps + 2)) ]; then
        ok 0 "$3"
    else
        diag "$(diff <(losses "$1") <(losses "$2") | head -n 6)"
        diag "$(tail -n 5 "$dir/$1.out")"
        ok 1 "$3"
    fi
}
# close_to LOG WANT NAME: each number within 1e-4 of the other one's, and as many lines.
close_to() {
    local said
    said=$(paste -d ' ' <(losses "$1") <(losses "$2") | awk -v want=$((steps + 2)) '
        { half = NF / 2; if ($1 != $(half + 1) || $2 != $(half + 2)) { print "line " NR ": " $0; bad = 1; next }
          for (i = 3; i <= half; i++) { if ($i !~ /^[-0-9]/) bad = 1; a = $i; b = $(half + i); d = a > b ? a - b : b - a; m = b < 0 ? -b : b
              if (!(d <= 1e-4 * m)) { print "step " $1 ": " $i ", not " $(half + i); bad = 1 }
              if (m > 0 && d / m > most) most = d / m } }
        END { printf "largest difference %.1e\n", most; exit bad || NR != want }')
    ok $? "$3"
    diag "$said"
    [ "$(losses "$1" | wc -l)" -gt 0 ] || diag "$(tail -n 5 "$dir/$1.out")"
}
# The last step's share of zeros.
sparsity() { losses "$1" | awk '$2 == "step" { s = $5 } END { printf "%.2f", s }'; }

# Three habits: work is done at once (3), when somebody waits for it (1), or some time (2).
trains() { # NAME SEEDS KEYS...
    local name=$1 seeds=$2 first seed
    shift 2
    train cpu "$@"
    ok $? "$name: the cpu trains"
    for seed in $seeds; do
        emulated "seed=$seed" emu-$seed "$@"
        ok $? "$name: the emulator trains, seed $seed"
    done
    first=emu-${seeds%% *}
    close_to $first cpu "$name: its losses are those of the cpu within 1e-4"
    for seed in ${seeds#* }; do
        same emu-$seed $first "$name: the same bits with seed $seed"
    done
    emulated "seed=${seeds%% *} say=1" recorded "$@" pipeline.record=on
    same recorded $first "$name: and with recorded segments"
    [ -n "${DP_CARD:-}" ] || like "$(cat "$dir/recorded.out")" "[0-9]+ kernels, [1-9][0-9] graphs launched" "$name: which were replayed"
    is "$(sparsity $first)" 0.75 "$name: it is pruned"
}
masked=output.tune=$dir/tune-1.0.json
sparse=output.tune=$dir/tune-0.3.json
trains "4x1, sparse" "1 2 3" $sparse prune.granularity=4x1
trains "32x32, sparse, tied head" "1 2" $sparse prune.granularity=32x32 model.tied_head=true
trains "single weights, sparse, tied head" "2 3" $sparse model.tied_head=true
trains "single weights, dense with a mask" "3 1" $masked

# ---- checkpoints ---------------------------------------------------------------------------------------

checkpoints="checkpoint.dir=$dir/ck checkpoint.every=4 $sparse prune.granularity=32x32"
emulated "seed=1" whole $sparse prune.granularity=32x32
ok $? "a run without checkpoints, to compare with"
emulated "seed=2" saved $checkpoints
same saved whole "a run that saves has the same losses"
rm -rf "$dir/ck/step-00000008"
emulated "seed=3" on $checkpoints checkpoint.resume=auto
runs "gone on with on the emulator: the same bits" cmp <(losses on) <(losses whole | from 4)

# ---- a device that fails -------------------------------------------------------------------------------

[ -z "${DP_CARD:-}" ] || done_testing

# Later and later, until it happens behind the first checkpoint. Eight steps are about 4000 calls.
newest=
for at in 1 40 800 1600 2400 3200; do
    [ -z "$newest" ] || break
    rm -rf "$dir/ck"
    emulated "seed=3 fail=$at" failed $checkpoints
    isnt $? 0 "call $at of the runtime fails: so does the run"
    like "$(cat "$dir/failed.out")" "cuda: ([a-z_]+|one of [a-z_, ]+|[a-z_]+ or [a-z_]+): " "call $at: and says in what"
    newest=$(find "$dir/ck" -maxdepth 1 -name 'step-*[0-9]' 2>/dev/null | sed 's/.*step-0*//' | sort -n | tail -n 1)
done
is "$newest" 4 "the last of them, call $at, came behind a checkpoint"
emulated "seed=1" after $checkpoints checkpoint.resume=auto
runs "which goes on as if nothing had been" cmp <(losses after) <(losses whole | from "$newest")

# The same where most calls are in graphs.
emulated "seed=3 fail=1500" failed $checkpoints pipeline.record=on
isnt $? 0 "recorded: a call of the runtime fails, and so does the run"
like "$(cat "$dir/failed.out")" "cuda: ([a-z_]+|one of [a-z_, ]+|[a-z_]+ or [a-z_]+): .*returned by cuda[A-Z]" "recorded: and says in what"

for at in 1.0 0.3; do
    runs "no worker measured what is sparse, table $at" cmp "$dir/tune-$at.json" "$dir/before-$at.json"
done
done_testing
