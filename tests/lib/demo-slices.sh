# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # jobs expand their own variables; the rest ./demo has, or takes from here
# What ./demo shows: two nodes with four GPUs each. A run over eight slices, tasks of an array with one GPU each, shrinks to
# two; three other jobs start on what comes back; then Slurm takes one of the two for an urgent job, and the run goes on.
#
# ./demo sources this file, brings up slurm_of_story, and calls tell_story. Home is the slice that began first: task 0,
# the only one that partition 'sure' has room for. So an urgent job takes the other one, and does not end the run.

slurm_of_story=(--nodes 2 --gpus 4 --cpus 4
    --conf "PreemptType=preempt/partition_prio" --conf "PreemptMode=CANCEL"
    --conf "PartitionName=DEFAULT PreemptMode=OFF MaxTime=INFINITE State=UP"
    --conf "PartitionName=sure Nodes=n1 MaxCPUsPerNode=1 PriorityTier=2"
    --conf "PartitionName=spare Nodes=n[1-2] PreemptMode=CANCEL GraceTime=20"
    --conf "PartitionName=urgent Nodes=n[1-2] PriorityTier=10"
    --daemon-key 'report_ms = 250;'
    --daemon-conf 'run: { cooldown_s = 1.0; warmup_reports = 2; confirm_s = 1.0; max_slowdown = 99; };')
slurm_text="2 nodes with four (simulated) GPUs each, one dynpiped per node"
kept_text="the private Slurm and its two dynpiped"

# 16 layers, so that there is something to share out among eight. With many small microbatches one slice is nearly twice as
# slow as two: what is allowed lies between them, far from both.
size="model.blocks=14 train.batch=1 train.microbatches=16"

