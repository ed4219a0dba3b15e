#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A trainer that has libdynpipe and nothing else of ours, with a real dynpiped: hand-overs before and after the daemon is killed, and
# no layer is lost or trained twice. Needs nothing but the build.
# shellcheck disable=SC2154,SC2317 # of lone-daemon.sh; functions that wait_for calls
# shellcheck source=tests/lib/lone-daemon.sh
. "${DP_SRCDIR:-.}/tests/lib/lone-daemon.sh"
trainer=${DP_BUILDDIR:-.}/tests/lib/dynpipe_trainer
cli=${DP_BUILDDIR:-.}/cli/dynpipe
[ -x "$trainer" ] || skip_all "$trainer is not built"

write_conf "$dir/conf" "report_ms = 100;"
start
ok $? "the daemon is there"
export SLURM_JOB_ID=77 SLURM_STEP_ID=0 DYNPIPE_SOCKET=$sock
mkfifo "$dir/in"
"$trainer" "$sock" 3 <"$dir/in" >"$dir/out" 2>"$dir/err" &
trainer_pid=$!
pids="$pids $trainer_pid"
on_failure="cat $dir/out $dir/err; tail -n 25 $dir/log"
exec 9>"$dir/in"
wait_for 60 grep -qx ready "$dir/out"
ok $? "three workers have joined"

# While workers come back a request may be refused, or the hand-over aborted: then it is asked for again.
asked_and_done() { # LAYOUT CUTS
    grep -q "commit $2\$" "$dir/out" && return
    "$cli" layout -j 77 --set="$1" >"$dir/said" 2>&1
    sleep 0.5
    grep -q "commit $2\$" "$dir/out"
}
wait_for 120 asked_and_done "0-1|2-6|7-8" "0 2 7 9"
ok $? "layers are handed over"
kill -9 "$pid"
wait "$pid" 2>/dev/null
start 9>&-
ok $? "the daemon was killed and is back"
wait_for 120 asked_and_done "0-4|5-6|7-8" "0 5 7 9"
ok $? "layers are handed over under the new daemon"
exec 9>&-
wait_for 60 grep -q ^end "$dir/out"
like "$(tail -n 1 "$dir/out")" '^end [0-9]+ right$' "no layer was lost, none was trained twice"
wait "$trainer_pid"
is "$?" 0 "all workers end well"
is "$(cat "$dir/err")" "" "nothing is printed"
done_testing
