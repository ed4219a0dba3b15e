#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A job that asked for companions is requeued while its daemon is dead, and its worker with it. The daemon comes back while Slurm holds
# the job, or when its next life runs: it finds the run of the life before by its journal, and its companions, some of them beside it, find
# their coordinator. They save, stop and end well, and the next life goes on from their checkpoint. Losses are those of one worker.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"
# shellcheck source=tests/e2e/companions.sh
. "$DP_SRCDIR/tests/e2e/companions.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
slices_hysteresis=50.0 # who has layers is what this looks at
# The script of a job whose worker was killed does not end, so that Slurm can requeue it; and in its next life it waits for the test.
job_first='while [ "${SLURM_RESTART_COUNT:-0}" != 0 ] && [ ! -e '"$D"'/go ]; do sleep 0.2; done
trap "[ ! -e '"$D"'/stay.$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0} ] || sleep 1000" EXIT'
slices_cluster 20.0 'poll_s = 2.0;'
logged() { grep -qE "$2" "$D/log/dynpiped.$1.log"; } # NODE PATTERN

for when in held again; do
    name=$when
    rm -f "$D/go"
    block_two_gpus 1 2
    home=$(job $name --requeue --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=4 -- $run checkpoint.dir="$D/$name.ckpt" \
        checkpoint.every=20)
    wait_for 60 states_are "$home" "4 RUNNING"
    wait_for 60 steps_done "$D/$name.jsonl" 25
    ok $? "$name: four slices train"
    node=$(squeue -h -j "$home" -o %N)
    export DYNPIPE_SOCKET=$D/run/dynpiped-$node.sock
    is "$(squeue -h -t R -w "$node" -n $name -o %A | wc -l)" 2 "$name: one of them beside home, two elsewhere"

    # ---- home is lost, and its daemon ----------------------------------------------------------------------------------

    touch "$D/stay.$home.0"
    pid=$(workers_on "$home" "$node")
    cluster stop "daemon:$node" KILL
    kill -KILL $pid
    gone() { ! kill -0 $pid 2>/dev/null; }
    wait_for 60 gone
    is "$(job_state "$home")" RUNNING "$name: home's worker is dead, and its job runs"
    scontrol requeuehold "$home"
    wait_for 60 job_is "$home" PENDING
    if [ $when = again ]; then
        scontrol release "$home"
        scontrol update JobId="$home" StartTime=now # a job that was put back waits two minutes
        wait_for 60 job_is "$home" RUNNING
        ok $? "$name: it runs again, and has no worker yet"
    fi
    is "$(family "$home" | grep -c " RUNNING $name dynpipe: slice of")" 3 "$name: its companions wait for a coordinator"

    # ---- the daemon comes back -------------------------------------------------------------------------------------------

    cluster start "daemon:$node"
    saved() { [ "$(family "$home" | grep -c " COMPLETED $name dynpipe: slice of")" = 3 ]; }
    wait_for 120 saved
    ok $? "$name: they save, and end well"
    is "$(grep -i "exit code" "$D/$name".*.out | grep -vE "$name.$home.out|exit code 75")" "" "$name: no companion's worker fails"
    runs "$name: the daemon goes on from its journal" logged "$node" "job=$home is over \(requeued\), its run goes on with other slices"
    runs "$name: it says why they stop" logged "$node" "job=$home all save and stop: the job that asked for the slices was requeued"
    reported() { dynpipe report -j "$home" >"$D/$name.report" 2>&1; }
    wait_for 60 reported
    ok $? "$name: the run has its report"

    # ---- and the next life goes on ---------------------------------------------------------------------------------------

    touch "$D/go"
    if [ $when = held ]; then
        scontrol release "$home"
        scontrol update JobId="$home" StartTime=now
    fi
    wait_for 60 grep -q '"event":"resumed"' "$D/$name.jsonl"
    ok $? "$name: home's next life goes on from their checkpoint"
    wait_for 60 states_are "$home" "3 COMPLETED, 4 RUNNING"
    ok $? "$name: with companions of its own"
    makes_steps $name 5
    ok $? "$name: and trains"
    scancel --signal=TERM "$home"
    wait_for 120 all_ended "$home"
    ok $? "$name: all end"
    scancel "${blocker[@]}"
    wait_for 60 all_nodes_idle
    each_step_once $name
done
no_journal() { [ -z "$(find "$D"/spool "$D"/dynpipe -name "job-*.journal")" ]; }
wait_for 60 no_journal
ok $? "no journal is left"
is "$(drained_nodes)" "" "no node is drained"
same_as_alone $run -- held-whole again-whole
done_testing
