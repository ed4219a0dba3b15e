#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A worker that cannot be killed (tests/lib/hold_exit keeps it inside its exit, with its device lock) on a node that is
# to be given back: the node is held, not released, however long that takes, and the run goes on. When the process is
# gone at last, Slurm has the node within 10 s.
# shellcheck disable=SC2086,SC2154 # $run and $release are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
hold_exit=$DP_BUILDDIR/tests/lib/hold_exit
[ -x "$hold_exit" ] || bail "$hold_exit is not built"
sleep 60 &
"$hold_exit" $! </dev/null >"$D/can.out" 2>&1 || skip_all "no other process can be traced here: $(cat "$D/can.out")"
kill $!

run="$endless prune.begin=10 prune.end=40 prune.every=10"
# The run may decide on a release only when its worker on n4 is traced, which takes a busy machine a while.
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 0.5; warmup_reports = 60; confirm_s = 3.0; gone_timeout_s = 4.0; };'
job=$(submit frozen $release --dynpipe-min-gpus=3 -- "$D/frozen.jsonl" $run)
wait_for 120 steps_done "$D/frozen.jsonl" 5
ok $? "a run trains"

# n4 is the first node that a run gives back, and the only one here: a second one would use up the only shrink.
victim=$(workers_on "$job" n4 | head -n 1)
mkfifo "$D/thaw"
"$hold_exit" "$victim" <"$D/thaw" >"$D/hold.out" 2>&1 &
exec 7>"$D/thaw"
wait_for 30 file_has "$D/hold.out" attached || bail "the worker cannot be traced: $(cat "$D/hold.out")"

slot() { status "$job" ".slots[] | select(.node == \"n4\") | .$1"; }
is_held() { [ "$(slot state)" = held ]; }
wait_for 240 is_held
ok $? "its worker on n4 does not die: the node is held"
kill -KILL "$victim"
file_has "$D/hold.out" held && [ -e "/proc/$victim" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$victim/status"
ok $? "the kernel has it on its way out, and SIGKILL does not end it"
text=$(slot text) nodes=$(job_nodes "$job")

# Thawed soon after a look that found it, so the next one is far away.
t0=$EPOCHREALTIME
exec 7>&-
is_free() { ! scontrol show hostnames "$(squeue -h -j "$job" -o %N)" | grep -qx n4; }
# More than the 10 s that it may take: where others begin processes faster than a look ends, the next look, 10 s later, is
# the one that proves it. Looks every 30 s would not pass.
wait_for 29 is_free
ok $? "thawed: Slurm has the node"
diag "after $(awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s"
is "$nodes" 4 "Slurm did not have it before"
like "$text" "not proved within .*pid $victim " "and status named the process: $text"
reached=$(tail -n 1 "$D/frozen.jsonl" | jq .step)
wait_for 120 steps_done "$D/frozen.jsonl" $((reached + 10))
ok $? "the run goes on"
end_run "$job" frozen
same_as_alone $run -- frozen
is "$(drained_nodes)" "" "no node is drained"
done_testing
