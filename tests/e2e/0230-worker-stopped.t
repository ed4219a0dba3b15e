#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A worker that is stopped (SIGSTOP) holds its pipeline up: the user reads which one, nothing is killed,
# and when it goes on, so does the run, with the losses of an undisturbed one. Where the site says how long
# that may last, the job is put back into the queue then, and so it is when all workers die: each start goes on
# from the newest checkpoint (etc/examples/resume.sh).
# shellcheck disable=SC2046,SC2086,SC2154 # $run and pids are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=80 prune.every=20"
run_cluster --daemon-conf 'run: { stall_s = 2.0; };'

job=$(submit stopped --dynpipe=balance -- "$D/stopped.jsonl" $run)
wait_for 120 steps_done "$D/stopped.jsonl" 60
ok $? "a run passes step 60"
victim=$(workers_on "$job" n3 | head -n 1)
kill -STOP "$victim"
# Who is slow to answer is named beside it, and no more when all are asked again.
says_who() { [ "$(status "$job" .state_text)" = "stalled: worker 2 on n3 does not answer" ]; }
wait_for 120 says_who
ok $? "the daemon sees which worker does not answer, and blames no other: $(status "$job" .state_text)"
is "$(workers_on "$job" n3 | head -n 1)" "$victim" "it is not killed"
reached=$(losses "$D/stopped.jsonl" | wc -l)
kill -CONT "$victim"
wait_for 120 steps_done "$D/stopped.jsonl" $((reached + 20))
ok $? "the run goes on"
end_run "$job" stopped

# From here on a stall of 5 s is enough.
sed -i 's/stall_s = 2.0;/stall_s = 2.0; stall_end_s = 5.0;/' "$D/etc/dynpipe.conf"
for n in 1 2 3 4; do cluster stop daemon:$n HUP; done
reads_anew() { [ "$(grep -l 'configuration reloaded' "$D"/log/dynpiped.n?.log | wc -l)" = 4 ]; }
wait_for 60 reads_anew
ok $? "the daemons read their configuration anew"

PATH=$DP_BUILDDIR/worker:$PATH
read -ra args <<<"$(worker_command "$D/again.jsonl" $run checkpoint.every=40)"
job=$(CHECKPOINTS=$D/again sbatch --parsable -J again -N4 --gpus-per-node=1 --dynpipe=balance --dynpipe-stall-end=600 \
    -o "$D/again.out" "$DP_SRCDIR/etc/examples/resume.sh" "${args[@]:1}")
restarts() { scontrol show job "$job" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p'; }
is_put_back() { [ "$(restarts)" = "$1" ] && job_is "$job" PENDING; }
# Slurm keeps a requeued job waiting for two minutes. (In the second of its end it must not start again: its
# credential is revoked with a time in whole seconds.)
wait_put_back() { wait_for 120 is_put_back "$1" && scontrol update JobId="$job" StartTime=now+3; }
wait_for 120 steps_done "$D/again.jsonl" 50
ok $? "a run that may be put back passes step 50"
victim=$(workers_on "$job" n3 | head -n 1)
kill -STOP "$victim"
wait_put_back 1
ok $? "a worker that hangs: the job is put back into the queue"
like "$(cat "$D/log/dynpiped.n1.log")" "job=$job stalled for [0-9]+ s: Slurm is asked to end the job and to put it back" "for that reason"
fails "and the worker has ended" kill -0 "$victim"
resumes() { [ "$(grep -c "resumed: $D/again/step-" "$D/again.out")" = "$1" ]; }
wait_for 120 resumes 1
ok $? "it goes on from its newest checkpoint"
reached=$(tail -n 1 "$D/again.jsonl" | jq .step)
wait_for 120 steps_done "$D/again.jsonl" $((reached + 50))
# All of them: without some the run would go on (0221-worker-lost).
kill -KILL $(for n in n1 n2 n3 n4; do workers_on "$job" $n | head -n 1; done)
wait_put_back 2
ok $? "all workers die: the script puts the job back"
wait_for 120 resumes 2
ok $? "and again it goes on"
reached=$(tail -n 1 "$D/again.jsonl" | jq .step)
wait_for 120 steps_done "$D/again.jsonl" $((reached + 20))
scancel "$job"
wait_for 120 job_ended "$job"
ok $? "scancel ends it for good"
# Steps behind a checkpoint were made twice where a worker died; the second time with the same losses.
jq -sc 'map(select(.loss != null)) | group_by(.step)' "$D/again.jsonl" >"$D/steps.json"
is "$(jq 'map(select((map(.loss) | unique | length) > 1)) | length' "$D/steps.json")" 0 "no step has two losses"
is "$(jq length "$D/steps.json")" "$(jq '.[-1][0].step' "$D/steps.json")" "and none is missing"
jq -c '.[] | .[0]' "$D/steps.json" >"$D/whole.jsonl"

same_as_alone $run -- stopped whole
is "$(drained_nodes)" "" "no node is drained"
done_testing
