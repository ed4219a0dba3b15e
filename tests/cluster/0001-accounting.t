#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The harness with slurmdbd on a private mariadb: comes up, keeps accounts, and a job can be shrunk
# more than once (without slurmdbd Slurm 22.05 allows one shrink a job).
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"

for p in slurmdbd mariadbd sacctmgr; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done

nodes_of() { squeue -h -j "$1" -o %D; }
has_nodes() { [ "$(nodes_of "$1")" = "$2" ]; }
accounted() { sacct -n -X -j "$1" -o state | grep -q "$2"; }

cluster_up --nodes 3 --no-daemon --dbd
job=$(sbatch --parsable -N3 --exclusive --wrap 'sleep 300')
wait_for 60 job_is "$job" RUNNING
ok $? "a job runs on three nodes"
runs "it can be shrunk to two" scontrol update JobId="$job" NodeList=n1,n2
wait_for 60 has_nodes "$job" 2
ok $? "and holds two"
runs "and to one" scontrol update JobId="$job" NodeList=n1
wait_for 60 has_nodes "$job" 1
ok $? "and holds one"
wait_for 60 node_is n3 idle
ok $? "what it gave back is idle"
scancel "$job"
wait_for 60 accounted "$job" CANCELLED
ok $? "its end is in the accounts"
mapfile -t pids < <(cluster pids)
cluster down
left=
for p in "${pids[@]}"; do
    # One that is reaped meanwhile has no status.
    case $(sed -n 's/^State:[[:space:]]*//p' "/proc/$p/status" 2>/dev/null) in "" | [ZX]*) ;; *) left="$left $p" ;; esac
done
is "$left" "" "after down none of its ${#pids[@]} processes is left"

done_testing
