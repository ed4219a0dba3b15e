#!/bin/bash
# kill -9 in the middle of hand-overs and releases: of the coordinator's daemon at each of its journal
# records, of another node's daemon, and of slurmctld. Training goes on, losses stay bit-identical, no
# layer is lost or owned twice, and afterwards the run gives a node back and ends well.
# shellcheck disable=SC2086,SC2154 # $run and $release are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
command -v strace >/dev/null || skip_all "strace is not installed (tests/lib/deps.sh lists the packages)"
# Daemons cannot be dumped, so the kernel lets nobody else trace them.
[ "$(id -u)" -eq 0 ] || skip_all "only root can stop a daemon at its records"

run="$endless prune.begin=10 prune.end=40 prune.every=10"
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 0.5; warmup_reports = 1; confirm_s = 3.0; };'

dead() { ! [ -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }
daemon_pid() { cat "$D/run/dynpiped.n$1.pid"; }
start_run() { submit "$1" $release -- "$D/$1.jsonl" $run; } # NAME

# ---- a daemon that stops at every record ---------------------------------------------------------

# stop_at_records PID JOURNAL: from now on the daemon stops itself (SIGSTOP) after each fdatasync of this
# file: its newest record is durable, and nobody has been told. let_go: it goes on and is left alone.
stop_at_records() {
    stopped=$1 journal=$2 stops=$D/stops n_stops=0
    rm -f "$stops"
    strace -f -p "$1" -P "$2" -o "$stops" -e trace=fdatasync -e inject=fdatasync:signal=STOP 2>/dev/null &
    tracer=$!
    wait_for 30 attached "$1"
}
let_go() {
    kill -TERM $tracer
    wait $tracer
    kill -CONT "$stopped"
}
attached() { grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$1/status" 2>/dev/null; }
stopped_again() { [ "$(grep -c 'stopped by SIGSTOP' "$stops")" -gt $n_stops ]; }

# Type of the newest record of a journal, as a number (framing: doc/protocol.md).
last_record() {
    perl -e 'local $/; open my $f, "<:raw", shift or exit 1; my $d = <$f>; my ($p, $t) = (8, 0);
        while ($p + 17 <= length $d) { my ($len, $crc, $hi, $lo, $type) = unpack "NNNNC", substr $d, $p;
            last if $p + 17 + $len > length $d; $t = $type; $p += 17 + $len }
        print "$t\n"' "$journal"
}

# let_run_to TYPE: on from record to record, until one of this type is the newest.
let_run_to() {
    while wait_for 120 stopped_again; do
        n_stops=$((n_stops + 1))
        [ "$(last_record)" != "$1" ] || return 0
        kill -CONT "$stopped"
    done
    return 1
}

# A coordinator's record types: daemon/coordinator.h. It opens its journal when the first worker comes.
declare -A type=([INTENT]=2 [COMMIT]=3 [DONE]=5 [DRAIN]=6 [GONE]=7 [RELINTENT]=8)
stop_coordinator_at() { # JOB RECORD
    stop_at_records "$(daemon_pid 1)" "$D/dynpipe/n1/job-$1.0.journal" && let_run_to ${type[$2]}
}

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
fence=2 # daemon/node_log.c; n4 is the first that a run gives back
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
asks_in_vain() { [[ $(status "$job" .counters.last_slurm_answer) == "job cannot be read"* ]]; }
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
