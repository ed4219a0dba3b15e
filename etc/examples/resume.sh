#!/bin/bash
# One run over many starts of one job. Before its time is over, or when it is preempted, the run saves and
# ends with 75; when a worker dies it ends with another status; either way the job goes back into the queue,
# and the next start goes on from the newest checkpoint. Slurm itself does that when a node dies, and DynPipe
# when the run makes no step for half an hour. A run that fails without a newer checkpoint gets three
# starts.
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
srun --mpi=pmix --no-kill --kill-on-bad-exit=0 dynpipe-worker "${@:-gpt-prune.conf}" \
    checkpoint.dir="$dir" checkpoint.resume=auto &
step=$!
wait "$step"
status=$?
while kill -0 "$step" 2>/dev/null; do # a signal ended that wait early
    wait "$step"
    status=$?
done

case $status in
    0 | "$EX_USAGE") exit "$status" ;;
    "$EX_TEMPFAIL") echo "saved and stopped at $(newest)" ;;
    *)
        echo "the run ended with $status; its newest checkpoint is $(newest)"
        [ "$(newest)" != "$before" ] || [ $((restarts + 1)) -lt "$MAX_FAILURES" ] || exit "$status"
        ;;
esac
[ "$restarts" -lt "$MAX_RESTARTS" ] || exit "$status"
# A job that was cancelled ends, and one that Slurm puts back itself needs no help: neither runs any more.
[ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" = RUNNING ] || exit "$status"
echo "back into the queue (start $((restarts + 2)))"
scontrol requeue "$SLURM_JOB_ID"
