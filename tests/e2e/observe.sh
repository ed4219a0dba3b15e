# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the job that runs on a released node: look again and again for processes of the former job.
#
# observe JOB RESULT: as long as Slurm says that the former job runs, look at every process of this node
# for its id; write one line to RESULT. Other private Slurms on the machine have a job and a node of that
# name too: SLURM_CONF tells them apart.
observe() {
    local job=$1 result=$2 seen="" f state=RUNNING
    while [ "$state" = RUNNING ]; do
        while read -r f; do
            LC_ALL=C grep -qzxF "SLURMD_NODENAME=$SLURMD_NODENAME" "$f" 2>/dev/null &&
                LC_ALL=C grep -qzxF "SLURM_CONF=$SLURM_CONF" "$f" 2>/dev/null &&
                seen="$seen $(tr '\0' ' ' <"${f%environ}cmdline" 2>/dev/null)"
        done < <(LC_ALL=C grep -lzxF "SLURM_JOB_ID=$job" /proc/[0-9]*/environ 2>/dev/null)
        sleep 0.1
        state=$(squeue -h -j "$job" -o %T) || state=RUNNING # no answer
    done
    if [ -n "$seen" ]; then echo "seen on $SLURMD_NODENAME:$seen"; else
        echo "nothing of the run was seen on $SLURMD_NODENAME"
    fi >"$result"
}
