#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Frozen layers and layer dropout in whole runs: whatever the rule, the schedule and the number of workers, loss and gradient norm of
# every step are the same text, also where a run goes on from a checkpoint between two freezings. A run begins with the weights of
# another one's checkpoint. What cannot be is said clearly.
# Needs mpirun for several workers; no Slurm, no network, no root.
. "${DP_SRCDIR:?}/tests/lib/tap.sh"
. "${DP_SRCDIR:?}/tests/lib/training.sh"

begin_mpirun

cat "$DP_SRCDIR"/common/*.[ch] "$DP_SRCDIR"/common/*/*.[ch] >"$dir/text.txt"
# Freezings after steps 5, 9, 13, 17 and 18.
cat >"$dir/gpt.conf" <<EOF
model: { blocks = 5; channels = 32; heads = 4; context = 16; vocabulary = 256; };
train: { steps = 24; batch = 2; microbatches = 5; warmup = 5; lr = 3e-3; min_lr = 3e-3; };
data: { path = "$dir/text.txt"; eval_every = 12; eval_batches = 3; };
freeze: { layers = 5; begin = 5; end = 18; every = 4; noise = 0.1; };
checkpoint: { resume = "none"; };
output: { tune = "$dir/tune.json"; every = 1000; };
EOF

# Step, loss, gradient norm, sparsity and frozen layers of every step, and the evaluations.
losses() {
    sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*"sparsity":\([^,]*\),"frozen":\([^,]*\),.*/\1 \2 \3 \4 \5/p
        s/^{"event":"eval","step":\([0-9]*\),"value":\([^,]*\),.*/\1 eval \2/p' "$dir/$1" 2>/dev/null | sort -n | uniq
}

# How many layers are frozen, step by step: 5x0 4x1 ...
frozen() { losses "$1" | awk '$2 != "eval" { print $5 }' | uniq -c | awk '{ printf "%s%sx%s", s, $1, $2; s = " " }'; }

# same LOG WANT NAME [first step]: the same text in all steps from there on, to the last one
same() {
    if cmp -s <(losses "$1") <(losses "$2" | awk "\$1 >= ${4:-0}") && [ "$(losses "$1" | tail -n 1 | cut -d' ' -f1)" = 24 ]; then
        ok 0 "$3"
    else
        diag "$(diff <(losses "$1") <(losses "$2") | head -n 6)"
        diag "$(tail -n 5 "$dir/$1.out")"
        ok 1 "$3"
    fi
}

# everywhere NAME OPTION ...: 1, 2 and 4 workers, GPipe on 3 of them; the first one's log is NAME
everywhere() {
    local name=$1 n
    shift
    train 1 "$name" "$@"
    is "$?" 0 "$name: one worker trains"
    for n in 2 4; do
        train "$n" "$name-$n" "$@"
        same "$name-$n" "$name" "$name: $n workers, the same losses"
    done
    train 3 "$name-gpipe" pipeline.schedule=gpipe "$@"
    same "$name-gpipe" "$name" "$name: GPipe on 3 workers, the same losses"
}

# ---- rules -----------------------------------------------------------------------------------------

everywhere linear
train 3 linear-3
same linear-3 linear "linear: 3 workers, the same losses"
is "$(frozen linear)" "5x0 4x1 4x2 4x3 1x4 6x5" "linear: 1 to 5 layers, one more at each freezing"
everywhere geometric freeze.rule=geometric freeze.share=0.5
is "$(frozen geometric)" "5x0 4x2 4x3 11x4" "geometric: 5 (1 - 1/2^i) layers"
for rule in change noise; do
    everywhere $rule freeze.rule=$rule
    like "$(frozen $rule)" "^[0-9]+x0 .*x[1-5]$" "$rule: some layers learn for a while and then no more ($(frozen $rule))"
done
train 1 dense freeze.layers=0
is "$(frozen dense)" "24x0" "without freezing no layer is frozen"
is "$(losses linear | head -n 5)" "$(losses dense | head -n 5)" "before the first freezing its losses are those of a run without"
isnt "$(losses linear | grep '^6 ')" "$(losses dense | grep '^6 ')" "after it they are others"

# All but the head, at once: of four workers three have nothing to learn.
everywhere all freeze.layers=6 freeze.begin=7 freeze.end=7
is "$(frozen all)" "7x0 17x6" "all: only the head learns"
train 4 all-many freeze.layers=6 freeze.begin=0 freeze.end=0 train.microbatches=60 train.batch=1 pipeline.schedule=gpipe
train 1 all-one freeze.layers=6 freeze.begin=0 freeze.end=0 train.microbatches=60 train.batch=1
same all-many all-one "all from the first step on, 60 microbatches: the same losses"

# ---- with others -----------------------------------------------------------------------------------

everywhere static freeze.begin=0 freeze.end=0 freeze.layers=4
is "$(frozen static)" "24x4" "static: four layers never learn"
like "$(cat "$dir/static")" '"event":"frozen","step":0,"value":4.0' "which is an event before the first step"
everywhere dropped drop.rate=0.6 freeze.layers=3
isnt "$(losses dropped | head -n 1)" "$(losses dense | head -n 1)" "dropped: the first step is another one already"
everywhere pruned prune.begin=2 prune.end=5 prune.every=1 prune.final=0.7
is "$(losses pruned | awk '$1 == 24 && $2 != "eval" { print ($4 > 0.699 && $4 < 0.701), $5 }')" "1 5" \
    "pruned: to 0.7, then five layers are frozen"
train 2 threads pipeline.threads=2
same threads linear "two workers of two threads, the same losses"
train 4 traced output.trace="$dir/trace" pipeline.record=on
same traced linear "with a trace, and a device that may record: the same losses"

# What workers report of their memory (a trace has a window before each freezing and one behind it): gradients and moments go, three
# quarters of a layer's state, and so do the activations that are kept for each microbatch in flight, but for one set to work in. The
# first layer of a stage gets its input from outside, and keeps none of its own.
is "$(python3 - "$dir/trace" <<'END'
import json, sys
freed = 0
for rank in range(4):
    lines = [json.loads(line) for line in open("%s.%d" % (sys.argv[1], rank))]
    sets, x, before = 4 - rank, lines[0]["boundary_bytes"], None
    for now in lines[1:]:
        drop = 0
        for i, layer in enumerate(now["layers"]):
            old = before["layers"][i] if before else layer
            if old["state_bytes"] == layer["state_bytes"]:
                continue
            kept = old["activation_bytes"] - (x if i == 0 and old["activation_bytes"] else 0)
            drop += 12 * layer["parameters"] + (sets - 1) * kept
            if old["state_bytes"] - layer["state_bytes"] != 12 * layer["parameters"] or layer["activation_bytes"]:
                print("worker %d: layer %d still has %d + %d bytes" % (rank, i, layer["state_bytes"], layer["activation_bytes"]))
            freed += 1
        if before and before["mem_bytes"] - now["mem_bytes"] != drop:
            print("worker %d, step %d: %d bytes go, %d should" % (rank, now["step"], before["mem_bytes"] - now["mem_bytes"], drop))
        before = now
print("%d layers" % freed)
END
)" "5 layers" "a frozen layer's memory goes at once, and as much of it as doc/schemes.md says"

