#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# With slurmdbd a job may shrink as often as it likes: a run gives nodes back, goes on, gives back more
# when the site allows fewer devices, and keeps the losses of one worker alone.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
for p in slurmdbd mariadbd; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done

run="$endless prune.begin=20 prune.end=120 prune.every=20"
limits="hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; min_devices"
take_cores
run_cluster --dbd --daemon-conf "run: { $limits = 3; };"

job=$(submit train $release -- "$D/train.jsonl" $run)
wait_for 120 nodes_fewer "$job" 4
ok $? "the run gives a node back"
is "$(job_nodes "$job")" 3 "and keeps as many as the site wants"

# A coordinator that is started again has the limits of its configuration.
released() { [ "$(status "$job" '[.slots[] | select(.state == "released")] | length')" = "$1" ]; }
wait_for 60 released 1
ok $? "Slurm confirms it"
cluster stop daemon:1
sed -i 's/min_devices = 3/min_devices = 2/' "$D/etc/dynpipe.conf"
cluster start daemon:1
# Others on the cores make a move miss its promise, and then nothing is packed until somebody says so: this is about Slurm.
misses=0
packs_to_3() {
    local n
    n=$(grep -c 'promise missed, packing stops' "$D/log/dynpiped.n1.log")
    [ "$n" = "$misses" ] || dynpipe resume -j "$job" >/dev/null 2>&1
    misses=$n
    nodes_fewer "$job" 3
}
wait_for 240 packs_to_3
ok $? "when the site allows fewer, the run gives back more"
wait_for 60 released 2
ok $? "Slurm confirms that too"
is "$(status "$job" .job.shrinks_used)" 2 "it shrank the job twice"
end_run "$job" train
same_as_alone $run -- train
is "$(drained_nodes)" "" "no node is drained"
done_testing
