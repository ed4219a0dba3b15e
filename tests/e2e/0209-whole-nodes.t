#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A run of slices that can do with one less gives back the one that leaves a whole node to others: of four slices, one on n1, one on
# n2, two on n3, one of the first two, whichever is not home, although by the order of ranks it would be one of n3's.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
slices_nodes=3
take_cores
slices_cluster 20.0
block() { sbatch --parsable -w "$1" -n1 -c1 --gpus="$2" --mem=100 -o "$D/block-$1.out" --wrap "sleep 1000"; } # NODE GPUS
for b in "n1 3" "n2 3" "n3 2"; do
    job=$(block $b)
    wait_for 60 job_is "$job" RUNNING
done
one=$(array one 0-3 $release --dynpipe-min-gpus=3 --dynpipe-slices=4 -- $run)
wait_for 60 states_are "$one" "4 RUNNING"
is "$(squeue -h -r -j "$one" -o %N | sort | uniq -c | awk '{printf "%s %s;", $1, $2}')" "1 n1;1 n2;2 n3;" "slices lie unevenly over the nodes"
wait_for 60 steps_done "$D/one.jsonl" 5
ok $? "they train as one run"
home=$(home_of "$one")
at=$(squeue -h -j "$home" -o %N)
wait_for 240 states_are "$one" "1 COMPLETED, 3 RUNNING"
ok $? "one of them is given back"
is "$(squeue -h -r -t R -j "$one" -o %N | sort | uniq -c | awk '$2 == "n3" { print $1 } END { print NR }' | tr '\n' ' ')" "2 2 " \
    "both of n3's stay, and one node is empty (home is on $at)"
like "$(dynpipe explain -j "$home" 2>&1)" "3 of 4 slices are enough.* on 2 of 3 nodes" "explain says so"
makes_steps one
ok $? "the rest trains on"
end_array "$one" one
same_as_alone $run -- one
is "$(drained_nodes)" "" "no node is drained"
done_testing