# The run has all of the machine's cores but the last one. There one worker alone makes the same steps at the same time.
run_cores=1
confine_run() {
    local range first last all=() node
    for range in $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status | tr ',' ' '); do
        for ((first = ${range%-*}, last = ${range#*-}; first <= last; first++)); do all+=("$first"); done
    done
    [ ${#all[@]} -gt 1 ] && command -v taskset >/dev/null || return 0
    run_cores=$((${#all[@]} - 1))
    for node in n1 n2; do
        taskset -apc "$(IFS=,; echo "${all[*]:0:run_cores}")" "$(cat "$D/run/slurmd.$node.pid")" >/dev/null || die "taskset fails"
    done
}

# Nearly twice the time that the story takes: it may go slower. With more cores each of its parts takes less.
count_steps() { # MS: of a step of one worker alone
    awk -v ms="$1" -v cores="$run_cores" -v fast="$([ "$steps" = fast ] && echo 1 || echo 0)" -v asked="${DEMO_STEPS:-0}" 'BEGIN {
        seconds = cores == 1 ? (fast ? 65 : 85) : (fast ? 50 : 65)
        n = int(seconds * 1000 / (ms / (cores < 2.5 ? cores : 2.5) * 0.5)) # 0.5: most steps are pruned
        if (n < 200) n = 200
        if (asked >= 21) n = asked
        printf "train.steps=%d prune.begin=%d prune.end=%d prune.every=%d", n, n / 8, n / 2, n < 80 ? 1 : n / 40
    }'
}

# ---- who has which GPU -------------------------------------------------------------------------------------------

# As Slurm says: a word for each GPU, and behind ";" who waits. Slices by their number, other jobs by the first letter
# of their name, "-": nobody.
gpus() {
    scontrol -d -o show job 2>/dev/null | awk '
        function field(key,   v) {
            if (!match($0, "(^| )" key "=[^ ]*")) return ""
            v = substr($0, RSTART, RLENGTH)
            sub(/^[^=]*=/, "", v)
            return v
        }
        function take(node, list, label,   part, n, ends, i, g) {
            n = split(list, part, ",")
            for (i = 1; i <= n; i++) {
                if (split(part[i], ends, "-") == 1) ends[2] = ends[1]
                for (g = ends[1] + 0; g <= ends[2] + 0; g++) has[node, g] = label
            }
        }
        {
            label = field("ArrayTaskId")
            if (label == "") label = toupper(substr(field("JobName"), 1, 1))
            state = field("JobState")
            if (state == "PENDING") waiting = waiting " " label
            if (state !~ /^(RUNNING|SIGNALING|RESIZING|COMPLETING)$/) next # signalled: for a moment when it is preempted
            for (rest = $0; match(rest, / Nodes=n[0-9]+ CPU_IDs=[^ ]* Mem=[^ ]* GRES=gpu[^ ]*IDX:[0-9,-]+/); rest = substr(rest, RSTART + RLENGTH)) {
                node = list = substr(rest, RSTART + 7, RLENGTH - 7)
                sub(/ .*/, "", node)
                sub(/.*IDX:/, "", list)
                take(node, list, label)
            }
        }
        END {
            for (i = 1; i <= 2; i++)
                for (g = 0; g < 4; g++) printf "%s ", ("n" i, g) in has ? has["n" i, g] : "-"
            print ";" waiting
        }'
}

# A line whenever that changes; with the time in a file, for the accounts at the end.
follow_gpus() {
    local last= now
    while :; do
        now=$(gpus)
        if [ "$now" != "$last" ]; then
            last=$now
            say "$(awk '{ printf "GPUs: n1 [%s %s %s %s]  n2 [%s %s %s %s]", $1, $2, $3, $4, $5, $6, $7, $8 }
                { sub(/.*; ?/, ""); if ($0 != "") printf "   waiting: %s", $0 }' <<<"$now")"
            echo "$EPOCHREALTIME $now" >>"$D/gpus"
        fi
        sleep 0.3
    done
}
# Of LABELS (a pattern), at this moment.
gpus_of() { tail -n 1 "$D/gpus" 2>/dev/null | sed 's/^[^ ]* //; s/;.*//' | tr ' ' '\n' | grep -c "^[$1]\$"; }

# ---- jobs --------------------------------------------------------------------------------------------------------

submit_run() {
    cat >"$D/train.sh" <<X
#!/bin/bash
srun -n1 $build/worker/dynpipe-worker $here/etc/gpt-prune.conf data.path=$text checkpoint.dir= \\
    output.log=$D/losses.jsonl output.tune=$D/tune.json $overrides
X
    local asks=(--array=0-7 --gpus=1 "--partition=sure,spare" --dynpipe=release --dynpipe-slices=8
        --dynpipe-reference=start --dynpipe-max-slowdown=30)
    echo "           sbatch ${asks[*]} train.sh"
    array=$(sbatch --parsable -J train -D "$D" -o "$D/train.%a.out" "${asks[@]}" "$D/train.sh") || die "the run was not accepted"
}
# The job of a task: the last one to begin has the array's own id.
task_job() { scontrol -o show job | sed -n "s/^JobId=\([0-9]*\) ArrayJobId=$array ArrayTaskId=$1 .*/\1/p"; }
eight_have() { [ "$(gpus_of 0-7)" = 8 ]; }
eight_run() { [ "$(squeue -h -r -j "$array" -t RUNNING -o %i | grep -c .)" = 8 ]; }

# The others train nothing: they hold GPUs, as long as the run goes on.
submit_others() {
    cat >"$D/other.sh" <<'X'
#!/bin/bash
until [ -e over ]; do sleep 0.2; done
X
    local name
    others=()
    for name in A B C; do
        others+=("$(sbatch --parsable -J $name --gpus=2 -n1 -D "$D" -o "$D/other.$name.out" "$D/other.sh")") || die "job $name was not accepted"
    done
}
submit_urgent() { sbatch --parsable -J urgent --partition=urgent --gpus=1 -n1 -D "$D" -o "$D/other.urgent.out" --wrap 'sleep 10'; }
steps_done() { tail -n 5 "${1:-$D/losses.jsonl}" 2>/dev/null | sed -n 's/^{"step":\([0-9]*\),.*/\1/p' | tail -n 1; }

# ---- the story ---------------------------------------------------------------------------------------------------

# until_true COMMAND...: while the run goes on with two slices or more.
until_true() {
    until "$@"; do
        [ "$(gpus_of 0-7)" -ge 2 ] && ! job_over "$home" || return 1
        sleep 0.3
    done
}
has_shrunk() { [ "$(gpus_of 0-7)" = 2 ] && [ "$(gpus_of ABC)" = 6 ]; }
is_urgent_there() { [ "$(gpus_of U)" = 1 ]; }
was_preempted() { dynpipe status -j "$home" --json 2>/dev/null | grep -q "asks to be let go"; }
note() { echo "$EPOCHREALTIME $(steps_done)" >"$D/urgent.$1"; }

# Events as they come, and every fifth line of how far the run is.
watch_run() {
    local line n=0
    dynpipe watch --plain -j "$home" --interval 1 | while read -r line; do
        [[ $line != *' step '*' loss '* ]] || ((n++ % 5 == 0)) || continue
        printf '%s\n' "$line"
    done
}

# returns: has the urgent job taken a slice's GPU? On a busy machine promises are missed; then what is allowed is reckoned by
# the time of the wall, in which few slices do well here, and a run may shrink past two at once.
preempt() {
    until_true has_shrunk || return 1
    say "two slices are left, and A, B and C run. An urgent job wants a GPU; none is free, so Slurm takes one from a slice:"
    echo "           sbatch --gpus=1 --partition=urgent urgent.sh"
    note asked
    urgent=$(submit_urgent) || die "the urgent job was not accepted"
    until is_urgent_there; do
        ! job_over "$home" || return 1
        sleep 0.1
    done
    note began
    was_preempted
}

# One run, from its submission to its end. returns: preempt()'s answer; then the run has ended well.
run_slices() {
    local gpus watch rc=0 task job urgent=
    rm -f "$D"/{gpus,over,losses.jsonl} "$D"/urgent.*
    submit_run
    for ((task = 0; task < 600; task++)); do eight_run && break; sleep 0.1; done
    eight_run || die "the eight slices do not begin"
    home=$(task_job 0)
    echo "$home" >"$D/home"
    [ "$(squeue -h -j "$home" -o %P)" = sure ] || die "task 0 is not in partition sure"
    say "array $array: eight jobs of one GPU, slices 0 to 7, are one run of $n steps. As weights are pruned it gives GPUs back,"
    echo "           as long as it is at most 30 % slower than at the start. Slice 0 has a GPU for sure, the others spare ones."
    submit_others
    echo "           sbatch --gpus=2 other.sh"
    say "jobs A, B and C want two GPUs each, and have to wait."
    echo "           GPUs: who has each of them, a slice (0 to 7), another job (A, B, C, U) or nobody (-), as Slurm says."
    echo "           Lines that begin with 0:00:00 are dynpipe watch's, in the time of the run:"
    follow_gpus &
    gpus=$!
    until eight_have; do sleep 0.1; done
    watch_run &
    watch=$!
    preempt || rc=1
    [ $rc = 0 ] || scancel "$array"
    until job_over "$home"; do sleep 0.3; done
    echo "$EPOCHREALTIME" >"$D/over.at"
    touch "$D/over"
    wait $watch
    for job in "${others[@]}" $urgent; do until job_over "$job"; do sleep 0.1; done; done
    until [ "$(gpus_of -)" = 8 ]; do sleep 0.1; done
    kill $gpus
    wait $gpus 2>/dev/null
    [ $rc != 0 ] || [ "$(job_state "$home")" = COMPLETED ] || die "the run ended as $(job_state "$home")"
    return $rc
}

follow() {
    local alone
    alone &
    alone=$!
    run_slices || {
        say "this machine was so busy that the run did not stop at two slices. Once more:"
        until [ -z "$(squeue -h)" ]; do sleep 0.1; done
        run_slices
    } || die "the run did not stop at two slices again: is something else running here?"
    ! kill -0 $alone 2>/dev/null || say "waiting for the worker that trains alone: step $(steps_done "$D/alone.jsonl") of $n"
    wait $alone || die "one worker alone cannot train: $(tail -n 1 "$D/alone.out")"
}

alone() {
    "$build/worker/dynpipe-worker" --quiet "$here/etc/gpt-prune.conf" data.path="$text" $overrides pipeline.pin=false checkpoint.dir= \
        output.log="$D/alone.jsonl" output.tune="$D/tune.json" >"$D/alone.out" 2>&1
}
losses() { sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1"; }

# What became of the GPU-seconds between the moment when all eight trained and the end of the run.
account() {
    awk -v end="$1" '
        function until(t,   g) {
            if (before) for (g = 1; g <= 8; g++) had[was[g]] += t - before
        }
        $1 > end { next }
        !before { for (g = 2; g <= 9; g++) if ($g !~ /^[0-7]$/) next }
        { until($1); before = $1; if (!began) began = $1; for (g = 1; g <= 8; g++) was[g] = $(g + 1) }
        END {
            if (!began) exit
            until(end)
            all = 8 * (end - began)
            for (i = 0; i < 8; i++) run += had[i]
            printf "GPU-seconds:     of %.0f (eight GPUs for %.0f s) the run used %.0f and gave back %.0f, which is %.0f %%:\n", all, end - began, run, all - run, 100 * (all - run) / all
            printf "                 job A had %.0f of them, B %.0f, C %.0f, the urgent job %.0f, and nobody wanted %.0f\n", had["A"], had["B"], had["C"], had["U"], had["-"]
        }' "$D/gpus"
}

compare_losses() {
    losses "$D/losses.jsonl" >"$D/losses"
    losses "$D/alone.jsonl" >"$D/losses.alone"
    [ -s "$D/losses" ] || die "the run wrote no losses"
    cmp -s "$D/losses" "$D/losses.alone" ||
        die "the losses differ from those of one worker alone: $(diff "$D/losses" "$D/losses.alone" | sed -n '2s/^..//p; 4s/^../alone: /p' | tr '\n' ' ')"
}

tell_story() {
    local asked began last n
    confine_run
    choose_steps
    n=$(sed 's/.*train.steps=\([0-9]*\) .*/\1/' <<<"$overrides")
    say "one worker alone begins the $n steps of the run on a core of its own: its losses are compared at the end"
    as_child follow || exit 1
    read -r train <"$D/home"
    compare_losses
    tell_report "$train"
    read -r asked _ <"$D/urgent.asked"
    read -r began last <"$D/urgent.began"
    account "$(cat "$D/over.at")"
    awk -v a="$asked" -v b="$began" -v at="$last" -v n="$n" 'BEGIN {
        printf "The urgent job:  began %.1f s after it was submitted, as soon as a slice had handed its layers over; no step was lost,\n", b - a
        printf "                 and the other slice made the last %d of %d alone\n", n - at, n
    }'
    echo "Losses:          in all $n steps, to the last bit, those of one worker alone"
}
