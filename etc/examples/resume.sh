#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One run over many starts of one job. Before its time is over, or when it is preempted, the run saves and
# ends with 75; when workers die and the others cannot go on it ends with another status; either way the job goes
# back into the queue, and the next start goes on from the newest checkpoint. Slurm itself does that when a node
# dies, and DynPipe when the run makes no step for half an hour. It gives up when three starts in a row
# (MAX_FAILURES) fail without a newer checkpoint.
#
#   sbatch resume.sh [RUN.conf [section.key=value ...]]
#
# Checkpoints go into CHECKPOINTS, or a folder that is named after the job.
#
#SBATCH --job-name=dynpipe-resume
#SBATCH --nodes=4 --ntasks-per-node=1 --exclusive --time=01:00:00
#SBATCH --requeue --open-mode=append
#SBATCH --dynpipe=release --dynpipe-stall-end=30

EX_USAGE=2
EX_TEMPFAIL=75
MAX_RESTARTS=${MAX_RESTARTS:-100}
MAX_FAILURES=${MAX_FAILURES:-3}
dir=${CHECKPOINTS:-checkpoints-$SLURM_JOB_ID}
restarts=${SLURM_RESTART_COUNT:-0}

newest() { printf '%s\n' "$dir"/step-*[0-9] | tail -n 1; }

# The daemon tells the run when its time is over. Where there is none the environment does, in newer Slurms.
[ -n "${SLURM_JOB_END_TIME:-}" ] ||
    SLURM_JOB_END_TIME=$(date -d "$(squeue -h -j "$SLURM_JOB_ID" -o %e)" +%s 2>/dev/null)
export SLURM_JOB_END_TIME

# At the end of its time and in a preemption Slurm tells this script too. It passes that on to the workers
# (not to srun, which would kill them) and outlives them.
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM
before=$(newest)
srun --no-kill --kill-on-bad-exit=0 dynpipe-worker "${@:-gpt-prune.conf}" \
    checkpoint.dir="$dir" checkpoint.resume=auto &
step=$!
wait "$step"
status=$?
while kill -0 "$step" 2>/dev/null; do # a signal ended that wait early
    wait "$step"
    status=$?
done

# Starts in a row that came to nothing: restarts for other reasons, a node's death say, do not count.
count=$dir/failures-$SLURM_JOB_ID
case $status in
    0 | "$EX_USAGE") exit "$status" ;;
    "$EX_TEMPFAIL") echo "saved and stopped at $(newest)" ;;
    *) echo "the run ended with $status; its newest checkpoint is $(newest)" ;;
esac
if [ "$status" = "$EX_TEMPFAIL" ] || [ "$(newest)" != "$before" ]; then
    rm -f "$count"
else
    failures=$(($(cat "$count" 2>/dev/null) + 1))
    mkdir -p "$dir" && echo $failures >"$count"
    [ $failures -lt "$MAX_FAILURES" ] || exit "$status"
fi
[ "$restarts" -lt "$MAX_RESTARTS" ] || exit "$status"
# A job that was cancelled ends, and one that Slurm puts back itself needs no help: neither runs any more, or it
# runs already as another start, where this script was left behind on a node that Slurm has given up.
is_ours() {
    case " $(scontrol -o show job "$SLURM_JOB_ID") " in
        *" JobState=RUNNING "*" Restarts=$restarts "* | *" Restarts=$restarts "*" JobState=RUNNING "*) ;;
        *) return 1 ;;
    esac
}
is_ours || exit "$status"
echo "back into the queue (start $((restarts + 2)))"
scontrol requeue "$SLURM_JOB_ID"
