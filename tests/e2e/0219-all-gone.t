#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# slurmctld, munged and all daemons are killed at once, and nobody is there for a while (DP_OUTAGE_S, 10 s): a run of slices and one of
# whole nodes train on, with the same workers. When all are back each has its coordinator again, and layers move at its word. The second
# time a hand-over is under way: it waits for its decision at most, and is made or not. Losses are those of one worker.
# shellcheck disable=SC2016,SC2086,SC2154,SC2317 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

outage=${DP_OUTAGE_S:-10}
run="$endless prune.begin=20 prune.end=120 prune.every=20"
slices_hysteresis=50.0 # who has layers is what this looks at
measure_table $run
take_core
slices_cluster 6.0 'poll_s = 2.0;'

slices=$(array slices 0-2 --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=3 -- $run)
wait_for 60 steps_done "$D/slices.jsonl" 5
home=$(home_of "$slices")
cat >"$D/nodes.sh" <<X
#!/bin/bash
srun $mpi -n2 --ntasks-per-node=1 $(worker_command "$D/nodes.jsonl" $run) || [ \$? = 75 ]
X
nodes=$(sbatch --parsable -J nodes -N2 --ntasks-per-node=1 -c1 --gpus-per-node=1 --mem=500 --dynpipe=balance -o "$D/nodes.0.out" "$D/nodes.sh")
both() { printf '%s\n' "slices $home 3" "nodes $nodes 2"; }
while read -r name job n; do
    wait_for 60 holders_are "$job" "$n"
    ok $? "$name: $n workers train"
done < <(both)

all_workers() { cluster pids | xargs -r ps -o pid=,args= -p | awk '$2 ~ /dynpipe-worker$/ {print $1}' | sort | tr '\n' ' '; }
kill_all() { wait_until_saved "$nodes"; for p in daemon:n1 daemon:n2 munged slurmctld; do cluster stop "$p" KILL; done; }
last_step() { tail -n 1 "$D/$1.jsonl" | jq -r .step; }
set_to() { timeout 10 dynpipe layout -j "$1" --set "$2" >"$D/set.out" 2>&1; } # JOB LAYOUT
moved() { # JOB LAYOUT: a coordinator that does not have all its workers yet is told again
    [ "$(status "$1" .layout.text)" = "$2" ] || set_to "$1" "$2"
    [ "$(status "$1" .layout.text)" = "$2" ]
}
come_back() { # TEXT
    cluster start munged && cluster start slurmctld && cluster start daemon:n1 && cluster start daemon:n2
    ok $? "$1: all are back"
    while read -r name job n; do
        wait_for 90 holders_are "$job" "$n"
        ok $? "$1: $name has its coordinator again"
        makes_steps $name
        ok $? "$1: $name trains on"
    done < <(both)
}

before=$(all_workers)
is "$(wc -w <<<"$before")" 5 "there are five workers"

# ---- nobody is there -----------------------------------------------------------------------------------------------

kill_all
declare -A was
for name in slices nodes; do was[$name]=$(last_step $name); done
sleep "$outage"
is "$(all_workers)" "$before" "alone: the same workers are there $outage s later"
for name in slices nodes; do
    runs "alone: $name made steps" test "$(last_step $name)" -gt "${was[$name]}"
    makes_steps $name 5
    ok $? "alone: $name makes more"
done
come_back alone
wait_for 60 moved "$home" '0-1|2-5|6-7'
ok $? "alone: layers of the slices move at their coordinator's word"
wait_for 60 moved "$nodes" '0-1|2-7'
ok $? "alone: and those of the nodes"

# ---- and a hand-over is under way -------------------------------------------------------------------------------------

set_to "$home" '0-3|4-5|6-7'
set_to "$nodes" '0-4|5-7'
kill_all
sleep "$outage"
is "$(all_workers)" "$before" "handing over: the same workers are there $outage s later"
come_back "handing over"
wait_for 60 moved "$home" '0-3|4-5|6-7'
ok $? "handing over: the slices have the layout that they were to have"
wait_for 60 moved "$nodes" '0-4|5-7'
ok $? "handing over: and so have the nodes"

end_array "$slices" slices
scancel --signal=TERM "$nodes"
wait_for 120 all_ended "$nodes"
ok $? "the nodes' run ends"
is "$(grep -i 'exit code' "$D/nodes.0.out" | grep -v 'exit code 75')" "" "nodes: no worker fails"
is "$(cat "$D/slices.jsonl" "$D/nodes.jsonl" | grep -c '"event":"regrouped"')" 0 "no step was made again"
is "$(drained_nodes)" "" "no node is drained"
same_as_alone $run -- slices nodes
done_testing
