#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The sbatch examples, with Slurm's commands played: how the workers are started, which end of a run puts the
# job back into the queue, and that a signal reaches the workers only.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # tmp comes from lib.sh
mkdir "$tmp/bin" "$tmp/saved"
mkfifo "$tmp/end"
# srun is over when told its status; a SIGTERM would end it with 143.
cat >"$tmp/bin/srun" <<'Y'
#!/bin/sh
echo "srun $*" >>"$tmp/calls"
read -r status <"$tmp/end"
exit "$status"
Y
cat >"$tmp/bin/scontrol" <<'Y'
#!/bin/sh
case $* in
    '-o show job 77') echo "JobId=77 JobName=x JobState=${PLAYED_STATE:-RUNNING} Reason=None Requeue=1 Restarts=${PLAYED_RESTARTS:-0} BatchFlag=1" ;;
    *) echo "scontrol $*" >>"$tmp/calls" ;;
esac
Y
cat >"$tmp/bin/scancel" <<'Y'
#!/bin/sh
echo "scancel $*" >>"$tmp/calls"
Y
cat >"$tmp/bin/squeue" <<'Y'
#!/bin/sh
echo 2030-01-01T00:00:00
Y
chmod +x "$tmp"/bin/*
export tmp PATH="$tmp/bin:$PATH" SLURM_JOB_ID=77

# start SCRIPT ARG...: in the background; finish STATUS [CHECKPOINT]: srun ends with it, after it has saved.
start() {
    : >"$tmp/calls"
    "$DP_SRCDIR/etc/examples/$1" "${@:2}" >"$tmp/out" 2>&1 &
    pid=$!
}
finish() {
    wait_for 60 has_call srun
    [ -z "${2:-}" ] || mkdir -p "$CHECKPOINTS/step-$2"
    echo "$1" >"$tmp/end"
    wait $pid
    rc=$?
}
has_call() { grep -q "^$1" "$tmp/calls"; }
requeued() { has_call 'scontrol requeue 77' && echo requeued; }

start train.sh my.conf
finish 0
is $rc 0 "train.sh ends as the run does"
like "$(cat "$tmp/calls")" '^srun --no-kill --kill-on-bad-exit=0 dynpipe-worker my.conf$' "and starts the workers"

cd "$tmp" || bail "no $tmp"
start resume.sh
finish 75
is "$rc $(requeued)" "0 requeued" "resume.sh: a run that saved and stopped goes back into the queue"
like "$(grep '^srun' "$tmp/calls")" 'dynpipe-worker gpt-prune.conf checkpoint.dir=checkpoints-77 checkpoint.resume=auto$' "and will go on from its checkpoint"
export CHECKPOINTS=$tmp/saved
start resume.sh
finish 0
is "$rc $(requeued)" "0 " "a run that is complete does not"
start resume.sh my.conf train.steps=5
finish 2
is "$rc $(requeued)" "2 " "nor one whose configuration is wrong"
like "$(grep '^srun' "$tmp/calls")" 'dynpipe-worker my.conf train.steps=5 checkpoint.dir=' "which it was told on the command line"

# again WHAT STATUS [CHECKPOINT]: one more start of the same job.
restarts=0
again() {
    start resume.sh x.conf
    finish "$2" "${3:-}"
    is "$rc $(requeued)" "$1" "start $((restarts + 1)): ends with $2, checkpoint ${3:-as before}"
    restarts=$((restarts + 1))
    export SLURM_RESTART_COUNT=$restarts PLAYED_RESTARTS=$restarts
}
again "0 requeued" 75 0010
for i in 0020 0030 0040 0050; do again "0 requeued" 137 $i; done
# By now the job was put back often; that it fails without a newer checkpoint is the first time.
again "0 requeued" 137
again "0 requeued" 137
again "0 requeued" 137 0060
again "0 requeued" 137
again "0 requeued" 137
again "137 " 137

start resume.sh
finish 137 0070
is "$rc $(requeued)" "0 requeued" "a newer checkpoint counts anew"
PLAYED_STATE=COMPLETING start resume.sh
finish 75 0080
is "$rc $(requeued)" "75 " "a job that was cancelled is not put back"
PLAYED_RESTARTS=$((restarts + 1)) start resume.sh
finish 75 0090
is "$rc $(requeued)" "75 " "nor by a script that was left behind: the job runs as another start"
MAX_RESTARTS=$restarts start resume.sh
finish 75 0100
is "$rc $(requeued)" "75 " "nor more often than MAX_RESTARTS"

start resume.sh
wait_for 60 has_call srun
kill -TERM $pid
ok "$(wait_for 60 has_call 'scancel --signal=TERM 77'; echo $?)" "a SIGTERM is passed on to the workers"
ok "$(kill -0 $pid; echo $?)" "and the script waits for them"
finish 75 0110
is "$rc $(requeued)" "0 requeued" "then the job goes back into the queue"
done_testing