# ---- checkpoints -----------------------------------------------------------------------------------

# resumes NAME STEP "N ..." [option ...]: saved by 4 workers, gone on with by N
resumes() {
    local name=$1 step=$2 by=$3 n
    shift 3
    train 4 "$name-saved" checkpoint.dir="$dir/ck-$name" checkpoint.every=7 checkpoint.keep=9 "$@"
    same "$name-saved" "$name" "$name: writing checkpoints changes nothing"
    for n in $by; do
        train "$n" "$name-resumed-$n" checkpoint.resume="$dir/ck-$name/step-000000$step" "$@"
        same "$name-resumed-$n" "$name" "$name: resumed at step $step on $n workers, the same losses" $((10#$step + 1))
    done
}

resumes linear 07 "2 3"
resumes change 07 "2 3" freeze.rule=change
resumes noise 14 3 freeze.rule=noise
resumes pruned 14 2 prune.begin=2 prune.end=5 prune.every=1 prune.final=0.7
resumes dropped 14 3 drop.rate=0.6 freeze.layers=3

# Another configuration goes on from there: what is frozen stays so, what a schedule has frozen by now is.
train 2 other checkpoint.resume="$dir/ck-linear/step-00000014" freeze.rule=noise
is "$?" 0 "another rule goes on"
like "$(frozen other)" "^[0-9]+x3( |$)" "with the layers that are frozen"
train 2 none checkpoint.resume="$dir/ck-linear/step-00000014" freeze.layers=0
is "$(frozen none)" "10x3" "so does one that freezes nothing"
train 2 more checkpoint.resume="$dir/ck-change/step-00000007" freeze.layers=6 freeze.begin=1 freeze.end=3
is "$(frozen more)" "17x6" "a schedule that is over by now is carried out at once"

# ---- the weights of another run --------------------------------------------------------------------

train 1 tuned checkpoint.weights="$dir/ck-linear/step-00000021" freeze.begin=0 freeze.end=0 freeze.layers=3
is "$?" 0 "a run begins with another one's weights"
is "$(frozen tuned)" "24x3" "from step 0 on, with what it freezes itself"
first=$(losses tuned | awk 'NR == 1 { print ($1 == 1 && $2 < 4.5) }')
is "$first" 1 "and they have learnt"
for n in 2 4; do
    train $n "tuned-$n" checkpoint.weights="$dir/ck-linear/step-00000021" freeze.begin=0 freeze.end=0 freeze.layers=3
    same "tuned-$n" tuned "$n workers, the same losses"
done
train 2 tuned-newest checkpoint.weights="$dir/ck-linear" freeze.begin=0 freeze.end=0 freeze.layers=3
newest=$(cd "$dir/ck-linear" && printf '%s\n' step-* | sort | tail -n 1)
like "$(cat "$dir/tuned-newest.out")" "begins with the weights of $dir/ck-linear/$newest" "a folder: the log says which one was taken"
train 1 tuned-last checkpoint.weights="$dir/ck-linear/$newest" freeze.begin=0 freeze.end=0 freeze.layers=3
same tuned-newest tuned-last "its newest one, the same losses"
train 2 tuned-saved checkpoint.weights="$dir/ck-linear/step-00000021" freeze.begin=0 freeze.end=0 freeze.layers=3 \
    checkpoint.dir="$dir/ck-tuned" checkpoint.every=10 checkpoint.keep=9
rm -rf "$dir/ck-tuned/step-00000024" "$dir/ck-tuned/step-00000020"
train 3 tuned-resumed checkpoint.weights="$dir/ck-none" freeze.begin=0 freeze.end=0 freeze.layers=3 \
    checkpoint.dir="$dir/ck-tuned" checkpoint.resume=auto
same tuned-resumed tuned "a run that resumes does not ask for weights" 11

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

refuses "a head that is to be frozen" "freeze.layers: 7, .* 6 at most" 2 freeze.layers=7
refuses "a tied embedding that is to be frozen" "freeze.layers: 5, but with model.tied_head" 1 model.tied_head=true
refuses "pruning behind freezing" "prune.end: 6 is after freeze.begin 5" 1 prune.end=6
refuses "a rule that looks at gradients before there are any" "freeze.end: 0 .* freeze.rule change" 1 freeze.begin=0 freeze.end=0 \
    freeze.rule=change
refuses "pruning of what a checkpoint has frozen" "prune.end: 23 is still to come, and layers 0 to 2 are frozen" 2 freeze.layers=0 \
    prune.end=23 checkpoint.resume="$dir/ck-linear/step-00000014"
refuses "weights that are not there" "checkpoint.weights: .*ck-none" 2 checkpoint.weights="$dir/ck-none"
refuses "weights of another model" "checkpoint.weights: .*(model|blocks)" 2 checkpoint.weights="$dir/ck-linear/step-00000021" model.blocks=4
# Layers of two checkpoints, with digests that fit: layer 1 of three has learnt on.
train 1 dense-saved freeze.layers=0 checkpoint.dir="$dir/ck-dense" checkpoint.every=14 checkpoint.keep=9
python3 - "$dir/ck-linear/step-00000014" "$dir/ck-dense/step-00000014" <<'END' || bail "cannot mix two checkpoints"
import hashlib, json, sys
mixed, other = (sys.argv[i] + "/manifest.json" for i in (1, 2))
text = open(mixed).read()
old, new = json.loads(text), json.load(open(other))
for key in "bytes", "sha256":
    have, want = ('"%s": %s' % (key, json.dumps(m["layers"][1][key])) for m in (old, new))
    at = text.index(have, text.index(old["layers"][1]["file"]))
    text = text[:at] + want + text[at + len(have):]
text = text.replace(old["sha256_of_this_file"], 64 * "0", 1)
text = text.replace(64 * "0", hashlib.sha256(text.encode()).hexdigest(), 1)
open(mixed, "w").write(text)
open(sys.argv[1] + "/layer-0001.bin", "wb").write(open(sys.argv[2] + "/layer-0001.bin", "rb").read())
END
refuses "layers of two checkpoints" "layer 2 is frozen and layer 1 below it is not" 1 checkpoint.resume="$dir/ck-linear/step-00000014"
refuses "the same on two workers" "2 layers are frozen, and layer [12] is (not )?one of them" 2 pipeline.layout="0-1|2-6" \
    checkpoint.resume="$dir/ck-linear/step-00000014"
mkdir "$dir/empty"
refuses "a folder without a checkpoint" "checkpoint.weights: .*empty: neither a checkpoint.*nor a folder with one" 1 checkpoint.weights="$dir/empty"
runs "--check-config with weights" "$worker" --check-config "$dir/gpt.conf" checkpoint.weights="$dir/ck-linear/step-00000021"
fails "--check-config without them" "$worker" --check-config "$dir/gpt.conf" checkpoint.weights="$dir/ck-none"

done_testing
