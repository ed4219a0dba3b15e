# shellcheck shell=bash
# For the job that runs on a released node: look again and again for processes of the former job.
#
# observe JOB RESULT LOG: until LOG (the losses of the run) has not grown for 3 s, look at every process
# of this node for the former job's id; write one line to RESULT. Other private Slurms on the machine
# have a job and a node of that name too: SLURM_CONF tells them apart.
observe() {
    local job=$1 result=$2 log=$3 seen="" f size=-1 now grown_at=$EPOCHSECONDS
    while [ $((EPOCHSECONDS - grown_at)) -lt 3 ]; do
        while read -r f; do
            LC_ALL=C grep -qzxF "SLURMD_NODENAME=$SLURMD_NODENAME" "$f" 2>/dev/null &&
                LC_ALL=C grep -qzxF "SLURM_CONF=$SLURM_CONF" "$f" 2>/dev/null &&
                seen="$seen $(tr '\0' ' ' <"${f%environ}cmdline" 2>/dev/null)"
        done < <(LC_ALL=C grep -lzxF "SLURM_JOB_ID=$job" /proc/[0-9]*/environ 2>/dev/null)
        now=$(stat -c %s "$log")
        [ "$now" = "$size" ] || grown_at=$EPOCHSECONDS
        size=$now
        sleep 0.1
    done
    if [ -n "$seen" ]; then echo "seen on $SLURMD_NODENAME:$seen"; else
        echo "nothing of the run was seen on $SLURMD_NODENAME"
    fi >"$result"
}
