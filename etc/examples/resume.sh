#!/bin/bash
# One run over many jobs: two minutes before its time is over (or when it is preempted) the run saves
# and ends with 75, and the job goes back into the queue; the next start goes on from the newest valid
# checkpoint. The run's configuration needs checkpoint.dir and checkpoint.resume = "auto".
#
#   sbatch resume.sh [RUN.conf]
#
#SBATCH --job-name=dynpipe-resume
#SBATCH --nodes=4 --ntasks-per-node=1 --exclusive --time=01:00:00
#SBATCH --no-kill --requeue --open-mode=append
#SBATCH --signal=TERM@120
#SBATCH --dynpipe=release

EX_TEMPFAIL=75
MAX_RESTARTS=${MAX_RESTARTS:-100}

# --signal tells the workers; a preemption or `scancel --full` may tell this script too. It passes that
# on to the workers (not to srun, which would kill them) and outlives them.
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM
srun --mpi=pmix --no-kill --kill-on-bad-exit=0 dynpipe-worker "${1:-gpt-prune.conf}" checkpoint.resume=auto &
step=$!
wait "$step"
status=$?
while kill -0 "$step" 2>/dev/null; do # a signal ended that wait early
    wait "$step"
    status=$?
done

if [ "$status" -eq "$EX_TEMPFAIL" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "$MAX_RESTARTS" ]; then
    echo "saved and stopped; back into the queue (start $((${SLURM_RESTART_COUNT:-0} + 1)))"
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
fi
exit "$status"
