#!/bin/bash
# A worker that is stopped (SIGSTOP) holds its pipeline up: the user reads which one, nothing is killed,
# and when it goes on, so does the run, with the losses of an undisturbed one.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="train.steps=200 prune.begin=20 prune.end=80 prune.every=20 data.eval_every=0"
run_cluster --daemon-conf 'run: { stall_s = 2.0; };'
alone "$D/alone.jsonl" $run
ok $? "one worker alone trains to the end"
losses "$D/alone.jsonl" >"$D/alone.loss"

job=$(submit stopped --dynpipe=balance -- "$D/stopped.jsonl" $run)
wait_for 60 steps_done "$D/stopped.jsonl" 60
ok $? "a run passes step 60"
victim=$(workers_on "$job" n3 | head -n 1)
kill -STOP "$victim"
says_stalled() { status "$job" .state_text | grep -q "$1"; }
wait_for 60 says_stalled stalled
ok $? "the daemon sees that a worker does not answer"
wait_for 20 says_stalled "worker 2 on n3"
ok $? "and says which: $(status "$job" .state_text)"
unlike "$(status "$job" .state_text)" "worker [013]" "and blames no other"
is "$(workers_on "$job" n3 | head -n 1)" "$victim" "it is not killed"
kill -CONT "$victim"
wait_for 200 job_ended "$job"
is "$(job_state "$job")" COMPLETED "the run goes on and ends well"
losses "$D/stopped.jsonl" >"$D/stopped.loss"
runs "with the losses of an undisturbed run" cmp "$D/alone.loss" "$D/stopped.loss"
is "$(drained_nodes)" "" "no node is drained"
done_testing
