#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SIGTERM, and the end of a job's time, at the worst moments: in a hand-over that waits for its decision (which then is
# commit; in one of them the daemon that decided is restarted), in one that waits for a daemon that does not come (which
# ends in abort), and in an evaluation. No worker is killed by it, and each run leaves a checkpoint of its last step that
# it goes on from with the losses of an undisturbed run.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/records.sh
. "$DP_SRCDIR/tests/e2e/records.sh"

run="$endless prune.begin=20 prune.end=80 prune.every=20"
run_cluster --daemon-key 'poll_s = 1.0;' --conf KillWait=120

# two NAME SBATCH-OPTIONS -- OVERRIDES...: a run of two workers on two nodes; prints the job id.
two() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X2
#!/bin/bash
srun $mpi --no-kill --kill-on-bad-exit=0 -n 2 $(worker_command "$D/$name.jsonl" $run checkpoint.dir="$D/$name.saved" \
        checkpoint.before_limit_s=0 checkpoint.every=0 checkpoint.every_s=0 "$@")
echo "workers ended with \$?"
X2
    sbatch --parsable -J "$name" -N2 -n2 --exclusive --time=60 --dynpipe=balance --dynpipe-policy=keep -o "$D/$name.out" \
        "${options[@]}" "$D/$name.sh"
}
trains() { steps_done "$D/$1.jsonl" 5; }
steps_of() { losses "$D/$1.jsonl" | wc -l; }
stands() { # NAME: no step in half a second
    local n
    n=$(steps_of "$1")
    sleep 0.5
    [ "$(steps_of "$1")" = "$n" ]
}
newest() { find "$D/$1.saved" -maxdepth 1 -name 'step-*[0-9]' | sed 's/.*step-0*//' | sort -n | tail -n 1; }
events() { jq -r 'select(.event != null) | "\(.event)@\(.step)"' "$D/$1.jsonl"; }
has_saved() { # JOB NAME
    wait_for 150 job_ended "$1"
    like "$(cat "$D/$2.out")" "stopped: by a signal, after saving" "$2: the run says how it ended"
    is "$(newest "$2")" "$(steps_of "$2")" "$2: the checkpoint is that of the last step"
}
ask_layout() { # JOB NODE LAYOUT
    DYNPIPE_SOCKET=$D/run/dynpiped-$2.sock timeout 20 dynpipe layout -j "$1" --set "$3" >/dev/null
}
coordinator_journal_on() { echo "$D/dynpipe/$2/job-$1.0.journal"; } # JOB NODE

# ---- in doubt: voted yes, no decision ----------------------------------------------------------------

doubt=$(two doubt -w n1,n2 --)
wait_for 120 trains doubt
stop_at_records "$(daemon_pid 1)" "$(coordinator_journal_on "$doubt" n1)"
ask_layout "$doubt" n1 '0-5|6-7' &
let_run_to "${type[COMMIT]}"
ok $? "doubt: the decision is journalled, and nobody has heard of it"
wait_for 30 stands doubt
scancel --signal=TERM "$doubt"
# The signal changes nothing while the workers are in doubt.
stands doubt && [ -n "$(workers_on "$doubt" n1)" ] && [ -n "$(workers_on "$doubt" n2)" ]
ok $? "doubt: after SIGTERM both workers wait on for the decision"
is "$(newest doubt)" "" "doubt: and have saved nothing"
let_go
has_saved "$doubt" doubt
like "$(events doubt | tr '\n' ' ')" "handover@[0-9]+ .*saved@[0-9]+ " "doubt: the hand-over was committed first"
like "$(tail -n 5 "$D/doubt.jsonl")" '"layout":"0-5\|6-7"' "doubt: the last step was made in the new layout"

# ---- the same at the job's time limit, by Slurm's own signals -----------------------------------------

