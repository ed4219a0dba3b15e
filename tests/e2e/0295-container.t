#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# srun --container: each task is process 1 of a container that Slurm has an OCI runtime make (runc here; process, mount
# and IPC name spaces of its own). Where Slurm gives the container what the plugin sets for the task, a run trains in
# there and gives nodes back; Slurm 22.05 gives it the batch script's variables, so that each task takes itself for task
# 0: the worker refuses, and says what to do.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
[ "$(id -u)" = 0 ] || skip_all "only root's containers are tried"
command -v runc >/dev/null || skip_all "runc is not installed (tests/lib/deps.sh lists the packages)"

# The system's own folders are the container's.
mkdir -p "$D/etc" "$D/runc" "$D/bundle/rootfs"
binds=
for f in /*; do
    case $f in /proc | /dev) ;; *)
        if [ -L "$f" ]; then ln -s "$(readlink "$f")" "$D/bundle/rootfs$f"; elif [ -d "$f" ]; then
            mkdir "$D/bundle/rootfs$f"
            binds="$binds $f"
        fi ;;
    esac
done
mkdir -p "$D/bundle/rootfs/proc" "$D/bundle/rootfs/dev"
(cd "$D/bundle" && runc spec) || bail "runc writes no bundle"
jq --arg binds "$binds" --arg cwd "$D" '.root.readonly = false | .process.terminal = false | .process.cwd = $cwd | del(.hostname)
    | .process.args = ["true"] | del(.linux.resources) | .linux.namespaces |= map(select(.type == "mount" or .type == "pid" or .type == "ipc"))
    | .mounts |= map(select(.destination == "/proc" or (.destination | startswith("/dev"))))
    | .mounts += [$binds | split(" ")[] | select(. != "") | {destination: ., type: "bind", source: ., options: ["rbind", "rw"]}]' \
    "$D/bundle/config.json" >"$D/config.json" && mv "$D/config.json" "$D/bundle/config.json"
runc --root "$D/runc" run "probe-$$" -b "$D/bundle" </dev/null >"$D/probe.out" 2>&1 || skip_all "runc makes no container here: $(tail -n 1 "$D/probe.out")"
{
    echo "RunTimeQuery=\"runc --root=$D/runc state %n.%u.%j.%s.%t\""
    echo "RunTimeKill=\"runc --root=$D/runc kill -a %n.%u.%j.%s.%t\""
    echo "RunTimeDelete=\"runc --root=$D/runc delete --force %n.%u.%j.%s.%t\""
    echo "RunTimeRun=\"runc --root=$D/runc run %n.%u.%j.%s.%t -b %b\""
} >"$D/etc/oci.conf"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
containers() { runc --root "$D/runc" list -q; }
is_empty() { [ -z "$(containers)" ]; }
mpi="--mpi=none --container=$D/bundle"
job=$(submit inside $release -- "$D/inside.jsonl" $run)
case $(slurmctld -V) in
    *" 22.05"*)
        wait_for 120 job_ended "$job"
        is "$(job_state "$job")" FAILED "Slurm 22.05: the workers refuse"
        like "$(cat "$D/inside.out")" "is not in this container: Slurm 22.05 gives none of it to srun --container .let srun start" \
            "and say why, and what to do"
        is "$(cat "$D/inside.jsonl" 2>/dev/null)" "" "none of them trained as if it were alone"
        ;;
    *)
        wait_for 180 nodes_fewer "$job" 4
        ok $? "a run in containers gives nodes back"
        like "$(cat "$D"/log/dynpiped.n*.log)" "job=$job node is empty" "after a proof that they are empty"
        makes_steps inside
        ok $? "and trains on"
        scancel "$job"
        wait_for 60 job_ended "$job"
        same_as_alone $run -- inside
        ;;
esac
wait_for 60 all_nodes_idle
ok $? "every node is free"
wait_for 60 is_empty
ok $? "no container is left"
is "$(drained_nodes)" "" "no node is drained"
done_testing
