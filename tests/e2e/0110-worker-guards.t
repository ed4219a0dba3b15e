#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What one worker does where its surroundings are wrong: a cache that cannot be written, a text that is
# cut short while it is read, tasks that do not know of each other, cores that others want, a checkpoint
# directory that another run uses. No Slurm, no mpirun, no root.
. "${DP_SRCDIR:?}/tests/lib/tap.sh"
. "${DP_SRCDIR:?}/tests/lib/cores.sh"

worker=$DP_BUILDDIR/worker/dynpipe-worker
dir=$(mktemp -d "${TMPDIR:-/tmp}/dpe2eXXXXXX") || bail "no temporary folder"
pids=
# shellcheck disable=SC2086 # a list
cleanup() { end_processes $pids; rm -rf "$dir"; }
trap 'case $BASHPID in $$) cleanup ;; esac' EXIT
take_cores
unset DYNPIPE_SOCKET XDG_CACHE_HOME "${!SLURM_@}"

cat "$DP_SRCDIR"/common/*.[ch] "$DP_SRCDIR"/common/*/*.[ch] >"$dir/text.txt"
cat >"$dir/gpt.conf" <<EOF
model: { blocks = 1; channels = 32; heads = 4; context = 32; };
train: { steps = 6; batch = 2; microbatches = 2; warmup = 1; };
data: { path = "$dir/text.txt"; eval_every = 3; eval_batches = 2; };
prune: { begin = 2; end = 5; every = 1; };
checkpoint: { resume = "none"; };
output: { tune = "$dir/tune.json"; every = 1; };
EOF
# A run that lasts until something happens to it.
long="train.steps=1000000000 prune.begin=0 prune.end=0"

# train LOG [override ...]
train() {
    local log=$dir/$1.out
    shift
    timeout -k 1 300 "$worker" "$dir/gpt.conf" "$@" >"$log" 2>&1
}
said() { cat "$dir/$1.out"; }
losses() { said "$1" | sed -n 's/.*\(loss .* sparsity [0-9.]*\).*/\1/p'; }
has_step() { grep -q "^step $2/" "$dir/$1.out"; }

# start LOG [override ...]: in the background, as $run
start() {
    local log=$dir/$1.out
    shift
    "$worker" "$dir/gpt.conf" "$@" >"$log" 2>&1 &
    run=$!
    pids="$pids $run"
}

# ---- the table of dense or sparse ------------------------------------------------------------------

for cache in "XDG_CACHE_HOME=/dev/null" "HOME=/proc" "HOME="; do
    env "$cache" timeout -k 1 300 "$worker" "$dir/gpt.conf" output.tune= >"$dir/cache.out" 2>&1
    is "$?" 0 "$cache: the run ends well"
    like "$(said cache)" "warning: dense-or-sparse table not kept: .*losses may differ" "and says what is lost"
done
train kept
is "$?" 0 "a file that can be written"
unlike "$(said kept)" "warning" "is no reason to warn"
runs "and it is there" test -s "$dir/tune.json"
train again
is "$(losses again)" "$(losses kept)" "with the table: the same losses again"
before=$(stat -c %i "$dir/tune.json")
train complete
is "$(stat -c %i "$dir/tune.json")" "$before" "a table that has all shapes is not written again"
echo "{" >"$dir/damaged.json"
train damaged output.tune="$dir/damaged.json"
is "$?" 1 "a damaged table is an error"
like "$(said damaged)" "damaged.json" "that names it"

start first output.tune="$dir/shared.json"
one=$run
start second output.tune="$dir/shared.json"
wait "$one"
is "$?" 0 "two first runs at the same time: one ends well"
wait "$run"
is "$?" 0 "and the other"
is "$(echo "$dir"/shared.json*)" "$dir/shared.json" "no temporary file is left"
train third output.tune="$dir/shared.json"
is "$?" 0 "and the table can be read"

# ---- a full disk ----------------------------------------------------------------------------------------

