#!/bin/bash
# etc/examples/resume.sh, with Slurm's commands played: which end of a run puts the job back into the queue.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # tmp comes from lib.sh
mkdir "$tmp/bin" "$tmp/saved"
cat >"$tmp/bin/srun" <<'Y'
#!/bin/bash
[ ! -s "$tmp/saves" ] || mkdir -p "$CHECKPOINTS/step-$(cat "$tmp/saves")"
exit "$(cat "$tmp/status")"
Y
cat >"$tmp/bin/scontrol" <<'Y'
#!/bin/bash
case $1 in
    requeue) echo "$2" >>"$tmp/requeued" ;;
    *) echo "JobId=7 JobName=x JobState=$(cat "$tmp/state") Reason=None Requeue=1 Restarts=$(cat "$tmp/restarts") BatchFlag=1" ;;
esac
Y
cat >"$tmp/bin/squeue" <<'Y'
#!/bin/bash
case $* in *%T*) cat "$tmp/state" ;; *) echo 2030-01-01T00:00:00 ;; esac
Y
chmod +x "$tmp/bin"/*
export tmp CHECKPOINTS=$tmp/saved SLURM_JOB_ID=7
PATH=$tmp/bin:$PATH
# start STATUS [SAVES]: one start that ends so, after it has written that checkpoint; asked is whether it was put back.
start() {
    echo "$1" >"$tmp/status"
    echo "${2:-}" | sed '/^$/d' >"$tmp/saves"
    echo RUNNING >"$tmp/state"
    echo "${now:-$count}" >"$tmp/restarts"
    : >"$tmp/requeued"
    SLURM_RESTART_COUNT=$count bash "$DP_SRCDIR/etc/examples/resume.sh" x.conf >"$tmp/out" 2>&1
    rc=$?
    asked=$(cat "$tmp/requeued")
    count=$((count + 1))
}
count=0
start 0
is "$rc,$asked" "0," "a run that has completed is over"
start 2
is "$rc,$asked" "2," "a wrong configuration is not tried again"
start 75 0010
is "$rc,$asked" "0,7" "saved and stopped: back into the queue"
for i in 0020 0030 0040 0050; do
    start 137 $i
    is "$rc,$asked" "0,7" "a worker dies after checkpoint $i: back into the queue"
done
# The job was put back seven times by now; that it fails once without a newer checkpoint is the first time.
start 137
is "$rc,$asked" "0,7" "it fails without a newer checkpoint: once more"
start 137
is "$rc,$asked" "0,7" "twice in a row: once more"
start 137 0060
is "$rc,$asked" "0,7" "it comes further: that counts anew"
start 137
start 137
is "$rc,$asked" "0,7" "fails, and fails"
start 137
is "$rc,$asked" "137," "three times in a row: it gives up"
rm -f "$tmp/saved"/failures-7
now=$((count + 1))
start 137 0070
is "$rc,$asked" "137," "the job runs as another start meanwhile: this script was left behind, and puts nothing back"
done_testing
