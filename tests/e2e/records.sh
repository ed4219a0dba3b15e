# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Stop a daemon at the records of its journals, with strace: what 0210-faults and 0215-journal-faults share.

command -v strace >/dev/null || skip_all "strace is not installed (tests/lib/deps.sh lists the packages)"
# Daemons cannot be dumped, so the kernel lets nobody else trace them.
[ "$(id -u)" -eq 0 ] || skip_all "only root can stop a daemon at its records"

daemon_pid() { cat "$D/run/dynpiped.n$1.pid"; }
attached() { grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$1/status" 2>/dev/null; }

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

# A coordinator's record types: daemon/coord/coordinator.h. It opens its journal when the first worker comes.
declare -A type=([INTENT]=2 [COMMIT]=3 [DONE]=5 [DRAIN]=6 [GONE]=7 [RELINTENT]=8)
coordinator_journal() { echo "$D/dynpipe/n1/job-$1.0.journal"; } # JOB
stop_coordinator_at() { # JOB RECORD
    stop_at_records "$(daemon_pid 1)" "$(coordinator_journal "$1")" && let_run_to "${type[$2]}"
}

# fail_calls PID JOURNAL EXPRESSION...: from now on calls of the daemon on this file, and on the one that is to take
# its place, fail as these -e inject= expressions say. let_succeed: no more.
fail_calls() {
    local pid=$1 journal=$2 e args=()
    shift 2
    for e; do args+=(-e "inject=$e"); done
    failures=$D/failures
    rm -f "$failures"
    strace -p "$pid" -P "$journal" -P "$journal.tmp" -o "$failures" -e trace=fdatasync,fsync,pwrite64,openat \
        "${args[@]}" 2>/dev/null &
    failer=$!
    wait_for 30 attached "$pid"
}
let_succeed() {
    kill -TERM $failer
    wait $failer
}
n_failed() { grep -c INJECTED "$failures"; }
