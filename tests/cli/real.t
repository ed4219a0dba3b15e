#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The command against a real daemon and a real worker, without Slurm: what it shows, what it changes,
# who may, and how it ends. Works as root and as an ordinary user.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2034,SC2154 # out, err, tmp come from lib.sh
dynpiped=$DP_BUILDDIR/daemon/dynpiped
worker=$DP_BUILDDIR/worker/dynpipe-worker
[ -x "$dynpiped" ] && [ -x "$worker" ] || skip_all "dynpiped or dynpipe-worker is not built"

cat >"$tmp/conf" <<X
daemon: { socket = "$tmp/%n.sock"; state_dir = "$tmp/state-%n"; port = 0; slurm = false; run_user = ""; report_ms = 50; };
run: { cooldown_s = 1.0; warmup_reports = 1; };
X
chmod 644 "$tmp/conf"
chmod 755 "$tmp"
pids=
# shellcheck disable=SC2086 # a list
cleanup() { end_processes $pids; rm -rf "$tmp"; }
trap 'case $BASHPID in $$) cleanup ;; esac' EXIT
on_failure="tail -n 20 $tmp/log $tmp/worker.out"
export DYNPIPE_CONF=$tmp/conf DYNPIPE_SOCKET=$tmp/n1.sock

"$dynpiped" -f "$tmp/conf" --node n1 --foreground >"$tmp/ready" 2>"$tmp/log" &
pids=$!
wait_for 60 grep -q ready "$tmp/ready" || bail "dynpiped does not come up: $(cat "$tmp/log")"

exit_is 0 "status without a run" status
is "$(echo "$out" | wc -l)" 1 "prints its heading alone"
sed 's/report_ms = 50/reprot_ms = 50/' "$tmp/conf" >"$tmp/typo.conf"
unset DYNPIPE_SOCKET
export SLURMD_NODENAME=n1 # which the path of the socket names
exit_is 0 "a typo in dynpipe.conf: the daemon is found" status --config "$tmp/typo.conf"
is "$(grep -c . <<<"$err")" 1 "with one line of warning"
like "$err" "warning: .*typo.conf:1: unknown key daemon.reprot_ms; the nearest known one is daemon.report_ms" "that names it"
sed 's/slurm = false;/slurm == false;/' "$tmp/conf" >"$tmp/typo.conf"
exit_is 0 "a syntax error: the daemon is found" status --config "$tmp/typo.conf"
like "$err" "typo.conf:1: syntax error at '='" "and the token is named"
export DYNPIPE_SOCKET=$tmp/n1.sock
unset SLURMD_NODENAME
exit_is 1 "explain without a run" explain
like "$err" "no run on this node" "says so"
exit_is 1 "a job that nobody knows" status -j 4242
like "$err" "not known here" "says so"

head -c 60000 "$DP_SRCDIR"/common/*.c "$DP_SRCDIR"/common/*/*.c >"$tmp/text.txt"
SLURM_JOB_ID=77 SLURM_STEP_ID=0 "$worker" "$DP_SRCDIR/etc/gpt-prune.conf" data.path="$tmp/text.txt" \
    model.blocks=2 model.channels=32 model.context=32 train.steps=1000000 train.microbatches=2 \
    prune.begin=20 prune.end=200 data.eval_every=50 checkpoint.dir="$tmp/ckpt" checkpoint.resume=none \
    output.tune="$tmp/tune.json" >"$tmp/worker.out" 2>&1 &
trainer=$!
pids="$pids $trainer"
saw_eval() { grep -q "validation loss" "$tmp/watch"; }
steps_done() { [ "$("$dynpipe" status -h -j 77 -o step 2>/dev/null | sed 's,/.*,,;s/[^0-9]//g')0" -gt "${1}0" ]; }
wait_for 60 steps_done 5 || bail "the worker does not train: $(tail -n 5 "$tmp/worker.out")"

like "$("$dynpipe" status -h)" "^ *77 .* training .*0-3" "status has the run"
like "$("$dynpipe" status -j 77)" "job 77.*worker.*load.*layout" "status -j has the worker"
is "$(SLURM_JOB_ID=77 "$dynpipe" layout)" "0-3  epoch 0" "layout, the job from the environment"
exit_is 0 "pause" pause
like "$("$dynpipe" status -h)" " paused " "is seen"
exit_is 0 "resume" resume
like "$("$dynpipe" status -h)" " training " "is seen"
is "$("$dynpipe" layout --megatron)" "Et*2L" "layout, as Megatron writes it"
exit_is 2 "a layout that leaves a layer out" layout --set 0-2
exit_is 2 "a layout of Megatron with more stages than workers" layout --set 'Et|tL'
exit_is 3 "a layout of Megatron that is in force already" layout --set 'EttL'
exit_is 3 "a layout that is in force already, or is refused" layout --set 0-3
exit_is 0 "save" save -j 77
saved() { "$dynpipe" status -j 77 | grep -q "^saved .*ckpt"; }
runs "the checkpoint is written and shown" wait_for 60 saved
like "$("$dynpipe" explain)" "job 77.*(step [0-9]+|no decision yet)" "explain"
like "$("$dynpipe" report)" "job 77.*TOKENS PER DEVICE-S.*this run .*fixed layout .*tokens/s" "report"
if command -v python3 >/dev/null; then
    for c in status explain report layout; do
        "$dynpipe" "$c" --json >"$tmp/$c.json"
        runs "$c --json" valid_json "$tmp/$c.json"
    done
    is "$("$dynpipe" layout --from "$tmp/status.json")" "0-3  epoch 0" "a saved status has the layout too"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    other="setpriv --reuid=65534 --regid=65534 --clear-groups"
    $other "$dynpipe" pause -j 77 2>"$tmp/err"
    is "$?" 3 "somebody else's pause is refused"
    like "$(cat "$tmp/err")" "belongs to another user" "and told why"
    is "$($other "$dynpipe" status -h | wc -l)" 0 "and the run is not shown"
else
    skip "somebody else's pause" "needs root and setpriv"
fi

"$dynpipe" watch -j 77 --interval 0.1 >"$tmp/watch" 2>&1 &
watcher=$!
wait_for 60 grep -q "step .* loss" "$tmp/watch"
ok $? "watch prints lines"
wait_for 60 saw_eval
like "$(grep "validation loss" "$tmp/watch")" "validation loss [0-9.]+, [0-9.]+ bits/byte" "and evaluations"
is "$(grep -c "validation loss.*validation loss" "$tmp/watch")" 0 "not twice in a line"
kill -TERM "$trainer"
wait "$trainer"
is "$?" 75 "the worker ends as asked"
wait "$watcher"
is "$?" 0 "watch ends with 0 when the run does"
done_testing