if [ -c /dev/full ]; then
    ln -s /dev/full "$dir/trace.0"
    train full output.log=/dev/full output.trace="$dir/trace"
    is "$?" 0 "a full disk behind the log does not end a run"
    is "$(grep -c "warning: output.log: /dev/full: No space left on device; steps are missing there" "$dir/full.out")" 1 \
        "and is told once"
    is "$(grep -c "warning: output.trace: No space left on device; windows are missing there" "$dir/full.out")" 1 "so for the trace"
    is "$(losses full)" "$(losses kept)" "the losses are the same"
else
    skip "a full disk" "no /dev/full"
fi

# The disk of the checkpoints is full when the run is told to stop: a limit on the size of files does the same.
if command -v prlimit >/dev/null; then
    trap '' XFSZ # inherited: writing beyond the limit is an error then, no signal
    # shellcheck disable=SC2086
    start nospace checkpoint.dir="$dir/nospace" output.every=1000000 $long
    trap - XFSZ
    wait_for 120 has_step nospace 1 || bail "the run does not get to step 1"
    kill -USR1 "$run"
    has_saved() { grep -q "saved: $dir/nospace/step-" "$dir/nospace.out"; }
    wait_for 120 has_saved || bail "the run does not save"
    saved=$(echo "$dir"/nospace/step-*)
    prlimit --fsize=40000 --pid "$run"
    kill -USR1 "$run"
    has_warned() { grep -q "warning: checkpoint at step" "$dir/nospace.out"; }
    wait_for 120 has_warned
    ok $? "a checkpoint that cannot be written is a warning while the run goes on"
    is "$(echo "$dir"/nospace/step-*)" "$saved" "and leaves what was there, and nothing else"
    kill -TERM "$run"
    wait "$run"
    is "$?" 1 "as the last one it is an error"
    like "$(said nospace)" "error: checkpoint at step [0-9]*: $dir/nospace/step-.*: File too large" "that names the file and the reason"
    is "$(echo "$dir"/nospace/step-*)" "$saved" "and the older checkpoint is whole"
else
    skip "checkpoints on a full disk" "no prlimit"
fi

# ---- the text ----------------------------------------------------------------------------------------

cp "$dir/text.txt" "$dir/short.txt"
# shellcheck disable=SC2086 # several overrides
start short data.path="$dir/short.txt" $long
wait_for 120 has_step short 3 || bail "the run does not get to step 3"
truncate -s 5000 "$dir/short.txt"
wait "$run"
is "$?" 1 "a text that is cut short ends the run"
like "$(said short)" "short.txt: cut short while the run used it" "which is said, with its name"

# A small vocabulary makes the worker look at every byte first: time enough to cut the text meanwhile. (Were
# it not, the run would read there later.)
truncate -s 2G "$dir/sparse.txt"
# shellcheck disable=SC2086 # several overrides
start sparse data.path="$dir/sparse.txt" model.vocabulary=100 $long
is_mapped() { grep -q sparse.txt "/proc/$run/maps"; }
wait_for 120 is_mapped || bail "the text is not mapped: $(said sparse)"
truncate -s 4096 "$dir/sparse.txt"
wait "$run"
is "$?" 1 "cut short in the middle of a read"
like "$(said sparse)" "sparse.txt: cut short while the run used it" "is no crash either"

# ---- what is looked for before anything is computed ---------------------------------------------------

# checks NAME WANT [override ...]: --check-config refuses it, and so does a run, before it measures anything.
checks() {
    local name=$1 want=$2
    shift 2
    is "$("$worker" --check-config "$dir/gpt.conf" "$@" 2>"$dir/check.out"; echo $?)" 2 "--check-config refuses $name"
    like "$(said check)" "$want" "and says why"
    train early output.tune="$dir/none/tune.json" "$@"
    isnt "$?" 0 "so does a run"
    like "$(said early)" "$want" "with the same words"
    unlike "$(said early)" "table not kept" "before it measures kernels"
}
head -c 20 "$dir/text.txt" >"$dir/tiny.txt"
checks "a text that is not there" "$dir/nowhere.txt: No such file" data.path="$dir/nowhere.txt"
checks "a text that is too short" "$dir/tiny.txt: too short" data.path="$dir/tiny.txt"
checks "a folder without a log" "output.log: $dir/none: No such file" output.log="$dir/none/log.jsonl"
checks "a folder instead of a trace" "output.trace: $dir/none: No such file" output.trace="$dir/none/trace"
checks "checkpoints under a file" "checkpoint.dir: $dir/text.txt: Not a directory" checkpoint.dir="$dir/text.txt"
is "$("$worker" --check-config "$dir/gpt.conf" pipeline.layout=0-7 2>&1; echo $?)" \
    "dynpipe-worker: $(train layout pipeline.layout=0-7; said layout | sed 's/.*error: //')
