# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # ./demo has these, or takes them from here
# What ./demo --lose-node shows: a run on three nodes, each of whose layers has a copy on another one, loses a node with all that
# runs there, and goes on with the next step. ./demo sources this file, brings up slurm_of_story, and calls tell_story.

# shellcheck source=tests/lib/lose-node.sh
. "$here/tests/lib/lose-node.sh"

slurm_of_story=(--nodes 3 --gpus 1 --cpus 2 --daemon-key 'report_ms = 250;')
slurm_text="3 nodes with one (simulated) GPU each, one dynpiped per node"
kept_text="the private Slurm and its dynpiped on the two nodes that are left"
look_closer=" --lose-node"
size="model.blocks=6 model.channels=96 model.heads=4 model.context=48 train.batch=4 train.microbatches=4"
# It is pruned at first, and lasts until it is told to end; so it is the beginning of every longer run, also of that of one worker.
run="train.steps=1000000000 train.lr=3e-3 train.min_lr=3e-3 data.eval_every=0 prune.begin=5 prune.end=20 prune.every=5"

train_with() { # LOG OVERRIDES...
    echo "$build/worker/dynpipe-worker $here/etc/gpt-prune.conf data.path=$text checkpoint.dir= output.tune=$D/tune.json output.log=$D/$1 $size $run ${*:2}"
}
one_worker_alone() { # LOG STEPS
    # shellcheck disable=SC2046,SC2091 # a command line
    $(train_with "$1" "train.steps=$2" --quiet pipeline.pin=false) >"$D/$1.out" 2>&1
}

submit_run() {
    cat >"$D/train.sh" <<X
#!/bin/bash
#SBATCH --job-name=train --nodes=3 --gpus-per-node=1 --exclusive --no-kill
#SBATCH --dynpipe=balance --dynpipe-policy=keep --dynpipe-copies=1
srun --mpi=none --no-kill --kill-on-bad-exit=0 -n 3 $(train_with losses.jsonl)
rc=\$?
[ \$rc = 75 ] || [ \$rc = 137 ] # 137: what srun says of those that were killed
X
    sed -n '/^#SBATCH/p' "$D/train.sh" | sed 's/^#SBATCH /           sbatch /'
    train=$(sbatch --parsable -D "$D" -o "$D/train.out" "$D/train.sh") || die "the run was not accepted"
}

losses() { sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1"; }
last_step() { tail -n 1 "$D/losses.jsonl" 2>/dev/null | sed -n 's/.*"step":\([0-9]*\).*/\1/p'; }
# until_or_die SECONDS WHAT COMMAND...
until_or_die() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ! job_over "$train" || die "the run ended as $(job_state "$train") while it was waited for: $what"
        [ $SECONDS -lt $end ] || die "in vain: $what"
        sleep 0.05
    done
}
reached() { [ "$(last_step)" -ge "$1" ] 2>/dev/null; }
# How many layers have a copy that is no step behind, of how many.
copies() { dynpipe status -j "$train" 2>/dev/null | sed -n 's/^copies *//p'; }
all_copied() { copies | grep -q 'no step behind'; }
has_regrouped() { grep -q '"event":"regrouped"' "$D/losses.jsonl"; }

lose_it() {
    until_or_die 120 "40 steps" reached 40
    until_or_die 60 "copies of all layers" all_copied
    say "step $(last_step): layers and their copies: $(copies)"
    dynpipe status -j "$train" | sed -n 's/^ *\(worker [0-9]: .* on worker .*\)/           \1/p'
    lose_node n3 "$train"
    echo "$EPOCHREALTIME" >"$D/lost"
    say "step $(last_step): n3 is lost: kill -9 of its slurmd, step daemons, worker and dynpiped, at once"
    scontrol update nodename=n3 state=down reason="no power"
    say "monitoring tells Slurm (scontrol update nodename=n3 state=down); Slurm by itself would find out within SlurmdTimeout"
    until_or_die 120 "the others to go on" has_regrouped
    until_or_die 60 "the next step" reached $(($(sed -n 's/^{"event":"regrouped","step":\([0-9]*\),.*/\1/p' "$D/losses.jsonl" | head -n 1) + 1))
    say "the run goes on with two workers, $(seconds_since "$(cat "$D/lost")") s after the loss:"
    sed -n 's/.*\(regrouped: .*\)/           \1/p' "$D/train.out" | head -n 1
    until_or_die 60 "40 steps more" reached $(($(last_step) + 40))
    until_or_die 60 "new copies of all layers" all_copied
    say "step $(last_step): each layer has a copy again: $(copies)"
    scancel --signal=TERM "$train"
    for ((i = 0; i < 600; i++)); do job_over "$train" && return 0; sleep 0.1; done
    die "the run does not end"
}

# Each step's loss is there once, and is that of one worker alone.
compare_losses() {
    local n
    losses "$D/losses.jsonl" >"$D/losses"
    n=$(wc -l <"$D/losses")
    [ "$n" -gt 0 ] && [ "$(cut -d' ' -f1 "$D/losses")" = "$(seq "$n")" ] || die "a step's line is missing, or there twice"
    say "one worker alone makes the same $n steps:"
    as_child one_worker_alone alone.jsonl "$n" || die "one worker alone cannot train: $(tail -n 1 "$D/alone.jsonl.out")"
    losses "$D/alone.jsonl" >"$D/losses.alone"
    cmp -s "$D/losses" "$D/losses.alone" || die "the losses differ from those of one worker alone"
    echo "Losses:          in all $n steps, each made once, to the last bit those of one worker alone"
    echo "Checkpoints:     none was written, and none read"
}

tell_story() {
    as_child one_worker_alone first.jsonl 21 || die "one worker alone cannot train: $(tail -n 1 "$D/first.jsonl.out")" # measures the table
    submit_run
    as_child lose_it || exit 1
    [ "$(job_state "$train")" = COMPLETED ] || die "the run ended as $(job_state "$train")"
    compare_losses
    tell_report "$train"
}
