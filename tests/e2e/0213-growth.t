#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A run of slices with --dynpipe-max-gpus asks for more GPUs while it trains: idle ones that make it faster, and those that it gave
# back when others have its cores. Restarts with a request under way ask for nothing twice; what no GPU is idle for is withdrawn,
# what the owner's limits refuse is told, and the run goes on. The losses are those of one worker alone, to the last bit.
# shellcheck disable=SC2016,SC2086,SC2154,SC2317 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/companions.sh
. "$DP_SRCDIR/tests/e2e/companions.sh"

for p in slurmdbd mariadbd sacctmgr; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done

run="$endless prune.begin=20 prune.end=120 prune.every=20"
measure_table $run
take_cores # what a step takes decides about a release
cluster_up --nodes 2 --gpus 4 --cpus 8 --dbd \
    --daemon-key 'report_ms = 250; slices_wait_s = 20.0; poll_s = 2.0;' --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" \
    --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; growth_cooldown_s = 3.0; growth_wait_s = 120.0; };'
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock
me=$(id -un)
logs() { cat "$D"/log/dynpiped.n*.log; }
growth_is() { [ "$(status "$1" .growth.state)" = "$2" ]; } # JOB STATE
asked_times() { [ "$(status "$1" .growth.requests)" -ge "$2" ] 2>/dev/null; } # JOB N
end_all() { # JOB NAME; one that waits may begin on the GPU of one that ends, and has no run then
    scancel --signal=TERM "$1"
    wait_for 120 all_ended "$1"
    is "$(grep -L 'no run is there' "$D/$2".*.out | xargs grep -i 'exit code' | grep -v 'exit code 75')" "" "$2: no worker fails"
}

# ---- given back when layers are cheap, and asked for again when a neighbour takes the cores ------------------------------------

back=$(job back -w n1 --dynpipe=release --dynpipe-min-gpus=1 --dynpipe-max-slowdown=10 --dynpipe-reference=start --dynpipe-slices=4 \
    --dynpipe-max-gpus=4 -- $run)
wait_for 60 states_are "$back" "4 RUNNING"
ok $? "back: the job is four"
may_grow() { [ "$(status "$1" .growth.max_gpus)" = 4 ]; }
wait_for 60 may_grow "$back"
ok $? "back: it may have as many again"
given_back() { [ "$(status "$back" '[.slots[] | select(.state == "released")] | length')" -ge 1 ] 2>/dev/null; }
wait_for 120 given_back
ok $? "back: it gives GPUs back"
calm() { status "$back" .growth.decision | grep -q 'the reference is met'; }
wait_for 60 calm
ok $? "back: and asks for none while what it has is fast enough"
held=$(holders "$back")
# Each in a session of its own: to the kernel (sched_autogroup) all of one are one neighbour.
hog=$(sbatch --parsable -J hog -w n1 -n1 -c4 --mem=100 -t 10 -o /dev/null --wrap 'for i in $(seq 16); do setsid timeout 300 sh -c "while :; do :; done" & done; wait')
joined() { [ "$(status "$back" .growth.state)" = joined ] && [ "$(holders "$back")" -gt "$held" ]; }
wait_for 300 joined # of some steps, each of which waits for the neighbour
ok $? "back: a neighbour takes its cores, so it asks for GPUs again and has them" || diag "$(timeout 10 dynpipe explain -j "$back")"
scancel "$hog"
like "$(status "$back" .growth.why)" "reference|loads" "back: because of the reference"
# Where the neighbour is heavy it asks twice, and what is shown is the last of that: instead of more than $held.
like "$(status "$back" .growth.reason)" "of [$held-3], for a step takes [0-9.]* ms of wall time, [0-9.]* ms are allowed|instead of [$held-3], for" "back: and says with which numbers"
flat() { timeout 10 dynpipe "$@" | tr -s ' \n' ' '; }
like "$(flat status -j "$back")" "growth asked for [0-9]+ slices? more, joined: all of them train" "back: so does status"
like "$(flat explain -j "$back")" "growth asked for .* instead of [$held-3], for" "back: and explain"
like "$(timeout 10 dynpipe report -j "$back" --json | jq -c '.. | .growth? // empty')" '"state":"joined","why":' "back: and the report"
end_all "$back" back
is "$(grep -c '"event":"regrouped"' "$D/back.jsonl")" 0 "back: no step was made again"

