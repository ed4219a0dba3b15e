#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Home's job is requeued while the other slices train on in its run, and the daemons are killed and come back when Slurm holds the job, and
# when it runs again: on the node of the coordinator, or beside slices that only pass on. The run goes on from the journal of the life
# that it began in; where the daemon that coordinated lost its files, another one does. Losses are those of one worker.
# shellcheck disable=SC2016,SC2086,SC2154,SC2317 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
slices_hysteresis=50.0 # who has layers is what this looks at
# In its next life a job runs, and has no worker until the test lets it.
slices_before='while [ "${SLURM_RESTART_COUNT:-0}" != 0 ] && [ ! -e '"$D"'/go ]; do sleep 0.2; done'
slices_cluster 6.0 'poll_s = 2.0;'
task_of() { squeue -h -r -t all -j "$1" -o "%A %i" | sed -n "s/^$2 //p"; } # ARRAY JOB: scontrol knows a task by its number
logged() { grep -qE "$2" "$D/log/dynpiped.$1.log"; }                        # NODE PATTERN
kill_daemon() { cluster stop "daemon:$1" KILL && cluster start "daemon:$1"; } # NODE: and another one begins
is_coordinated() { [ -n "$(status "$home" .state)" ] && holders_are "$home" "$1"; } # HOLDERS
# Those of a coordinator that has all its workers: layers move at its word.
goes_on() { # TEXT
    wait_for 60 is_coordinated 3
    ok $? "$1: it has the run again"
    makes_steps "$name"
    ok $? "$1: they train on"
}

# Four slices train, two on each node. Sets what is known of them.
begin() { # NAME
    name=$1
    rm -f "$D/go"
    block_two_gpus 1 2
    id=$(array $name 0-3 --requeue --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=4 -- $run checkpoint.dir="$D/$name.ckpt" \
        checkpoint.every=20)
    wait_for 60 steps_done "$D/$name.jsonl" 25
    ok $? "$name: four slices train"
    home=$(home_of "$id")
    node=$(squeue -h -j "$home" -o %N)
    other=n$((3 - ${node#n}))
    export DYNPIPE_SOCKET=$D/run/dynpiped-$node.sock
    task=$(task_of "$id" "$home")
    wait_for 60 holders_are "$home" 4
    marked() { [ "$(squeue -h -r -t R -j "$id" -o %k | grep -c "dynpipe: slice of $home")" = 3 ]; }
    wait_for 60 marked
    ok $? "$name: two of them are on another node than home"
}
home_is_held() { # and the others train
    scontrol requeuehold "$task"
    wait_for 60 holders_are "$home" 3
    ok $? "$name: home is requeued, and the others have its layers"
    wait_for 60 logged "$node" "job=$home is over \(.*its run goes on with other slices"
    wait_for 60 task_is "$task" PENDING
}
end_all() {
    scancel --signal=TERM "$id"
    wait_for 120 all_ended "$id"
    ok $? "$name: all end"
    reported() { dynpipe report -j "$home" >"$D/$name.report" 2>&1; }
    wait_for 60 reported
    ok $? "$name: the run has its report"
    scancel "${blocker[@]}"
    wait_for 60 all_nodes_idle
    each_step_once $name
}

for where in coordinator passing; do
    begin $where

    # ---- it is put back, and held ---------------------------------------------------------------------------------------

    home_is_held
    kill_daemon "$node"
    goes_on "$name, held"
    kill_daemon "$node"
    goes_on "$name, held, and killed twice"

    # ---- it runs again --------------------------------------------------------------------------------------------------

    [ $where = coordinator ] && there=$node || there=$other
    scancel "${blocker[${there#n}]}"
    scontrol update JobId="$task" ReqNodeList="$there"
    scontrol release "$task"
    scontrol update JobId="$task" StartTime=now # a job that was put back waits two minutes
    wait_for 60 task_is "$task" RUNNING
    is "$(squeue -h -r -t R -j "$task" -o %N)" "$there" "$name: home runs again, on $there"
    kill_daemon "$node"
    goes_on "$name, again"
    kill_daemon "$node"
    goes_on "$name, again, and killed twice"
    kill_daemon "$other"
    goes_on "$name, again, and the other daemon killed"
    logged "$node" "job=$home ends"
    is $? 1 "$name: and that was never the end of the run"

    # ---- the coordinator acts -------------------------------------------------------------------------------------------

    mate=$(squeue -h -r -t R -w "$other" -j "$id" -o %A | grep -v "^$home\$" | head -n1)
    kill -KILL "$(workers_on "$mate" "$other")"
    wait_for 60 file_has "$D/$name.jsonl" '"event":"regrouped"'
    ok $? "$name: a slice is killed, and the others regroup"
    wait_for 60 holders_are "$home" 2
    makes_steps $name
    ok $? "$name: and go on"
    touch "$D/go"
    ended() { ! squeue -h -r -t all -j "$task" -o %T | grep -qE 'PENDING|RUNNING|COMPLETING'; }
    wait_for 90 ended
    ok $? "$name: home's next life has no part in it, and ends"
    makes_steps $name
    ok $? "$name: the others train on"
    end_all
done

# ---- while it is held, the daemon that coordinates loses its files, and a slice trains beside it ---------------------------

begin forgotten
home_is_held
cluster stop "daemon:$node" KILL
rm -f "$D/dynpipe/$node"/job-*
cluster start "daemon:$node"
export DYNPIPE_SOCKET=$D/run/dynpiped-$other.sock
goes_on "$name"
mate=$(squeue -h -r -t R -w "$node" -j "$id" -o %A | head -n1)
runs "$name: a slice trains beside that daemon" test -n "$mate"
kill -KILL "$(workers_on "$mate" "$node")"
wait_for 60 file_has "$D/$name.jsonl" '"event":"regrouped"'
ok $? "$name: that one is killed, and the others regroup"
wait_for 60 holders_are "$home" 2
makes_steps $name
ok $? "$name: and go on"
scancel "$task" # held, it hears no signal
end_all

is "$(find "$D"/spool "$D"/dynpipe -name "job-*.journal" | wc -l)" 0 "no journal is left"
is "$(drained_nodes)" "" "no node is drained"
same_as_alone $run -- coordinator-whole passing-whole forgotten-whole
done_testing
