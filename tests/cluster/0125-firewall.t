#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A firewall that drops packets between nodes and the batch host: nothing answers, so nothing says no. The run's
# output, status and `dynpipe check` name node and port, within seconds, and what is let through again heals. The
# whole test lives in a network namespace of its own: the machine's network is not touched.
# shellcheck disable=SC2034,SC2154 # D and the rest come from the sourced file
if [ -z "${DP_OWN_NET:-}" ] && unshare --net true 2>/dev/null; then DP_OWN_NET=1 exec unshare --net "$0" "$@"; fi
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"
[ -n "${DP_OWN_NET:-}" ] || skip_all "no network namespace can be made here"
# glibc looks up no name for a machine that has the loopback alone, so there is another device, which goes nowhere.
make_net() {
    ip link set lo up && tc qdisc add dev lo clsact && ip link add dp0 type veth peer name dp1 && ip link set dp0 up &&
        ip address add 192.0.2.1/30 dev dp0
}
make_net || skip_all "no filter can be put on a network here"
# shellcheck source=tests/lib/observed-run.sh
. "$DP_SRCDIR/tests/lib/observed-run.sh"
port() { sed -n "s/.*name = \"$1\";.*port = \([0-9]*\);.*/\1/p" "$D/etc/dynpipe.conf"; }
address() { sed -n "s/.*name = \"$1\";.*address = \"\([0-9.]*\)\";.*/\1/p" "$D/etc/dynpipe.conf"; }
# drop PORT [ADDRESS]: TCP to or from this port, of this other end, is dropped without a word (offsets: Ethernet's
# header, then IP's without options; 2 is TC_ACT_SHOT).
drop() {
    local port=$1 a b c d
    if [ $# = 1 ]; then
        tc filter add dev lo ingress bpf da bytecode \
            "7,48 0 0 23,21 0 4 6,40 0 0 36,21 1 0 $port,6 0 0 4294967295,6 0 0 2,6 0 0 4294967295"
        return
    fi
    IFS=. read -r a b c d <<<"$2"
    tc filter add dev lo ingress bpf da bytecode \
        "8,48 0 0 23,21 0 5 6,32 0 0 26,21 0 3 $(((a << 24) + (b << 16) + (c << 8) + d)),40 0 0 36,21 0 1 $port,6 0 0 2,6 0 0 4294967295"
}
let_through() { tc filter del dev lo ingress; }
# What a user waits for an answer is measured, and must not be the time that TCP takes to give up (minutes).
check() {
    local t0=$EPOCHREALTIME
    timeout 100 "$dynpipe" check "$@" >"$D/check" 2>&1
    rc=$?
    took=$(awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    diag "dynpipe check $*: rc $rc after $took s"
    [ $rc != 124 ]
}
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

[ -n "$(port n1)" ] && [ -n "$(address n3)" ] || bail "no port or address in $D/etc/dynpipe.conf"
check
is "$rc" 0 "nothing is wrong at first" || diag "$(cat "$D/check")"

# ---- from n3 to the batch host ---------------------------------------------------------------------------------
drop "$(port n1)" "$(address n3)"
# Who asks the same within a second gets the same answer.
check_fails() { check "$@"; [ "$rc" = 1 ]; }
wait_for 20 check_fails --nodes 'n[1-3]'
ok $? "packets from n3 to n1 are dropped: check fails"
says FAIL peer "n3: the daemon of n1 cannot be reached from here: $(address n1) port $(port n1): no answer \(filtered\?\)" \
    "and names node, address, port and what it looks like"
runs "after $took s, not after TCP's minutes" test "${took%.*}" -lt 30

t0=$EPOCHREALTIME
job=$(sbatch --parsable -o "$D/train.out" "$D/train.sh") || bail "the job was not accepted"
# n1 knocks at n3, too, and that way is open: so all of them come together.
runs "the batch host calls n3 itself: the run is whole all the same" wait_for 60 all_there
diag "whole after $(since "$t0") s"

# ---- both ways, so early that n3 does not hear how the connection from the batch host ends -----------------------
let_through
drop "$(port n1)" "$(address n3)"
drop "$(port n3)"
scancel --signal=TERM "$job"
wait_for 60 job_ended "$job" || bail "the run does not end"
wait_for 60 all_nodes_idle
t0=$EPOCHREALTIME
job=$(sbatch --parsable -o "$D/train.out" "$D/train.sh") || bail "the job was not accepted"
host="the daemon of the batch host n1: $(address n1) port $(port n1)"
is_told() { file_has "$D/train.out" "no coordinator|waits for the others"; }
wait_for 60 is_told
# Without PMIx the workers meet by the daemons, and wait until these reach each other.
told="worker 2 on n3: no coordinator"
[ -n "$mpi" ] || told="worker 2 of 3 waits for the others"
like "$(cat "$D/train.out")" "$told: node n3 does not reach $host: no answer( so far)? \(filtered\?\)" \
    "a connection that nothing comes through any more: the run's output names the batch host"
diag "worker: after $(since "$t0") s"
runs "status names n3, and why" wait_for 60 misses \
    "^n3: its daemon cannot be reached: $(address n3) port $(port n3): no answer \(filtered\?\)"
diag "status: after $(since "$t0") s"
wait_for 20 check_fails
ok $? "nothing gets through to n3 either: check fails"
says FAIL nodes "n3: $(address n3) port $(port n3): no answer \(filtered\?\)" "and names it"
runs "after $took s" test "${took%.*}" -lt 30
grep -q "open its port between the nodes" "$D/check"
ok $? "and says what to do"
t0=$EPOCHREALTIME
"$dynpipe" status --node n3 >"$D/status" 2>&1
isnt $? 0 "status --node n3 fails"
like "$(cat "$D/status")" "$(address n3) port $(port n3): no answer \(filtered\?\)" "and names address and port, after $(since "$t0") s"
# The next run finds no connection at all.
scancel --signal=TERM "$job"
wait_for 60 job_ended "$job" || bail "the run does not end"
wait_for 60 all_nodes_idle
rm -f "$D/train.out" "$D/log.jsonl"
job=$(sbatch --parsable -o "$D/train.out" "$D/train.sh") || bail "the job was not accepted"
wait_for 60 is_told
like "$(cat "$D/train.out")" "$told: node n3 does not reach $host: no answer( so far)? \(filtered\?\)" \
    "no connection: the run's output names the batch host"
steps() { [ -s "$D/log.jsonl" ] && [ "$(tail -n 1 "$D/log.jsonl" | jq -r .step)" -gt 5 ] 2>/dev/null; }
[ -z "$mpi" ] || runs "training goes on without the daemons" wait_for 60 steps
let_through
t0=$EPOCHREALTIME
runs "what is let through again heals" wait_for 60 all_there
diag "healed after $(since "$t0") s"

# ---- in the middle of a run: a session that falls silent -------------------------------------------------------
drop "$(port n1)"
drop "$(port n3)"
t0=$EPOCHREALTIME
runs "a way that closes under a run is noticed" wait_for 120 misses "^n3: its daemon cannot be reached: .*no answer \(filtered\?\)"
diag "noticed after $(since "$t0") s"
let_through
t0=$EPOCHREALTIME
runs "and heals" wait_for 60 all_there
diag "healed after $(since "$t0") s"
scancel --signal=TERM "$job"
wait_for 60 job_ended "$job"
ok $? "the run ends when it is asked to"
is "$(drained_nodes)" "" "no node was drained"
done_testing
