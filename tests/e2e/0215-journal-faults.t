#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Journals that cannot be written: fdatasync and pwrite fail at the records of hand-overs and releases, once, at
# every record, and for good; then the disk is really full. Training goes on, or waits until the journal can be
# written and no longer; losses stay bit-identical; status and `dynpipe check` say what is wrong.
# shellcheck disable=SC2086,SC2154 # $run and $release are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/records.sh
. "$DP_SRCDIR/tests/e2e/records.sh"

# Room for the journals of a few jobs and for nothing else.
state=$D/dynpipe/n1
mkdir -p "$state"
mount -t tmpfs -o size=256k,mode=700 dynpipe-test "$state" 2>/dev/null || skip_all "no small disk can be mounted here"
at_end+=("umount -l $state")

run="$endless prune.begin=10 prune.end=40 prune.every=10 train.microbatches=16"
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 0.5; warmup_reports = 1; confirm_s = 3.0; };'

steps() { losses "$D/$name.jsonl" | wc -l; }
goes_on() { [ "$(steps)" -gt $((reached + 3)) ]; }
trains_on() { reached=$(steps); wait_for 60 goes_on; }
n_handovers() { dynpipe report -j "$job" --json | jq "[.report.handovers[] | select(.outcome == \"$1\")] | length"; }
has_ended() { [ "$(n_handovers "$1")" -gt "$2" ]; }
is_calm() { status "$job" .state | grep -qx training; }

# hand_over: ask for the other one of two layouts, which takes INTENT, COMMIT and DONE.
hand_over() {
    local other='0-2|3|4-5|6-7'
    [ "$(status "$job" .layout.text)" != "$other" ] || other='0-1|2-3|4-5|6-7'
    dynpipe layout -j "$job" --set "$other"
}

# ---- one call that fails, of each record of a hand-over ----------------------------------------------

name=handovers
job=$(submit $name --dynpipe=balance --dynpipe-policy=keep -- "$D/$name.jsonl" $run)
wait_for 120 steps_done "$D/$name.jsonl" 5
journal=$(coordinator_journal "$job")
daemon=$(daemon_pid 1)
for fault in fdatasync:error=EIO pwrite64:error=ENOSPC; do
    for record in INTENT:1 COMMIT:2 DONE:3; do
        wait_for 60 is_calm
        before=$(n_handovers committed)
        fail_calls "$daemon" "$journal" "$fault:when=${record#*:}"
        hand_over >/dev/null
        wait_for 60 has_ended committed "$before"
        ok $? "$fault at ${record%:*}: the journal is written anew, and layers move"
        trains_on
        let_succeed
        is "$(n_failed)" 1 "$fault at ${record%:*}: the call has failed"
    done
done
is "$(status "$job" .journal_error)" null "and all is well again"

# ---- for good: COMMIT is certainly not there ---------------------------------------------------------

wait_for 60 is_calm
before=$(n_handovers aborted)
fail_calls "$daemon" "$journal" pwrite64:error=ENOSPC:when=2+
hand_over >/dev/null
wait_for 60 has_ended aborted "$before"
ok $? "nothing can be written from COMMIT on: the hand-over is aborted at once"
trains_on
ok $? "and training goes on, though ABORT cannot be written either"
like "$(status "$job" .journal_error)" "No space left" "status says why no layer will move"
like "$(dynpipe check 2>&1 | tr -s ' \n' ' ')" "FAIL.*journal.*n1 cannot write its journal: .*No space left" "so does dynpipe check"
hand_over >"$D/refused" 2>&1
isnt $? 0 "the next hand-over is refused"
let_succeed

# ---- for good: COMMIT may be there -------------------------------------------------------------------

wait_for 60 is_calm
before=$(n_handovers aborted)
fail_calls "$daemon" "$journal" fdatasync:error=EIO:when=2+ fsync:error=EIO
hand_over >/dev/null
says_it_waits() { status "$job" .state_text | grep -q "wait for a decision that cannot be written to the journal"; }
wait_for 60 says_it_waits
ok $? "COMMIT is in doubt: the workers wait, and status says what for"
reached=$(steps)
let_succeed
wait_for 30 has_ended aborted "$before"
ok $? "the journal can be written anew: the hand-over is aborted"
trains_on
ok $? "and training goes on from step $reached"

wait_for 60 is_calm
fail_calls "$daemon" "$journal" fdatasync:error=EIO:when=2+ fsync:error=EIO
hand_over >/dev/null
wait_for 60 says_it_waits
ok $? "in doubt again"
cluster stop-daemon 1 KILL
wait $failer
cluster start-daemon 1
daemon=$(daemon_pid 1)
trains_on
ok $? "a restart of the daemon finds out, too"

# ---- a disk that is full ------------------------------------------------------------------------------

fill_disk() { dd if=/dev/zero of="$state/filler" bs=4096 2>/dev/null; ! echo x >"$state/x" 2>/dev/null; }
wait_for 60 is_calm
before=$(n_handovers committed)
stop_at_records "$daemon" "$journal"
hand_over >/dev/null &
asked=$!
let_run_to "${type[INTENT]}" && fill_disk
ok $? "a disk that is full from INTENT on"
let_go
wait $asked
wait_for 60 has_ended committed "$before"
ok $? "room for the rest had been kept: the layers move"
trains_on
for ((i = 0; i < 20; i++)); do hand_over >"$D/refused" 2>&1 || break; wait_for 60 is_calm; done
like "$(cat "$D/refused")" "journal: .*no room" "soon a hand-over is refused before it begins"
like "$(dynpipe check 2>&1 | tr -s ' \n' ' ')" "FAIL.*journal" "dynpipe check sees it"
trains_on
ok $? "training goes on"
cluster stop-daemon 1
cluster start-daemon 1
daemon=$(daemon_pid 1)
comes_back() { status "$job" .state | grep -qx training; }
wait_for 60 comes_back
ok $? "a daemon that is started on the full disk takes the run up again"
rm -f "$state/filler" "$state/x"
before=$(n_handovers committed)
again() { hand_over >/dev/null 2>&1; }
wait_for 30 again
wait_for 60 has_ended committed "$before"
ok $? "with room again layers move again"
end_run "$job" $name
wait_for 60 all_nodes_idle

# ---- every record fails once, on the way to a release ------------------------------------------------------

name=release
job=$(submit $name $release -- "$D/$name.jsonl" $run)
fail_calls "$daemon" "$(coordinator_journal "$job")" fdatasync:error=EIO:when=1+2
first=$failer
fail_calls "$(daemon_pid 4)" "$D/dynpipe/n4/node.journal" fdatasync:error=EIO:when=1+2
is_released() { status "$job" '[.slots[].state] | join(" ")' | grep -q released && nodes_fewer "$job" 4; }
wait_for 120 is_released
ok $? "the first fdatasync of every record fails, and the run gives a node back"
let_succeed
kill -TERM $first
wait $first
end_run "$job" $name
same_as_alone $run -- handovers release
is "$(drained_nodes)" "" "no node is drained"
done_testing
