# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # ./demo has these, or takes them from here
# What ./demo --nodes shows: a pruning run on four nodes shrinks itself, and the job that waits behind it starts on a node
# that it gave back. With --scheme=freeze it is a run that fine-tunes, and freezes. ./demo sources this file, brings up slurm_of_story, and calls tell_story.

slurm_of_story=(--nodes 4 --gpus 1 --cpus 2 --daemon-conf "run: { cooldown_s = 5.0; confirm_s = 5.0; max_slowdown = 99; };")
slurm_text="4 nodes with one (simulated) GPU each, one dynpiped per node"
kept_text="the private Slurm and its four dynpiped"
look_closer=" --nodes"
[ "$scheme" != freeze ] || look_closer=" --scheme=freeze" text_of_story=Mat1:1-Rev22:21

# Half the microbatches of the file: a step of 2048 tokens, so that some hundred steps fit into two minutes.
size="train.microbatches=4"

# A release must pay within the run, which takes seconds, not steps: a fast machine gets more of them.
count_steps() { # MS: of a step of one worker alone
    awk -v ms="$1" -v cores="$(nproc)" -v least="$([ "$steps" = fast ] && echo 200 || echo 420)" -v asked="${DEMO_STEPS:-0}" 'BEGIN {
        ms /= cores < 4 ? cores : 4 # four workers
        n = int(least * 143 / ms) # 420 steps: a minute
        if (n < least) n = least
        if (asked >= 21) n = asked
        printf "train.steps=%d prune.begin=%d prune.end=%d prune.every=%d", n, n / 7, n * 11 / 21, n / 21
    }'
}
# The same steps for freezing: all but two blocks and the head in the end.
freeze_instead() {
    local events=${overrides##* prune.begin=}
    overrides="${overrides%% prune.begin=*} prune.begin=0 prune.end=0 freeze.layers=7 freeze.begin=${events//prune./freeze.}"
    overrides="$overrides checkpoint.weights=$D/before/step-00000060"
}
# What is fine-tuned later.
train_before() {
    bible -f Gen1:1-Mal4:6 >"$D/old.txt" || return 1
    "$build/worker/dynpipe-worker" --quiet "$here/etc/gpt-prune.conf" data.path="$D/old.txt" $size train.steps=60 prune.begin=0 \
        prune.end=0 data.eval_every=0 pipeline.threads="$(nproc)" checkpoint.dir="$D/before" >"$D/before.out" 2>&1
}

# ---- two jobs ----------------------------------------------------------------------------------------------------

submit_run() {
    local asks="--dynpipe=release --dynpipe-min-gpus=1 --dynpipe-reference=start" mpi
    what="a pruning run"
    [ "$scheme" != freeze ] || what="a fine-tuning run that freezes its layers one after the other"
    [ $pruning = 1 ] || {
        overrides="${overrides%% prune.begin=*} prune.begin=0 prune.end=0"
        asks="$asks --dynpipe-max-slowdown=99" what="a run without pruning"
    }
    mpi=$("$here/tests/lib/cluster.sh" mpi "$D")
    cat >"$D/train.sh" <<X
#!/bin/bash
#SBATCH --job-name=train --nodes=4 --gpus-per-node=1 --exclusive
#SBATCH $asks
srun $mpi --no-kill --kill-on-bad-exit=0 -n 4 $build/worker/dynpipe-worker \\
    $here/etc/gpt-prune.conf data.path=$text checkpoint.dir=$D/checkpoints \\
    output.log=$D/losses.jsonl output.tune=$D/tune.json $overrides
X
    sed -n '/^#SBATCH --dynpipe/p' "$D/train.sh" | sed 's/^#SBATCH /           sbatch /'
    train=$(sbatch --parsable -D "$D" -o "$D/train.out" "$D/train.sh") || die "the run was not accepted"
}
submit_other() {
    cat >"$D/other.sh" <<'X'
#!/bin/bash
#SBATCH --job-name=other --nodes=1 --gpus-per-node=1 --exclusive
echo "started on $SLURMD_NODENAME at $EPOCHREALTIME"
srun hostname
X
    other=$(sbatch --parsable -D "$D" -o "$D/other.out" "$D/other.sh") || die "the other job was not accepted"
}

# What everyone sees in squeue: one line whenever a job or its nodes change.
follow_queue() {
    local last= now line
    while :; do
        now=$(squeue -h -o '%i %j %T %D %N' 2>/dev/null | sort)
        if [ "$now" != "$last" ]; then
            last=$now
            line=$(echo "$now" | awk 'NF { printf "%s%s %s %s on %s", sep, $1, $2, tolower($3), ($5 ? $5 : "-"); sep = "; " }')
            say "squeue: ${line:-empty}"
        fi
        sleep 0.2
    done
}
follow() {
    local i
    follow_queue &
    dynpipe watch --plain -j "$train" --interval 2
    for ((i = 0; i < 3000; i++)); do job_over "$train" && job_over "$other" && break; sleep 0.1; done
    kill $!
}

# ---- what came of it ---------------------------------------------------------------------------------------------

# The controller's own log has both moments, to the millisecond.
freed_to_started() {
    awk -v train="JobId=$train\r" -v other="JobId=$other " '
        function seconds(t) { split(substr(t, 13, 12), h, ":"); return h[1] * 3600 + h[2] * 60 + h[3] }
        { line = $0 "\r" }
        /_update_job: setting nodes to/ && index(line, train) && !started { freed = seconds($1) }
        # Backfill says "Started", the main scheduler "Allocate".
        /Started|Allocate/ && index(line, other) { started = seconds($1) }
        END { if (freed && started) printf "%.2f s", started - freed + (started < freed) * 86400; else print "?" }
    ' "$D/log/slurmctld.log"
}
# How much of it is that fewer workers share the cores: what a step took on the wall's clock just before and after the
# first packing, beside what the workers' own CPU time says. Medians of (up to) 20 steps, without the first two of the new layout.
cores() {
    sed -n 's/.*move: from \([0-9]*\) [a-z]* to \([0-9]*\) at \([0-9.]*\) ms of device time a step (now \([0-9.]*\) ms.*/\1 \2 \3 \4/p' \
        "$out/report.json" | head -n 1 | awk -v cores="$(nproc)" '
        function median(v, n,   i, j, x) {
            for (i = 2; i <= n; i++) { x = v[i]; for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]; v[j + 1] = x }
            return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        }
        function number(key) { return match($0, "\"" key "\":[0-9.]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
        FILENAME == "-" { was = $1; is = $2; after = $3; before = $4; next }
        number("step_ms") == "" { next }
        number("epoch") == 0 { before_ms[n++ % 20 + 1] = number("step_ms") }
        number("epoch") == 1 && ++m > 2 && m <= 22 { after_ms[m - 2] = number("step_ms") }
        END {
            if (before <= 0 || n < 20 || m < 7) exit
            a = median(before_ms, 20); b = median(after_ms, m > 22 ? 20 : m - 2)
            printf "Cores:           the four nodes share %d here. On %d instead of %d a step took %.0f instead of %.0f ms, %.2f times as long;\n", cores, is, was, b, a, b / a
            printf "                 with cores of its own for each worker: %.2f times, by their CPU time (%.0f and %.0f ms)\n", after / before, after, before
        }' - "$D/losses.jsonl"
}

tell_story() {
    choose_steps
    if [ "$scheme" = freeze ]; then
        freeze_instead
        as_child train_before || die "one worker alone cannot train what is fine-tuned: $(tail -n 1 "$D/before.out")"
        say "a model has been trained on the Old Testament: $(sed -n 's/^step 60 eval: //p' "$D/before.out")"
    fi
    submit_run
    until [ "$(squeue -h -j "$train" -o %T)" != PENDING ]; do sleep 0.1; done
    submit_other
    say "job $train is $what on 4 nodes; job $other needs one node and has to wait:"
    squeue -o '           %.6i %.10j %.10T %.6D %R'
    as_child follow
    [ "$(job_state "$train")" = COMPLETED ] || die "the run ended as $(job_state "$train")"
    [ "$(job_state "$other")" = COMPLETED ] || die "the other job did not run"
    tell_report "$train"
    cores
    echo "The waiting job: $(sed -n 's/ at .*//p' "$D/other.out"), $(freed_to_started) after Slurm had the node back"
}
