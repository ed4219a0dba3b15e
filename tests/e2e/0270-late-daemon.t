#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A daemon that was not there when the step began learns of it when it comes: from Slurm, because a worker says HELLO.
# Once it is another node's, once the batch host's, whose journals are gone, too. Then the job is requeued while Slurm
# answers late: neither the node that was given back nor the coordinator of its former life turns anybody away.
# Losses stay those of one worker.
# shellcheck disable=SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
[ -n "$mpi" ] || skip_all "without PMIx no run begins before the daemons of all its nodes are there (0280-wireup)"

connected() { [ "$(status "$1" '[.workers[] | select(.connected)] | length')" = "$2" ]; }
# Far more than the 5 s that it may take: this machine may be busy.
heals() { # JOB NAME
    local t0=$EPOCHREALTIME
    runs "$2: all workers are there within 20 s" wait_for 20 connected "$1" 4
    diag "$2: $(awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s"
}

# ---- n2's daemon ---------------------------------------------------------------------------------
cluster stop daemon:2
job=$(submit n2 $release -- "$D/n2.jsonl" $run)
wait_for 120 steps_done "$D/n2.jsonl" 5
ok $? "a run trains while the daemon of n2 is down"
connected "$job" 3
ok $? "and three workers are heard"
cluster start daemon:2
heals "$job" "n2's daemon"
like "$(cat "$D/log/dynpiped.n2.log")" "job=$job uid=$(id -u) found in Slurm: a worker of it is here" "it asked Slurm"
wait_for 240 nodes_fewer "$job" 4
ok $? "layers move, and a node is given back"
end_run "$job" n2
wait_for 60 all_nodes_idle

# ---- the batch host's daemon, and a Slurm that daemons find slow ---------------------------------
# slow FILE: what passes here waits for as many seconds as FILE says.
cat >"$D/slow.pl" <<'X'
use IO::Socket::INET;
use IO::Select;
my ($port, $file) = @ARGV;
$SIG{CHLD} = "IGNORE";
my $door = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 64) or die;
print $door->sockport, "\n";
close STDOUT;
for (;;) {
    my $in = $door->accept or next;
    next if fork;
    if (open my $f, "<", $file) { select undef, undef, undef, scalar <$f> }
    my $out = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or exit 1;
    my $both = IO::Select->new($in, $out);
    for (;;) {
        for my $s ($both->can_read) {
            sysread $s, my $bytes, 65536 or exit 0;
            syswrite $s == $in ? $out : $in, $bytes;
        }
    }
}
X
port=$(sed -n 's/^SlurmctldPort=//p' "$SLURM_CONF")
slow_daemon() { # N FILE: the daemon of a node, whose Slurm is as slow as FILE says
    perl "$D/slow.pl" "$port" "$2" >"$D/slow.port.$1" 9>&- &
    at_end+=("kill $!")
    wait_for 60 test -s "$D/slow.port.$1"
    sed "s/^SlurmctldPort=.*/SlurmctldPort=$(cat "$D/slow.port.$1")/" "$SLURM_CONF" >"$D/etc/slurm.$1.conf"
}
start_slow() { # N
    DYNPIPE_CLUSTER=$D SLURM_CONF=$D/etc/slurm.$1.conf setsid "$DP_BUILDDIR/daemon/dynpiped" -f "$D/etc/dynpipe.conf" \
        --node "n$1" --foreground </dev/null >>"$D/log/dynpiped.n$1.log" 2>&1 9>&- &
    echo $! >"$D/run/dynpiped.n$1.pid"
    wait_for 60 test -S "$D/run/dynpiped-n$1.sock" || bail "the daemon of n$1 does not start"
}
for n in 1 2 3 4; do
    cluster stop daemon:$n
    slow_daemon $n "$D/$([ $n = 1 ] && echo host || echo others).slow"
    [ $n = 1 ] || start_slow $n
done
rm -rf "$D"/dynpipe/n1/*

job=$(submit n1 $release --requeue -- "$D/n1.jsonl" $run)
wait_for 120 steps_done "$D/n1.jsonl" 5
ok $? "a run trains while the daemon of the batch host is down"
start_slow 1
heals "$job" "the batch host's daemon"
lines() { grep -c -- "$1" "$D/n1.out"; }
said() { [ "$(lines "$1")" -ge 1 ]; }
wait_for 60 said "daemon is back"
is "$(lines "no coordinator"), $(lines "daemon lost"), $(lines "daemon is back")" "1, 0, 1" \
    "that it was away, and is back, is said once, not by every node"
cluster stop daemon:1
wait_for 60 said "daemon lost"
start_slow 1
heals "$job" "the batch host's daemon again"
is_back_again() { [ "$(lines "daemon is back")" -ge 2 ]; }
wait_for 60 is_back_again
is "$(lines "no coordinator"), $(lines "daemon lost"), $(lines "daemon is back")" "1, 1, 2" "in the middle of a run, too"
is "$(status "$job" '.mode + " " + (.limits.min_devices | tostring)')" "release 2" "it knows what the owner asked for"
wait_for 240 nodes_fewer "$job" 4
ok $? "layers move, and a node is given back"
cp "$D/n1.jsonl" "$D/first.jsonl"

scontrol requeue "$job"
wait_for 60 job_is "$job" PENDING
rm -f "$D/n1.jsonl"
echo 2 >"$D/others.slow" # longer than the plugin waits
echo 5 >"$D/host.slow"   # its coordinator is still that of the first life when workers come
scontrol update JobId="$job" StartTime=now+2
wait_for 60 job_is "$job" RUNNING
is "$(job_nodes "$job")" 4 "requeued, it has all nodes again"
wait_for 120 steps_done "$D/n1.jsonl" 5
ok $? "and all its workers train"
wait_for 60 connected "$job" 4
ok $? "and all of them are served"
like "$(cat "$D/n1.out")" "dynpipe: node n[234] was given back by this job before; its tasks wait: Slurm has not said yet" \
    "the tasks on the node that was given back waited for Slurm"
unlike "$(cat "$D/n1.out")" "refuses this worker|must not run here|takes no task" "nobody was turned away"
rm "$D"/*.slow
end_run "$job" n1

same_as_alone $run -- n2 first n1
is "$(drained_nodes)" "" "no node is drained"
done_testing