limit=$(two limit -w n3,n4 --)
wait_for 120 trains limit
stop_at_records "$(daemon_pid 3)" "$(coordinator_journal_on "$limit" n3)"
ask_layout "$limit" n3 '0-5|6-7' &
let_run_to "${type[COMMIT]}"
ok $? "limit: the decision is journalled, and nobody has heard of it"
scontrol update JobId="$limit" EndTime="$(date -d '+1 second' +%Y-%m-%dT%H:%M:%S)"

# ---- a daemon that does not come, meanwhile -----------------------------------------------------------

abort=$(two abort -w n1,n2 --)
wait_for 120 trains abort
cluster stop daemon:2 STOP
ask_layout "$abort" n1 '0-5|6-7'
wait_for 30 stands abort
ok $? "abort: the workers wait for a PREPARE that does not come"
scancel --signal=TERM "$abort"
has_saved "$abort" abort
cluster stop daemon:2 CONT
like "$(events abort | tr '\n' ' ')" "aborted@[0-9]+ .*saved@[0-9]+ " "abort: the hand-over was aborted first"
wait_for 60 file_has "$D/limit.out" "DUE TO TIME LIMIT"
ok $? "limit: Slurm has sent its signals"
stands limit && [ -n "$(workers_on "$limit" n3)" ]
ok $? "limit: the workers wait on for the decision"
kill -KILL "$stopped" && wait_for 30 dead "$stopped"
ok $? "limit: the coordinator's daemon dies before it has told anybody"
cluster start-daemon 3 # and finds a job that is over, with processes that Slurm waits for
has_saved "$limit" limit
is "$(job_state "$limit")" TIMEOUT "limit: the job ends by its limit"
like "$(events limit | tr '\n' ' ')" "handover@[0-9]+ .*saved@[0-9]+ " "limit: the hand-over was committed first"

# ---- in an evaluation ----------------------------------------------------------------------------------

# The last line of the log is that of a step that an evaluation follows.
evaluates() { [ "$(tail -n 1 "$D/$1.jsonl" 2>/dev/null | jq -r 'select(.event == null) | .step' 2>/dev/null)" = 30 ]; }
eval=$(two eval -w n1,n2 -- data.eval_every=30 data.eval_batches=400)
evallimit=$(two evallimit -w n3,n4 -- data.eval_every=30 data.eval_batches=400)
wait_for 120 evaluates eval
scancel --signal=TERM "$eval"
evaluates eval
ok $? "eval: SIGTERM comes while it evaluates"
has_saved "$eval" eval
is "$(events eval | tr '\n' ' ')" "eval@30 saved@31 stopped@31 " "eval: the evaluation ends, one more step, a checkpoint"
scontrol update JobId="$evallimit" EndTime="$(date -d '+1 second' +%Y-%m-%dT%H:%M:%S)"
has_saved "$evallimit" evallimit
is "$(job_state "$evallimit")" TIMEOUT "evallimit: the job ends by its limit"

# An evaluation that is due where the run stops: what can be saved is saved before, because Slurm may kill the run in it.
last=$(two last -w n1,n2 -- data.eval_every=1 data.eval_batches=2)
wait_for 120 trains last
scancel --signal=TERM "$last"
has_saved "$last" last
n=$(steps_of last)
like "$(events last | tr '\n' ' ')" "saved@$n eval@$n stopped@$n " "last: saved first, then evaluated"
is "$(drained_nodes)" "" "no node is drained"

names=(doubt abort limit eval evallimit last)
for name in "${names[@]}"; do
    n=$(steps_of "$name")
    # No configuration ends before its last pruning.
    alone "$D/$name.more.jsonl" $run checkpoint.dir="$D/$name.saved" train.steps=$((n < 75 ? 80 : n + 5))
    like "$(cat "$D/$name.more.jsonl.out")" "resumed: $D/$name.saved/step-0*$n" "$name: it goes on from there"
    cat "$D/$name.more.jsonl" >>"$D/$name.jsonl"
done
same_as_alone $run -- "${names[@]}"
done_testing
