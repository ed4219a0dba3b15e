# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
# What the end-to-end tests share: real text, a small model, a private Slurm with plugin and daemons.
# Source it first: . "${DP_SRCDIR:-...}/tests/e2e/lib.sh"

: "${DP_SRCDIR:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
# shellcheck source=tests/lib/cluster-test.sh
. "$DP_SRCDIR/tests/lib/cluster-test.sh"

worker=$DP_BUILDDIR/worker/dynpipe-worker
plugin=$DP_BUILDDIR/spank_plugin/spank_dynpipe.so
PATH=$DP_BUILDDIR/cli:$PATH
for p in "$worker" "$DP_BUILDDIR/cli/dynpipe" "$DP_BUILDDIR/daemon/dynpiped" "$plugin"; do
    [ -e "$p" ] || bail "$p is not built"
done
for p in bible jq; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done

bible -f Gen1:1-Rev22:21 >"$D/kjv.txt" || bail "cannot write the training text"
tune=$D/tune.json # one table for all runs of a test: dense or sparse is part of the bits

# Small enough for 2 cores, large enough that layers are worth moving.
model="model.blocks=6 model.channels=96 model.heads=4 model.context=48 train.batch=4 train.microbatches=4"

# No test may depend on how fast the machine is. So a run lasts until end_run ends it, and because its
# learning rate is constant and its pruning has steps of its own, it is the beginning of every longer run.
endless="train.steps=1000000000 train.lr=3e-3 train.min_lr=3e-3 data.eval_every=0"

# Twice the time of a step at the start is allowed: then three workers of four always do, pruned or not.
release="--dynpipe=release --dynpipe-min-gpus=2 --dynpipe-max-slowdown=50 --dynpipe-reference=start"

# run_cluster UP-OPTIONS: four nodes with plugin and daemons. What a move was promised to bring is measured for eight
# reports before a node is given up, and these runs have small steps. A test in which that is judged takes all cores before.
run_cluster() {
    take_core
    cluster_up --nodes 4 --gpus 1 --cpus 2 --daemon-key 'report_ms = 250;' \
        --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" "$@"
    export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock
}

# worker_command LOG OVERRIDES...: the command line of one training run.
worker_command() {
    local log=$1
    shift
    echo "$worker ${train_conf:-$DP_SRCDIR/etc/gpt-prune.conf} $model data.path=$D/kjv.txt output.tune=$tune output.log=$log checkpoint.dir= $*"
}

# The losses of a run, one "step loss" per line, every digit.
losses() { jq -r 'select(.step != null and .loss != null) | "\(.step) \(.loss)"' "$1"; }

# train_alone LOG OVERRIDES...: the same training with one worker and no Slurm: what every layout must equal. How long that takes
# is no matter, so it gets what others leave of the cores; it does not stay on one, which others' may have chosen, too.
train_alone() {
    local limit=900
    [ -z "${DP_CORES:-}" ] || limit=1800 # of a low priority
    # shellcheck disable=SC2046
    (cd "$D" && idly env -u SLURM_CONF -u DYNPIPE_SOCKET timeout $limit $(worker_command "$@" pipeline.pin=false) >"$1.out" 2>&1)
}

# alone LOG OVERRIDES...: the same when no job of this test runs any more, so the next test may begin. A test that starts
# another job behind it takes core or cores first.
alone() {
    leave_cores
    train_alone "$@"
}

# measure_table OVERRIDES...: before runs that begin at the same time. Where there is no table yet each of them measures one of its
# own, and on a busy machine these differ in what is sparse.
measure_table() {
    local last
    last=$(printf '%s\n' "$@" | sed -n 's/^prune\.end=//p' | tail -n 1)
    alone "$D/table.jsonl" "$@" train.steps="${last:-1}" || bail "no tuning table: $(tail -n 1 "$D/table.jsonl.out")"
}

