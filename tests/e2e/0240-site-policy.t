#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A site's own policy on a real Slurm: a user asks for it with --dynpipe-policy, it moves layers while the run
# trains, and every loss stays that of one worker alone. A name that the site does not have moves nothing.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/lib/site-policy.sh
. "$DP_SRCDIR/tests/lib/site-policy.sh"

# Speeds of devices are learned from the first reports before anything is pruned, and a few steps on cores that others
# have, too, tell wrong ones: here pruning begins before, and all devices are the same.
run="$endless prune.begin=2 prune.end=62 prune.every=20"
site_policy "$D"
run_cluster \
    --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; policies = "time,headroom"; };' \
    --daemon-conf "site_policies = ( { name = \"headroom\"; file = \"$D/headroom.so\"; arguments = \"free=20\"; } );"

explains() { COLUMNS=300 timeout 10 dynpipe explain -j "$1" 2>/dev/null | grep -qE "$2"; }
has_moved() { [ "$(status "$job" .layout.epoch)" -ge 1 ] 2>/dev/null; }

# The first layout is as uneven as it can be, so there is something to do.
job=$(submit own --dynpipe=balance --dynpipe-policy=headroom -- "$D/own.jsonl" $run "'pipeline.layout=0-4|5|6|7'")
wait_for 120 steps_done "$D/own.jsonl" 10
ok $? "a run with the site's policy trains"
is "$(status "$job" .policy)" headroom "status names it"
wait_for 120 explains "$job" 'headroom: slowest device computes [0-9.]+ ms a step, 20 % of the memory stay free'
ok $? "explain gives the policy's own reason"
wait_for 120 has_moved
ok $? "layers move to where it wants them"
# Not always with the first move: where others have a worker's core just then, it gives away first.
has_given() { timeout 10 dynpipe layout -j "$job" | grep -qE '^0-[0-3]\|.* epoch [1-9]'; }
runs "the first worker gives some away" wait_for 120 has_given
wait_for 120 steps_done "$D/own.jsonl" 90 # beyond the last pruning
ok $? "and the run trains on"
end_run "$job" own

job=$(submit other --dynpipe=balance --dynpipe-policy=nobody -- "$D/other.jsonl" $run)
wait_for 120 steps_done "$D/other.jsonl" 30
ok $? "a run that asks for a policy that the site does not have trains"
is "$(grep -c 'dynpipe: policy nobody is not allowed here (time,headroom), using time' "$D/other.out")" 2 \
    "and its user reads what it uses instead, once for the batch script and once for its step"
end_run "$job" other
same_as_alone $run -- own other
done_testing