# ---- idle GPUs make it faster; home's daemon is killed while it waits for them ---------------------------------------------------

wait_for 60 all_nodes_idle
occupant=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o /dev/null --wrap "sleep 1000")
wait_for 60 job_is "$occupant" RUNNING
fast=$(job fast -w n1 --dynpipe=balance --dynpipe-slices=2 --dynpipe-max-gpus=4 -- $run)
wait_for 60 growth_is "$fast" asked
ok $? "fast: a run of two asks for more, because they make it faster"
more=$(($(status "$fast" .growth.asked) - 2))
wait_for 60 states_are "$fast" "$more PENDING, 2 RUNNING"
ok $? "fast: they wait in the queue"
before=$(family "$fast")
cluster stop daemon:n1 KILL
cluster start daemon:n1
sleepy=$(tail -n 1 "$D/fast.jsonl" | jq -r .step)
wait_for 60 steps_done "$D/fast.jsonl" $((sleepy + 20))
wait_for 60 growth_is "$fast" asked
ok $? "fast: home's daemon was killed, and the one that comes back waits for them, too"
is "$(family "$fast")" "$before" "fast: and submits none twice"
scancel "$occupant"
wait_for 60 growth_is "$fast" joined
ok $? "fast: when GPUs are idle they begin, and join"
wait_for 60 holders_are "$fast" $((2 + more))
ok $? "fast: all have layers"
is "$(status "$fast" .growth.requests)" 1 "fast: it asked once"
is "$(n_submitted "$fast")" $((1 + more)) "fast: so many jobs were submitted in all"
end_all "$fast" fast
like "$(flat report -j "$fast")" "growth asked for $more slices? more, joined: .* instead of 2, for speed" "fast: the report of the run has it, too"

# ---- no GPU is idle: what waits too long is withdrawn, and asked for again only after a while -----------------------------------

sed -i 's/growth_wait_s = 120.0/growth_wait_s = 5.0/' "$DYNPIPE_CONF"
for n in n1 n2; do kill -HUP "$(cat "$D/run/dynpiped.$n.pid")"; done
wait_for 60 all_nodes_idle
occupant=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o /dev/null --wrap "sleep 1000")
wait_for 60 job_is "$occupant" RUNNING
late=$(job late -w n1 --dynpipe=balance --dynpipe-slices=2 --dynpipe-max-gpus=4 -- $run)
withdrawn() { logs | grep -q "job=$late the request for [34] slices is over, withdrawn: not all of them have come in"; }
wait_for 90 withdrawn
ok $? "late: what waits too long is withdrawn"
wait_for 60 asked_times "$late" 2
ok $? "late: and asked for again after a pause"
like "$(logs)" "job=$late asks for [12] slices more" "late: the log says so each time"
is "$(holders "$late")" 2 "late: the run goes on with two"
end_all "$late" late
is "$(family "$late" | grep -c PENDING)" 0 "late: nothing of it waits any more"
scancel "$occupant"

# ---- the owner's limits -----------------------------------------------------------------------------------------------------------

wait_for 60 all_nodes_idle
cluster stop slurmctld
echo AccountingStorageEnforce=associations,limits >>"$SLURM_CONF"
cluster start slurmctld
wait_for 60 all_nodes_idle
# One user only, and told to the slurmctld that runs: 22.05.8 does not find him in some databases, and dies of a second one.
{ sacctmgr -i add account lab && sacctmgr -i add user "$me" account=lab defaultaccount=lab MaxSubmitJobs=2; } >"$D/sacctmgr.out" 2>&1 ||
    bail "no account: $(tail -n 3 "$D/sacctmgr.out")"
few=$(job few -w n1 --dynpipe=balance --dynpipe-slices=2 --dynpipe-max-gpus=12 -- $run) # more seats than layers
refused() { logs | grep -q "job=$few the request for [3-8] slices is over, refused: Job violates accounting/QOS policy"; }
wait_for 90 refused
ok $? "few: the owner may have two jobs, and the refusal is told"
step=$(tail -n 1 "$D/few.jsonl" | jq -r .step)
wait_for 60 steps_done "$D/few.jsonl" $((step + 20))
ok $? "few: the run goes on"
is "$(states "$few")" "2 RUNNING" "few: with what it has"
end_all "$few" few

same_as_alone $run -- back fast late few
is "$(drained_nodes)" "" "no node is drained"
done_testing
