#!/bin/bash
# A worker that is stopped (SIGSTOP) holds its pipeline up: the user reads which one, nothing is killed,
# and when it goes on, so does the run, with the losses of an undisturbed one.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
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
same_as_alone $run -- stopped
is "$(drained_nodes)" "" "no node is drained"
done_testing