2" "--check-config refuses a layout that fits no number of workers"
is "$("$worker" --check-config "$dir/gpt.conf" pipeline.layout='0|1-2')" "configuration is fine" "and takes one that fits some"

train whole checkpoint.dir="$dir/whole"
is "$("$worker" --check-config "$dir/gpt.conf" checkpoint.dir="$dir/whole" checkpoint.resume=auto train.steps=8)" \
    "configuration is fine; it goes on from step 6 of 8" "--check-config looks at the checkpoint, too"
like "$("$worker" --check-config "$dir/gpt.conf" checkpoint.dir="$dir/whole" checkpoint.resume=auto model.channels=64 2>&1)" \
    "manifest.json: .*channels" "also whether the model is still that of the checkpoint"
train finished checkpoint.dir="$dir/whole" checkpoint.resume=auto
is "$?" 0 "a run that is complete, started again"
like "$(said finished)" "complete: nothing is left to train: this checkpoint is of step 6, train.steps is 6; a larger train.steps goes on" \
    "says so, and how to go on"

# ---- tasks that do not know of each other ------------------------------------------------------------

SLURM_STEP_NUM_TASKS=2 train tasks
is "$?" 1 "two tasks of a step without PMIx are refused"
like "$(said tasks)" "srun --mpi=pmix" "with the right command"
SLURM_NTASKS=2 train tasks
is "$?" 1 "a worker without srun in a job of two tasks is refused"
like "$(said tasks)" "srun --mpi=pmix" "with the right command"
SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=1 train tasks
is "$?" 0 "srun -n 1 in such a job is fine"

# ---- threads that wait do not keep their cores ---------------------------------------------------------

# spins NAME: GOMP_SPINCOUNT of a run of two threads, into NAME.spins
spins() {
    local name=$1
    shift
    # shellcheck disable=SC2086
    start "$name" pipeline.threads=2 checkpoint.dir= $long
    wait_for 120 has_step "$name" 2 || bail "the run of two threads does not get to step 2"
    tr '\0' '\n' <"/proc/$run/environ" | sed -n 's/^GOMP_SPINCOUNT=//p' >"$dir/$name.spins"
    kill -9 "$run"
    wait "$run" 2>/dev/null
}
spins brief
is "$(cat "$dir/brief.spins")" 2000 "OpenMP's threads are told to sleep soon"
GOMP_SPINCOUNT=77 spins own
is "$(cat "$dir/own.spins")" 77 "unless the user has said how long"
OMP_WAIT_POLICY=active spins policy
is "$(cat "$dir/policy.spins")" "" "in either way"

# ---- one run per checkpoint directory ----------------------------------------------------------------

# shellcheck disable=SC2086
start holder checkpoint.dir="$dir/ck" $long
wait_for 120 has_step holder 2 || bail "the run does not get to step 2"
train intruder checkpoint.dir="$dir/ck"
is "$?" 1 "a second run in the same directory is refused"
like "$(said intruder)" "$dir/ck is in use by another run \(process $run on " "and told who is there"
kill -TERM "$run"
wait "$run"
is "$?" 75 "the first one goes on, until it is stopped"
like "$(said holder)" "saved: $dir/ck/step-" "and saves"
last=$(said holder | sed -n 's/.*saved: .*step-0*\([1-9][0-9]*\)$/\1/p' | tail -n 1)
train next checkpoint.dir="$dir/ck" checkpoint.resume=auto train.steps=$((last + 2)) prune.begin=0 prune.end=0
is "$?" 0 "then the directory is free"
like "$(said next)" "resumed: $dir/ck/step-" "and has the checkpoint"
train nowhere checkpoint.dir=/proc/ck
is "$?" 1 "a directory that cannot be made is an error at the start"
like "$(said nowhere)" "checkpoint.dir /proc/ck: " "and named"

done_testing