# same_as_alone OVERRIDES... -- NAME...: every loss of these runs ($D/NAME.jsonl) is that of one worker
# alone, who trains at least as far as the longest of them went.
same_as_alone() {
    local options=() name most=0 n last
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    for name; do
        losses "$D/$name.jsonl" >"$D/$name.loss"
        n=$(wc -l <"$D/$name.loss")
        runs "$name: $n steps have a loss" test "$n" -gt 0
        [ "$n" -le "$most" ] || most=$n
    done
    # A slow machine's run may have been ended before its last pruning or freezing; no configuration ends there.
    last=$(printf '%s\n' "${options[@]}" | sed -n 's/^\(prune\|freeze\)\.end=//p' | sort -n | tail -n 1)
    [ "$most" -ge "${last:-0}" ] || most=$last
    alone "$D/alone.jsonl" "${options[@]}" train.steps="$most"
    ok $? "one worker alone trains as far"
    losses "$D/alone.jsonl" >"$D/alone.loss"
    for name; do
        runs "$name: every loss is bit for bit that of one worker alone" \
            cmp <(head -n "$(wc -l <"$D/$name.loss")" "$D/alone.loss") "$D/$name.loss"
    done
}

# each_step_once NAME: where a worker was lost steps are made again: with the same losses, and none is missing. Leaves NAME-whole.jsonl.
each_step_once() {
    jq -c 'select(.loss != null)' "$D/$1.jsonl" | jq -sc 'group_by(.step)' >"$D/$1.steps"
    is "$(jq 'map(select((map(.loss) | unique | length) > 1)) | length' "$D/$1.steps")" 0 "$1: no step has two losses"
    is "$(jq length "$D/$1.steps")" "$(jq '.[-1][0].step' "$D/$1.steps")" "$1: and none is missing"
    jq -c '.[] | .[0]' "$D/$1.steps" >"$D/$1-whole.jsonl"
}

# submit NAME SBATCH-OPTIONS -- LOG OVERRIDES...: a run of four workers; prints the job id. The job has
# completed when its last step is done (0), or when it was asked to stop (75).
submit() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X
#!/bin/bash
srun $mpi --no-kill --kill-on-bad-exit=0 -n 4 $(worker_command "$@") || [ \$? = 75 ]
X
    sbatch --parsable -J "$name" -N4 --gpus-per-node=1 --exclusive -o "$D/$name.out" "${options[@]}" "$D/$name.sh"
}

# end_run JOB NAME: ask the workers to stop, as a user does.
end_run() {
    scancel --signal=TERM "$1"
    wait_for 120 job_ended "$1"
    is "$(job_state "$1")" COMPLETED "$2: the run ends well when it is asked to"
    is "$(grep -i 'exit code' "$D/$2.out" | grep -v 'exit code 75')" "" "$2: no worker fails"
}

# status JOB FILTER: one value of the run in `dynpipe status --json`.
status() { timeout 10 dynpipe status -j "$1" --json 2>/dev/null | jq -r ".run | $2" 2>/dev/null; }
steps_done() { [ -s "$1" ] && [ "$(tail -n 1 "$1" | jq -r .step 2>/dev/null || echo 0)" -ge "$2" ] 2>/dev/null; }
# makes_steps NAME [STEPS]: so many more (20) of $D/NAME.jsonl within a minute?
makes_steps() {
    local before
    before=$(tail -n 1 "$D/$1.jsonl" | jq -r .step)
    wait_for 60 steps_done "$D/$1.jsonl" $((before + ${2:-20}))
}
holders() { status "$1" .layout.text | tr '|' '\n' | grep -c '[0-9]'; } # JOB: workers with layers
holders_are() { [ "$(holders "$1")" = "$2" ]; }
job_nodes() { scontrol show job "$1" | sed -n 's/ *NumNodes=\([0-9]*\).*/\1/p'; }
nodes_fewer() { [ "$(job_nodes "$1")" -lt "$2" ] 2>/dev/null; }

# shellcheck source=tests/lib/lose-node.sh
. "$DP_SRCDIR/tests/lib/lose-node.sh"
