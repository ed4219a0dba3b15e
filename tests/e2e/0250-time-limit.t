#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The end of a job's time, however it comes: the time limit, told by the daemon before it or by Slurm's two
# SIGTERMs at it, a preemption, --signal, scancel. Each run leaves a checkpoint of its last step, and all
# their steps together have the losses of one undisturbed run. They run side by side: slurmctld looks at
# time limits every half a minute only. Beside them a run that cannot begin: one of its tasks dies first.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=80 prune.every=20"
run_cluster --nodes 6 --daemon-key 'poll_s = 1.0;' --conf KillWait=60 \
    --conf PreemptType=preempt/partition_prio --conf PreemptMode=CANCEL \
    --conf 'PartitionName=low Nodes=n4 PriorityTier=1 PreemptMode=CANCEL GraceTime=40 MaxTime=INFINITE' \
    --conf 'PartitionName=high Nodes=n4 PriorityTier=9 MaxTime=INFINITE'

measure_table $run

# one NAME SBATCH-OPTIONS -- OVERRIDES...: a run of two workers on one node; prints the job id. What the
# workers ended with is in NAME.out.
one() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X
#!/bin/bash
srun $mpi -n 2 $(worker_command "$D/$name.jsonl" $run checkpoint.dir="$D/$name.saved" "$@")
echo "workers ended with \$?"
X
    sbatch --parsable -J "$name" -N1 -n2 -o "$D/$name.out" "${served[@]}" "${options[@]}" "$D/$name.sh"
}
# Without PMIx the workers of a step meet by the daemons, which a job with --dynpipe has.
served=()
[ -n "$mpi" ] || served=(--dynpipe=observe)
# A task that ends before it is a worker; what is left waits for it in PMIx's fence.
cat >"$D/missing.task" <<X
#!/bin/bash
[ "\$SLURMD_NODENAME" != n6 ] || exit 3
exec $(worker_command "$D/missing.jsonl" $run)
X
chmod +x "$D/missing.task"
missing=$(sbatch --parsable "${served[@]}" -N2 -n2 -w n5,n6 -o "$D/missing.out" --export=ALL,DYNPIPE_WIREUP_S=10 \
    --wrap "srun $mpi --no-kill --kill-on-bad-exit=0 $D/missing.task")

trains() { steps_done "$D/$1.jsonl" 5; }
steps_of() { losses "$D/$1.jsonl" | wc -l; }
newest() { find "$D/$1.saved" -maxdepth 1 -name 'step-*[0-9]' | sed 's/.*step-0*//' | sort -n | tail -n 1; }
# set_end JOB SECONDS: scontrol's TimeLimit is whole minutes; EndTime is the same limit by the second.
set_end() { scontrol update JobId="$1" EndTime="$(date -d "+$2 seconds" +%Y-%m-%dT%H:%M:%S)"; }
# has_saved NAME HOW: the run ended with a checkpoint of its last step.
has_saved() {
    like "$(cat "$D/$1.out")" "stopped: $2, after saving" "$1: the run says how it ended"
    is "$(newest "$1")" "$(steps_of "$1")" "$1: the checkpoint is that of the last step"
}

# Told by the daemon; and where none is told, or the run does not want to stop early, by Slurm.
limit=$(one limit -w n1 --time=30 --dynpipe=balance --)
signals=$(one signals -w n2 --time=30 --dynpipe=balance -- checkpoint.before_limit_s=0)
ahead=$(one ahead -w n3 --time=30 --signal=TERM@30 --)
low=$(one low -p low --)
for name in limit signals ahead low; do
    wait_for 120 trains $name
    ok $? "$name: trains"
done

high=$(sbatch --parsable -p high -N1 --exclusive -o "$D/high.out" --wrap "date +%s >$D/high.began")
# The limit is moved while the job runs: what counts is what Slurm says now.
set_end "$limit" 30
set_end "$signals" 1
set_end "$ahead" 40
wait_for 150 job_ended "$limit"
is "$(job_state "$limit")" COMPLETED "limit: the job ends by itself, before its time is over"
like "$(cat "$D/limit.out")" "workers ended with 75" "limit: with status 75, so a batch script can go on"
has_saved limit "before the job's time is over"
unlike "$(cat "$D/limit.out")" "TIME LIMIT" "limit: Slurm had no need to end it"

