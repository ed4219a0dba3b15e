#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Layers that are copied while training goes on, one unit at a boundary, so that it lasts: a user who asks again and again meanwhile, the
# coordinator's daemon killed, the destination stopped, and the end of the run in the middle of it. Losses are those of one worker alone.
# shellcheck disable=SC2086,SC2154 # $endless and $run are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run_cluster --daemon-conf 'run: { cooldown_s = 0.0; warmup_reports = 1; };'
run="$endless prune.begin=0 prune.end=0"
model=${model/blocks=6/blocks=8}
# Four blocks go from n2 to n3 and back, one of their 12 tensors each at a boundary: never in less than 48 steps, which leave time to look.
here='0|1-5|6|7-9' there='0|1|2-6|7-9'
job=$(submit copied --dynpipe=balance --dynpipe-policy=keep -- "$D/copied.jsonl" $run output.every=1000000 handover.background=always handover.max_rate=0.000001 \
    pipeline.layout="'$here'")
wait_for 60 steps_done "$D/copied.jsonl" 5
ok $? "a run begins"
step_now() { jq -r 'select(.loss) | .step' "$D/copied.jsonl" | tail -n 1; }
n_events() { grep -c "\"event\":\"$1\"" "$D/copied.jsonl"; }
handed_over() { [ "$(n_events handover)" -gt "$1" ]; } # more often than that
asks() { timeout 10 dynpipe layout -j "$job" --set "$1" >"$D/said" 2>&1; }
# begins_copying: asks for a layout that is not in force; some steps later it is copied for. Sets before.
begins_copying() {
    before=$(n_events handover)
    wait_for 30 asks "$there" || wait_for 30 asks "$here" || bail "no layout is taken: $(cat "$D/said")"
    makes_steps copied 5
    is "$(n_events handover)" "$before" "$1: layers are copied, and the run goes on"
}

begins_copying "impatient"
for _ in 1 2 3; do timeout 10 dynpipe layout -j "$job" --set '0-1|2-5|6|7-9' >>"$D/again" 2>&1; done
is "$(sort -u "$D/again" | sed 's/[0-9][0-9]*/N/')" "dynpipe layout: hand-over N is under way" "impatient: who asks again is told why not"
wait_for 60 handed_over "$before"
ok $? "impatient: layers move"
like "$(grep '"event":"handover"' "$D/copied.jsonl" | tail -n 1)" "copied during (4[89]|[5-9][0-9]|[0-9]{3,}) steps before" "impatient: copied before, step by step"

begins_copying "daemon killed"
kill -9 "$(cat "$D/run/dynpiped.n1.pid")"
cluster start-daemon n1
makes_steps copied 40
ok $? "daemon killed: the run goes on"
is "$(n_events handover)" "$before" "daemon killed: and nothing was moved without it"

begins_copying "stopped"
victim=$(workers_on "$job" n3 | head -n 1)
kill -STOP "$victim"
at=$(step_now)
all_wait() { [ "$(step_now)" = "$at" ] || { at=$(step_now); false; }; }
wait_for 30 all_wait
ok $? "stopped: all wait for the destination"
kill -CONT "$victim"
wait_for 60 handed_over "$before"
ok $? "stopped: and hand over when it goes on"

begins_copying "ended"
end_run "$job" copied
is "$(n_events handover)" "$before" "ended: the run did not wait for layers that it does not need"
same_as_alone $run -- copied
done_testing
