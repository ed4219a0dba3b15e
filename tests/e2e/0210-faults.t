#!/bin/bash
# kill -9 in the middle of hand-overs and releases: of the coordinator's daemon at each of its journal
# records, of another node's daemon, and of slurmctld. Training goes on, losses stay bit-identical, no
# layer is lost or owned twice, and the run ends well on a legal number of nodes.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
command -v strace >/dev/null || skip_all "strace is not installed (tests/lib/deps.sh lists the packages)"

run="train.steps=600 prune.begin=10 prune.end=40 prune.every=10 data.eval_every=0"
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 0.5; warmup_reports = 1; confirm_s = 3.0; };'
alone "$D/alone.jsonl" $run
ok $? "one worker alone trains to the end"
losses "$D/alone.jsonl" >"$D/alone.loss"

dead() { ! [ -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }
attached() { grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$1/status" 2>/dev/null; }

# slow PID: from now on every fdatasync of the daemon begins half a second late: its newest record is in
# the file, and nobody has been told.
slow() {
    strace -f -p "$1" -o /dev/null -e trace=fdatasync -e inject=fdatasync:delay_enter=500000 2>/dev/null &
    wait_for 10 attached "$1"
}

# Name of the newest record of a coordinator's journal (types: daemon/coordinator.h; framing: doc/protocol.md).
record_names="0 START INTENT COMMIT ABORT DONE DRAIN GONE RELINTENT RELEASED HELD END NODES REFERENCE WORKERS"
last_record() { # FILE
    perl -e 'local $/; my @n = split / /, shift; open my $f, "<:raw", shift or exit 1; my $d = <$f>; my ($p, $t) = (8, 0);
        while ($p + 17 <= length $d) { my ($len, $crc, $hi, $lo, $type) = unpack "NNNNC", substr $d, $p;
            last if $p + 17 + $len > length $d; $t = $type; $p += 17 + $len }
        print $n[$t], "\n"' "$record_names" "$1"
}

# What must hold whatever was killed.
check_outcome() { # JOB NAME WHAT
    wait_for 200 job_ended "$1"
    is "$(job_state "$1")" COMPLETED "$3: the run ends well"
    losses "$D/$2.jsonl" >"$D/$2.loss"
    runs "$3: every loss is bit for bit that of one worker alone" cmp "$D/alone.loss" "$D/$2.loss"
    is "$(drained_nodes)" "" "$3: no node is drained"
    wait_for 30 all_nodes_idle
    ok $? "$3: every node is free afterwards"
}

# A run that waits with its first decision until it is resumed.
start_paused() { # NAME
    local job
    job=$(submit "$1" --dynpipe=release --dynpipe-min-gpus=1 -- "$D/$1.jsonl" $run)
    wait_for 30 dynpipe pause -j "$job" >/dev/null 2>&1
    echo "$job"
}
# All workers are there and the reference is taken: what is journalled next belongs to the first decision.
is_ready() {
    [ "$(status "$1" '[.workers[] | select(.connected)] | length')" = 4 ] &&
        [ "$(last_record "$D"/dynpipe/n1/job-"$1".*.journal)" = REFERENCE ]
}

journal_is() { [ "$(last_record "$D"/dynpipe/n1/job-"$1".*.journal)" = "$2" ]; }
for record in INTENT COMMIT DONE DRAIN GONE RELINTENT; do
    name=at-$record
    job=$(start_paused $name)
    wait_for 30 is_ready "$job"
    pid=$(cat "$D/run/dynpiped.n1.pid")
    slow "$pid"
    dynpipe resume -j "$job" >/dev/null
    wait_for 60 journal_is "$job" $record && kill -KILL "$pid" && wait_for 10 dead "$pid"
    ok $? "the coordinator's daemon is killed between writing $record and telling it"
    cluster start-daemon 1
    check_outcome "$job" $name "killed at $record"
done

# Another node's daemon: at the fence that proves its slot empty.
job=$(start_paused node)
wait_for 30 is_ready "$job"
pid=$(cat "$D/run/dynpiped.n4.pid")
size=$(stat -c %s "$D/dynpipe/n4/node.journal")
grown() { [ "$(stat -c %s "$1")" -gt "$2" ]; }
slow "$pid"
dynpipe resume -j "$job" >/dev/null
wait_for 60 grown "$D/dynpipe/n4/node.journal" "$size" && kill -KILL "$pid" && wait_for 10 dead "$pid"
ok $? "the daemon of n4 is killed while it writes its fence"
cluster start-daemon 4
check_outcome "$job" node "daemon of n4 killed at its fence"

# slurmctld writes its state up to 5 s late; a job that it has not written would be lost with it.
job_is_saved() { [ "$D/state/job_state" -nt "$D/$1.started" ]; }
wait_until_saved() {
    touch "$D/$1.started"
    wait_for 20 job_is_saved "$1"
}

# slurmctld: killed while a hand-over is under way, then while slots are being released.
any_slot_is() { status "$1" '[.slots[].state] | join(" ")' | grep -qE "$2"; }

job=$(start_paused handover)
wait_for 30 is_ready "$job"
wait_until_saved handover
cluster stop slurmctld KILL
dynpipe resume -j "$job" >/dev/null
wait_for 60 any_slot_is "$job" "gone|releasing"
ok $? "without slurmctld the run hands over and waits with the release"
any_slot_is "$job" released
isnt $? 0 "nothing counts as released that Slurm does not know of"
cluster start slurmctld
check_outcome "$job" handover "slurmctld away during hand-over and release"

job=$(start_paused release)
wait_for 30 is_ready "$job"
wait_until_saved release
dynpipe resume -j "$job" >/dev/null
wait_for 60 nodes_fewer "$job" 4
ok $? "a release is acknowledged by slurmctld"
cluster stop slurmctld KILL
ok $? "and slurmctld is killed at once, before it saved that"
cluster start slurmctld
check_outcome "$job" release "slurmctld killed right after the shrink"
done_testing
