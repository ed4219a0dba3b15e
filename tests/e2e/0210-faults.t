#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 in the middle of hand-overs and releases: of the coordinator's daemon at each of its journal
# records, of another node's daemon, and of slurmctld. Training goes on, losses stay bit-identical, no
# layer is lost or owned twice, and afterwards the run gives a node back and ends well.
# shellcheck disable=SC2086,SC2154 # $run and $release are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/records.sh
. "$DP_SRCDIR/tests/e2e/records.sh"

run="$endless prune.begin=10 prune.end=40 prune.every=10"
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 0.5; warmup_reports = 1; confirm_s = 3.0; };'

start_run() { submit "$1" $release -- "$D/$1.jsonl" $run; } # NAME

# ---- what must hold whatever was killed ----------------------------------------------------------

names=()
slots() { status "$1" '[.slots[].state] | join(" ")'; }
has_settled() {
    case " $(slots "$1") " in
        *" drained "* | *" stopping "* | *" gone "* | *" releasing "*) return 1 ;;
        *" released "*) nodes_fewer "$1" 4 ;;
        *) return 1 ;;
    esac
}
check_outcome() { # JOB NAME
    names+=("$2")
    wait_for 120 has_settled "$1"
    ok $? "$2: the run gives back what it does not need ($(slots "$1"))"
    end_run "$1" "$2"
    is "$(drained_nodes)" "" "$2: no node is drained"
    wait_for 60 all_nodes_idle
    ok $? "$2: every node is free afterwards"
}

# ---- the coordinator's daemon, between writing a record and telling it -----------------------------

for record in INTENT COMMIT DONE DRAIN GONE RELINTENT; do
    name=killed-at-$record
    job=$(start_run $name)
    stop_coordinator_at "$job" $record && kill -KILL "$stopped" && wait_for 30 dead "$stopped"
    ok $? "$name: the coordinator's daemon, when the record is written and nobody knows"
    cluster start-daemon 1
    check_outcome "$job" $name
done

# ---- another node's daemon, at the fence that proves its slot empty ----------------------------------

name=killed-at-FENCE
job=$(start_run $name)
fence=2 # daemon/run/state/node_journal.c; n4 is the first that a run gives back
stop_at_records "$(daemon_pid 4)" "$D/dynpipe/n4/node.journal" && let_run_to $fence &&
    kill -KILL "$stopped" && wait_for 30 dead "$stopped"
ok $? "$name: the daemon of n4, when it has written its fence and nobody knows"
cluster start-daemon 4
check_outcome "$job" $name

# ---- slurmctld -------------------------------------------------------------------------------------

# Never while a run ends: a job whose end slurmctld has heard of but not written is RUNNING again after
# a restart, until the nodes register the next time, and then Slurm requeues it (doc/protocol.md).

name=without-slurmctld
job=$(start_run $name)
stop_coordinator_at "$job" INTENT && wait_until_saved "$job" && cluster stop slurmctld KILL
ok $? "$name: slurmctld is killed when a hand-over begins"
let_go
# Nodes are not even emptied while Slurm cannot say whose job it is; those that were before are asked back in vain.
asks_in_vain() {
    [[ $(status "$job" '.counters.last_slurm_answer, .slots[].text') == *"job cannot be read"* ||
        $(status "$job" '.slots[].text') == *"whose job it is cannot be asked"* ]]
}
wait_for 120 asks_in_vain
ok $? "$name: the run hands over and waits with the release"
unlike "$(slots "$job")" released "$name: nothing counts as released that Slurm does not know of"
cluster start slurmctld
check_outcome "$job" $name

# What slurmctld acknowledged and had not written when it was killed: its old state comes back.
name="release-lost"
job=$(start_run $name)
stop_coordinator_at "$job" RELINTENT && wait_until_saved "$job" && cp "$D/state/job_state" "$D/job_state.before"
ok $? "$name: slurmctld's state before the release is kept"
let_go
is_freed() { [ "$(status "$job" '[.slots[] | select(.freed_at_s)] | length')" -gt 0 ]; }
wait_for 60 is_freed
ok $? "$name: slurmctld acknowledges the release, and the job is read without the node"
cluster stop slurmctld KILL
cp "$D/job_state.before" "$D/state/job_state"
cluster start slurmctld
wait_for 120 file_has "$D/log/dynpiped.n1.log" "job=$job n[2-4] is back in the job: Slurm lost the release"
ok $? "$name: the run sees that it is lost"
check_outcome "$job" $name

same_as_alone $run -- "${names[@]}"
done_testing