wait_for 150 job_ended "$signals"
is "$(job_state "$signals")" TIMEOUT "signals: Slurm ends the job at its limit"
has_saved signals "by a signal"
like "$(cat "$D/signals.out")" "DUE TO TIME LIMIT" "signals: by its limit"

wait_for 150 job_ended "$ahead"
is "$(job_state "$ahead")" COMPLETED "ahead: --signal=TERM lets the run save and stop before its limit"
has_saved ahead "by a signal"

wait_for 150 job_ended "$high"
has_saved low "by a signal"
like "$(cat "$D/low.out")" "workers ended with 75" "low: its workers end by themselves"
# What Slurm 24.11 calls PREEMPTED is COMPLETED in 22.05, where it was not killed.
like "$(job_state "$low")" '^(COMPLETED|PREEMPTED)$' "low: within the GraceTime of its preemption"
is "$(job_state "$high")" COMPLETED "low: and its node went on to the next job"

wait_for 150 job_ended "$missing"
is "$(job_state "$missing")" FAILED "missing: a run whose task dies before it has met the others is ended"
like "$(cat "$D/missing.out")" "worker 0 of 2: nothing heard from worker 1 on n6 in [0-9]+ s" "missing: who is missing, and where, is said"
is "$(grep -c "nothing heard from" "$D/missing.out")" 1 "missing: once"
hanging=$(sbatch --parsable "${served[@]}" -N2 -n2 -w n5,n6 -o "$D/hanging.out" \
    --wrap "srun $mpi --no-kill --kill-on-bad-exit=0 $D/missing.task")
is_waiting() { [ -n "$(workers_on "$hanging" n5)" ]; }
wait_for 60 is_waiting
scancel --signal=TERM "$hanging"
wait_for 60 job_ended "$hanging"
ok $? "missing: SIGTERM ends a worker that waits for the others, at once"

# A configuration that one node does not have: its worker is the only one to know, and worker 0 says it.
sed "s|exit 3|set -- none.conf|; s|exec \([^ ]*\) [^ ]*|exec \1 \${1:-$DP_SRCDIR/etc/gpt-prune.conf}|" "$D/missing.task" >"$D/unread.task"
chmod +x "$D/unread.task"
unread=$(sbatch --parsable "${served[@]}" -N2 -n2 -w n5,n6 -o "$D/unread.out" \
    --wrap "srun $mpi --no-kill --kill-on-bad-exit=0 $D/unread.task")
wait_for 60 job_ended "$unread"
ok $? "missing: a worker that cannot read its configuration ends the run"
like "$(cat "$D/unread.out")" "worker 0 of 2: worker 1 refuses to start: .*none.conf" "missing: with its reason"

# Again from there, on one node, until scancel.
cancelled=$(one cancelled -w n1 --dynpipe=balance -- checkpoint.dir="$D/limit.saved")
wait_for 120 trains cancelled
scancel "$cancelled"
wait_for 120 job_ended "$cancelled"
ok $? "cancelled: scancel ends a run"
like "$(cat "$D/cancelled.out")" "resumed: $D/limit.saved/step-0*$(steps_of limit)" "cancelled: it went on where the limit ended the first"
is "$(find "$D/limit.saved" -maxdepth 1 -name 'step-*[0-9]' | sed 's/.*step-0*//' | sort -n | tail -n 1)" \
    "$(($(steps_of limit) + $(steps_of cancelled)))" "cancelled: and left a checkpoint of its last step"
is "$(drained_nodes)" "" "no node is drained"

cat "$D/limit.jsonl" "$D/cancelled.jsonl" >"$D/both.jsonl"
same_as_alone $run -- both signals ahead low
done_testing
