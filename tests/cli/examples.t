#!/bin/bash
# The sbatch examples, with srun, scontrol and scancel that only say what they were asked: a run that
# saved and stopped goes back into the queue, others do not, and a signal reaches the workers only.
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
tmp=$(mktemp -d) || bail "no temporary folder"
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
for c in scontrol scancel; do
    printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n' $c "$tmp" >"$tmp/bin/$c"
done
printf '#!/bin/sh\necho ${JOB_STATE:-RUNNING}\n' >"$tmp/bin/squeue"
# srun is over when told what it ends with; a SIGTERM would end it with 143.
cat >"$tmp/bin/srun" <<EOF
#!/bin/sh
echo "srun \$*" >>"$tmp/calls"
read -r status <"$tmp/end"
exit "\$status"
EOF
chmod +x "$tmp"/bin/*
mkfifo "$tmp/end"
export PATH="$tmp/bin:$PATH" SLURM_JOB_ID=77

# start SCRIPT ARG...: in the background; finish STATUS: srun ends with it.
start() {
    : >"$tmp/calls"
    "$DP_SRCDIR/etc/examples/$1" "${@:2}" >"$tmp/out" 2>&1 &
    pid=$!
}
finish() {
    echo "$1" >"$tmp/end"
    wait $pid
    rc=$?
}
has_call() { grep -q "^$1" "$tmp/calls"; }

start train.sh my.conf
finish 0
is $rc 0 "train.sh ends as the run does"
like "$(cat "$tmp/calls")" '^srun --mpi=pmix --no-kill --kill-on-bad-exit=0 dynpipe-worker my.conf$' "and starts the workers"

start resume.sh
finish 75
is $rc 0 "resume.sh: saved and stopped is no failure"
ok "$(has_call 'scontrol requeue 77'; echo $?)" "the job goes back into the queue"
like "$(grep '^srun' "$tmp/calls")" 'dynpipe-worker gpt-prune.conf checkpoint.dir=checkpoints-77 checkpoint.resume=auto$' "and will go on from its checkpoint"

start resume.sh
finish 0
is $rc 0 "a run that is complete"
ok "$(! has_call scontrol; echo $?)" "is not started again"

start resume.sh my.conf train.steps=5
finish 2
is $rc 2 "a run whose configuration is wrong"
ok "$(! has_call scontrol; echo $?)" "is not started again either"
like "$(grep '^srun' "$tmp/calls")" 'dynpipe-worker my.conf train.steps=5 checkpoint.dir=' "which it was told on the command line"

export CHECKPOINTS=$tmp/saved
start resume.sh
finish 137
ok "$(has_call 'scontrol requeue 77'; echo $?)" "a run that died goes back into the queue"
export SLURM_RESTART_COUNT=2
start resume.sh
finish 137
is $rc 137 "but ends when it failed three times without a checkpoint"
ok "$(! has_call scontrol; echo $?)" "for good"
mkdir -p "$CHECKPOINTS/step-00000010"
start resume.sh
wait_for 60 has_call srun
mkdir "$CHECKPOINTS/step-00000020"
finish 137
ok "$(has_call 'scontrol requeue 77'; echo $?)" "and one that got further has another try"
unset SLURM_RESTART_COUNT CHECKPOINTS

JOB_STATE=COMPLETING start resume.sh
finish 75
is $rc 75 "a job that was cancelled"
ok "$(! has_call scontrol; echo $?)" "is not started again either"

export SLURM_RESTART_COUNT=3 MAX_RESTARTS=3
start resume.sh
finish 75
is $rc 75 "not more often than MAX_RESTARTS"
unset SLURM_RESTART_COUNT MAX_RESTARTS

start resume.sh
wait_for 60 has_call srun
kill -TERM $pid
ok "$(wait_for 60 has_call 'scancel --signal=TERM 77'; echo $?)" "a SIGTERM is passed on to the workers"
ok "$(kill -0 $pid; echo $?)" "and the script waits for them"
finish 75
ok "$(has_call 'scontrol requeue 77'; echo $?)" "then the job goes back into the queue"
done_testing
