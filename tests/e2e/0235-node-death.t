#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A node dies under a run that may be requeued: Slurm finds it DOWN and puts the job back, and the next start, on
# other nodes, goes on from the newest checkpoint (etc/examples/resume.sh). First a node with everything on it, until
# slurmctld misses it by itself; then the batch host with the coordinator, its journals and the batch script; then a
# batch host on which slurmd and the step daemons die, and script, srun and worker outlive them. What comes back is
# whole again.
# shellcheck disable=SC2046,SC2086,SC2154 # $run and pids are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=80 prune.every=20"
run_cluster --conf SlurmdTimeout=20

PATH=$DP_BUILDDIR/worker:$PATH
read -ra args <<<"$(worker_command "$D/again.jsonl" $run checkpoint.every=20)"
job=$(CHECKPOINTS=$D/again sbatch --parsable -J again -N2 --gpus-per-node=1 --exclusive --dynpipe=balance \
    -o "$D/again.out" "$DP_SRCDIR/etc/examples/resume.sh" "${args[@]:1}")
restarts() { scontrol show job "$job" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p'; }
is_put_back() { [ "$(restarts)" = "$1" ] && job_is "$job" PENDING; }
last_step() { tail -n 1 "$D/again.jsonl" 2>/dev/null | jq -r .step 2>/dev/null; }
batch_host() { scontrol show job "$job" | sed -n 's/ *BatchHost=//p'; }
other_host() { scontrol show hostnames "$(squeue -h -j "$job" -o %N)" | grep -vx "$(batch_host)" | head -n 1; }
passes_steps() { # N MORE
    local now
    now=$(last_step)
    wait_for 120 steps_done "$D/again.jsonl" $((${now:-0} + $1))
}

# die NODE [PID...]: slurmd and step daemons, and what else is named, all at once.
die() {
    local node=$1 pids
    shift
    pids="$(cat "$D/run/slurmd.$node.pid") $(step_daemons_on "$job" "$node") $*"
    kill -KILL $pids
    rm -f "$D/run/slurmd.$node.pid"
}
# is_missed NODE: slurmctld is told that the node is down. Drained, too: an answer of slurmd's that is still on its way
# ("node_did_resp: node n1 returned to service") makes a node that is only down idle again, and the job starts there.
is_missed() {
    scontrol update nodename="$1" state=drain reason=died
    scontrol update nodename="$1" state=down reason=died
}
all_of() { tasks_on "$job" "$1"; cat "$D/run/dynpiped.$1.pid"; }
# revive NODE: as after a boot that empties SlurmdSpoolDir and TmpFS, because Slurm 22.05 starts no step of the same
# number where a killed step daemon left its folders for PMIx; a dynpiped that died, too, finds what it had.
revive() {
    rm -rf "$D/spool/$1"/* "$D/tmp/$1"/*
    cluster start slurmd:$1
    [ -z "${2:-}" ] || cluster start daemon:$1
    scontrol update nodename="$1" state=resume 2>/dev/null # one that slurmctld missed by itself comes back by itself
    wait_for 60 node_is "$1" idle
}
goes_on() { # NAME RESTARTS: it is put back, and starts on other nodes from its newest checkpoint
    local reached
    reached=$(last_step)
    wait_for 150 is_put_back "$2"
    ok $? "$1: Slurm puts the job back"
    # Slurm keeps a requeued job waiting for two minutes.
    wait_for 30 scontrol update JobId="$job" StartTime=now+3
    wait_for 120 resumes "$2"
    ok $? "$1: the next start goes on from the newest checkpoint"
    wait_for 120 steps_done "$D/again.jsonl" $((reached + 30))
    ok $? "$1: and passes the step that was reached before, on $(squeue -h -j "$job" -o %N)"
}
resumes() { [ "$(grep -c "resumed: $D/again/step-" "$D/again.out")" = "$1" ]; }

passes_steps 50
ok $? "a run makes steps on $(squeue -h -j "$job" -o %N)"
dead=$(other_host)
die "$dead" $(all_of "$dead")
down_now() { [[ $(node_state "$dead") == down* ]]; }
wait_for 120 down_now
ok $? "a node dies with everything on it: slurmctld finds it down"
goes_on "a node's death" 1
isnt "$(squeue -h -j "$job" -o %N | grep -c "$dead")" 1 "a node's death: without that node"
revive "$dead" daemon
ok $? "a node's death: it comes back and is idle"

dead=$(batch_host)
die "$dead" $(all_of "$dead")
is_missed "$dead"
goes_on "the batch host's death" 2
is_coordinated() {
    local host
    host=$(batch_host)
    [ "$(DYNPIPE_SOCKET=$D/run/dynpiped-$host.sock status "$job" '[.workers[] | select(.connected)] | length')" = 2 ]
}
wait_for 60 is_coordinated
ok $? "the batch host's death: the daemon of the new one coordinates"
revive "$dead" daemon
ok $? "the batch host's death: it comes back and is idle"

# The step daemons alone die: batch script, srun and worker live on and do not know.
dead=$(batch_host)
left=$(tasks_on "$job" "$dead")
die "$dead"
is_missed "$dead"
goes_on "left behind" 3
none_left() {
    local p
    for p in $left; do [ ! -e "/proc/$p/exe" ] || ! readlink "/proc/$p/exe" >/dev/null || return 1; done
}
wait_for 120 none_left
ok $? "left behind: what outlived its step daemon ends by itself"
is "$(restarts)" 3 "left behind: and its batch script does not put back the start that runs now"
revive "$dead"
ok $? "left behind: the node comes back and is idle"
passes_steps 20
scancel "$job"
wait_for 120 job_ended "$job"
ok $? "scancel ends it for good"
wait_for 60 all_nodes_idle
ok $? "every node is free"

# Steps behind a checkpoint were made twice; the second time with the same losses.
jq -Rc 'fromjson? | select(.loss != null)' "$D/again.jsonl" | jq -sc 'group_by(.step)' >"$D/steps.json"
is "$(jq 'map(select((map(.loss) | unique | length) > 1)) | length' "$D/steps.json")" 0 "no step has two losses"
is "$(jq length "$D/steps.json")" "$(jq '.[-1][0].step' "$D/steps.json")" "and none is missing"
jq -c '.[] | .[0]' "$D/steps.json" >"$D/whole.jsonl"
same_as_alone $run -- whole
done_testing
