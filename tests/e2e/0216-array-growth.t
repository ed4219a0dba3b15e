#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A run of an array's tasks with --dynpipe-max-gpus asks for more GPUs while it trains, as one job does: single jobs like its tasks, that
# name the array in their comments. They join as later slices; restarts ask for nothing twice; home's task may be over, and others are
# like another one then; what waits too long, or when the run ends, is withdrawn; scancel of the array ends them all. The losses are
# those of one worker alone, to the last bit.
# shellcheck disable=SC2016,SC2086,SC2154,SC2317 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/slices.sh
. "$DP_SRCDIR/tests/e2e/slices.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
measure_table $run
take_cores # what a step takes decides about growth
cluster_up --nodes 2 --gpus 4 --cpus 8 --daemon-key 'report_ms = 250; slices_wait_s = 20.0; poll_s = 2.0;' \
    --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" \
    --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; growth_cooldown_s = 3.0; growth_wait_s = 120.0; };'
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock
logs() { cat "$D"/log/dynpiped.n*.log; }
growth_is() { [ "$(status "$1" .growth.state)" = "$2" ]; } # HOME STATE
# The companions of an array: jobs of their own whose comment names it. A task's comment names home.
companions() { squeue -h -r -t all -o '%i %T %j %k' | awk -v a="$1" '$1 !~ /_/ && $0 ~ ("dynpipe: slice of " a "$")' | sort -n; } # ARRAY
companion_states() { companions "$1" | awk '{print $2}' | sort | uniq -c | awk '{printf "%s%s %s", (NR > 1 ? ", " : ""), $1, $2}'; }
companions_are() { [ "$(companion_states "$1")" = "$2" ]; }
all_over() { all_ended "$1" && ! companions "$1" | grep -qE 'PENDING|RUNNING|COMPLETING'; } # ARRAY

# ---- idle GPUs make it faster; home's daemon is killed while it waits for them; home's task ends, another one, and then the array ---

occupant=$(sbatch --parsable -w n1 -n1 -c1 --gpus=1 --mem=100 -o /dev/null --wrap "sleep 1000")
wait_for 60 job_is "$occupant" RUNNING
fast=$(array fast 0-2 -w n1 --dynpipe=balance --dynpipe-min-gpus=1 --dynpipe-slices=3 --dynpipe-max-gpus=4 -- $run)
has_home() { home=$(home_of "$1") && [ -n "$home" ]; }
wait_for 120 has_home "$fast"
ok $? "fast: three tasks are a run"
wait_for 120 growth_is "$home" asked
ok $? "fast: it asks for one more, because that makes it faster"
wait_for 60 companions_are "$fast" "1 PENDING"
ok $? "fast: it waits in the queue, and its comment names the array"
before=$(companions "$fast")
is "$(squeue -h -r --name=fast -o %i | wc -l)" 4 "fast: squeue finds all slices by their name"
restart_daemon() { cluster stop daemon:n1 KILL; cluster start daemon:n1; }
restart_daemon
makes_steps fast
ok $? "fast: home's daemon was killed, and the run goes on"
wait_for 120 growth_is "$home" asked
ok $? "fast: the one that comes back waits for it, too"
is "$(companions "$fast")" "$before" "fast: and submits no other"
scancel "$occupant"
wait_for 120 growth_is "$home" joined
ok $? "fast: when a GPU is idle it begins, and joins"
wait_for 60 holders_are "$home" 4
ok $? "fast: all have layers"

scancel "$(squeue -h -r -j "$fast" -o '%A %i' | sed -n "s/^$home //p")" # it knows a task by its number
wait_for 120 holders_are "$home" 3
ok $? "fast: home's task is cancelled, and its layers go to the others"
outlives() { logs | grep -q "job=$home is over .*, its run goes on with other slices"; }
wait_for 60 outlives
ok $? "fast: the run outlives home's task"
restart_daemon
makes_steps fast
ok $? "fast: also when the daemon that coordinates it is killed"
# Not the one that leads now: seats below the leader's stay empty. Ranks are in the order of job ids.
scancel "$(squeue -h -r -t R -j "$fast" -o '%A %i' | sort -n | tail -n 1 | cut -d' ' -f2)"
replaced() { [ "$(companions "$fast" | grep -c RUNNING)" = 2 ] && holders_are "$home" 3; }
wait_for 120 replaced
ok $? "fast: another task is cancelled, and a job like the one that is left comes in its place"
scancel "$fast"
wait_for 120 all_over "$fast"
ok $? "fast: scancel of the array ends the companions, too"

# ---- no GPU is idle: what waits when the run ends is withdrawn, and what waits too long --------------------------------------------

wait_for 60 all_nodes_idle
occupant=$(sbatch --parsable -w n1 -n1 -c1 --gpus=2 --mem=100 -o /dev/null --wrap "sleep 1000")
wait_for 60 job_is "$occupant" RUNNING
gone=$(array gone 0-1 -w n1 --dynpipe=balance --dynpipe-slices=2 --dynpipe-max-gpus=4 -- $run)
waits() { companions "$gone" | grep -q PENDING; }
wait_for 120 waits
ok $? "gone: two tasks are a run, and ask for more"
scancel --signal=TERM "$gone"
wait_for 120 all_over "$gone"
ok $? "gone: when the run ends, those that wait are withdrawn"
is "$(states "$gone")" "2 COMPLETED" "gone: both tasks end well"

sed -i 's/growth_wait_s = 120.0/growth_wait_s = 5.0/' "$DYNPIPE_CONF"
for n in n1 n2; do kill -HUP "$(cat "$D/run/dynpiped.$n.pid")"; done
late=$(array late 0-1 -w n1 --dynpipe=balance --dynpipe-slices=2 --dynpipe-max-gpus=4 -- $run)
wait_for 120 has_home "$late"
ok $? "late: two tasks are a run"
withdrawn() { logs | grep -q "job=$home the request for [34] slices is over, withdrawn: not all of them have come in"; }
wait_for 120 withdrawn
ok $? "late: what waits too long is withdrawn"
asked_twice() { [ "$(logs | grep -c "job=$home asks for [12] slices more")" -ge 2 ]; }
wait_for 120 asked_twice
ok $? "late: and asked for again after a pause"
is "$(holders "$home")" 2 "late: the run goes on with two"
scancel --signal=TERM "$late"
wait_for 120 all_over "$late"
ok $? "late: nothing of it is left when it ends"
is "$(states "$late")" "2 COMPLETED" "late: both tasks end well"
scancel "$occupant"

same_as_alone $run -- fast gone late
is "$(drained_nodes)" "" "no node is drained"
done_testing
