#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The node of home and of the coordinator is lost, with slurmd, step daemons, workers and daemon, journal and all. The daemons that are
# left agree on another one by what Slurm shows; it makes a coordinator of what the workers say, and they go on from their newest
# checkpoint, without being resubmitted. It is restarted, takes newcomers in, and is lost in its turn. The node that was lost comes
# back, and its daemon finds that it coordinates no more. Losses are those of one worker.
# shellcheck disable=SC2016,SC2046,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
slices_nodes=3
slices_hysteresis=50.0 # who has layers is what this looks at
slices_cluster 6.0 'poll_s = 2.0;'
regroups() { grep -c '"event":"regrouped"' "$D/$1.jsonl"; } # NAME
regrouped() { [ "$(regroups "$1")" -ge "$2" ]; }            # NAME TIMES
lose() { # NODE: and Slurm finds it
    lose_node "$1" $(squeue -h -r -t R -w "$1" -o %A)
    scontrol update nodename="$1" state=down reason=lost
}
logged() { grep -qE "$2" "$D/log/dynpiped.$1.log"; } # NODE PATTERN

# ---- six slices on three nodes, and one that waits ------------------------------------------------------------------

block_two_gpus 1 2 3
lost=$(array lost 0-6 --no-requeue --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=7 -- $run checkpoint.dir="$D/lost.ckpt" \
    checkpoint.every=20)
wait_for 60 steps_done "$D/lost.jsonl" 45
ok $? "lost: they train"
home=$(home_of "$lost")
is "$(squeue -h -j "$home" -o %N)" n1 "lost: home is on n1"
is "$(states "$lost")" "1 PENDING, 6 RUNNING" "lost: six slices, and one waits"
marked() { [ "$(squeue -h -r -t R -j "$lost" -o %k | grep -c "dynpipe: slice of $home")" = 5 ]; }
wait_for 60 marked

# ---- its node is lost -------------------------------------------------------------------------------------------------

export DYNPIPE_SOCKET=$D/run/dynpiped-n2.sock
lose n1
wait_for 90 regrouped lost 1
ok $? "n1 is lost: the others regroup"
makes_steps lost
ok $? "n1 is lost: and go on"
runs "n1 is lost: the daemon of n2 coordinates" logged n2 "job=$home is coordinated here from now on"
runs "n1 is lost: that of n3 does not" test -z "$(grep "is coordinated here" "$D/log/dynpiped.n3.log")"
wait_for 60 holders_are "$home" 4
ok $? "n1 is lost: four have layers"
like "$(status "$home" '[.events[].text] | join("; ")')" "the coordinator before is lost; this one was made by 4 workers" "n1 is lost: status says what became of it"
is "$(squeue -h -r -t R -j "$lost" -o %A | wc -l)" 4 "n1 is lost: no slice was submitted anew"

# ---- the new coordinator is one like any other ------------------------------------------------------------------------

cluster stop daemon:n2 KILL
cluster start daemon:n2
wait_for 60 holders_are "$home" 4
ok $? "new: its daemon is restarted, and has the run from its journal"
makes_steps lost
ok $? "new: they train on"
scancel "${blocker[2]}"
wait_for 60 holders_are "$home" 5
ok $? "new: a task that begins then joins"
makes_steps lost
ok $? "new: all train"
is "$(regroups lost)" 1 "new: nothing was made again"

# ---- the node comes back ----------------------------------------------------------------------------------------------

return_node n1
scontrol update nodename=n1 state=resume 2>/dev/null
wait_for 60 logged n1 "job=$home is coordinated on n2 since this daemon was away|job=$home ends"
ok $? "back: the daemon of the lost node knows that another one coordinates"
makes_steps lost
ok $? "back: they train on"

# ---- and the new one is lost, too -------------------------------------------------------------------------------------

export DYNPIPE_SOCKET=$D/run/dynpiped-n3.sock
lose n2
wait_for 90 regrouped lost 2
ok $? "n2 is lost: the others regroup"
makes_steps lost
ok $? "n2 is lost: and go on"
runs "n2 is lost: the daemon of n3 coordinates" logged n3 "job=$home is coordinated here from now on"
scancel --signal=TERM "$lost"
wait_for 120 all_ended "$lost"
ok $? "n2 is lost: those that are left end"
is "$(squeue -h -r -t COMPLETED -j "$lost" -o %A | wc -l)" 2 "n2 is lost: and well"
for n in n1 n3; do kill -0 "$(cat "$D/run/dynpiped.$n.pid")" || echo "$n"; done >"$D/dead"
is "$(cat "$D/dead")" "" "no other daemon died"

# ---- a node is switched off in order: its slices leave, then its daemon ends -------------------------------------------

return_node n2
scontrol update nodename=n2 state=resume 2>/dev/null
scancel "${blocker[1]}" "${blocker[3]}"
wait_for 60 all_nodes_idle
quiet=$(array quiet 0-3 -c4 --no-requeue --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=4 -- $run)
wait_for 60 steps_done "$D/quiet.jsonl" 5
ok $? "quiet: they train"
home=$(home_of "$quiet")
node=$(squeue -h -j "$home" -o %N)
export DYNPIPE_SOCKET=$D/run/dynpiped-$node.sock
wait_for 60 holders_are "$home" 4
scontrol update NodeName="$node" State=drain Reason=maintenance
left() { [ -z "$(squeue -h -t R -w "$node" -o %A)" ]; }
wait_for 60 left
ok $? "quiet: home's node is drained, and its slices leave, home, too"
cluster stop "daemon:$node"
others() { grep -l "job=$home is coordinated here from now on" "$D"/log/dynpiped.n*.log | grep -qv "/dynpiped.$node.log"; }
wait_for 90 others
ok $? "quiet: the daemon there is stopped for good, and another one coordinates"
makes_steps quiet
ok $? "quiet: they train on"
is "$(regroups quiet)" 0 "quiet: nothing was made again"
cluster start "daemon:$node"
wait_for 60 logged "$node" "job=$home is coordinated on .* since this daemon was away"
ok $? "quiet: the daemon of that node is told when it comes back"
makes_steps quiet
ok $? "quiet: they train on"
scontrol update NodeName="$node" State=resume
scancel --signal=TERM "$quiet"
wait_for 120 all_ended "$quiet"
is "$(states "$quiet")" "4 COMPLETED" "quiet: all slices end well"

each_step_once lost
same_as_alone $run -- lost-whole quiet
done_testing
