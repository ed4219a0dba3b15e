#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a run promised when it gave nodes back, held against what is measured. Two workers a node. As long as
# others have the cores, measured times say that fewer nodes would not do, though device time says they would.
# Left alone, the run tries fewer nodes; others come while it does, and it takes the trial back, no node lost. Left
# alone again, it gives a node back. Then the others come once more: the miss is said everywhere, packing stops, and
# `dynpipe resume` lifts that. Who else uses this machine may make a trial fail, too: then it is resumed, as a user
# would, until one is kept.
# shellcheck disable=SC2016,SC2086,SC2154,SC2317 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

take_cores
cluster_up --nodes 3 --gpus 2 --cpus 2 --daemon-key 'report_ms = 500;' \
    --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" \
    --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock

# Others on the cores: whoever has them leaves the workers a hundredth of a second now and then. A signal does that
# whatever else runs here, and however many cores there are; longer and longer, until it shows.
others=
stop_and_go() { # SECONDS
    local node pids
    pids=$(for node in n1 n2 n3; do workers_on "$job" $node; done)
    trap 'kill -CONT $pids 2>/dev/null; exit' TERM
    while :; do
        kill -STOP $pids 2>/dev/null
        read -rt "$1" <&3
        kill -CONT $pids 2>/dev/null
        read -rt 0.02 <&3
    done
}
alone_again() {
    [ -z "$others" ] || { kill "$others"; wait "$others"; } 2>/dev/null
    others=
}
at_end+=(alone_again)
mkfifo "$D/nothing"
exec 3<>"$D/nothing" # nothing ever comes
# crowd CONDITION...: until it holds.
crowd() {
    local s
    for s in 0.1 0.3 1 2; do
        alone_again
        stop_and_go $s &
        others=$!
        wait_for 90 "$@" && return
    done
    return 1
}

quietly() { "$@" >/dev/null 2>&1; }

# As good as nothing is pruned, at a step after which the reference is known: two nodes of three are allowed twice
# the time, and need less.
cat >"$D/train.sh" <<X
#!/bin/bash
srun $mpi --no-kill --kill-on-bad-exit=0 -n 6 --ntasks-per-node=2 $(worker_command "$D/train.jsonl" $endless prune.begin=300 prune.end=301 prune.every=1 prune.final=0.01) || [ \$? = 75 ]
X
job=$(sbatch --parsable -J train -N3 --ntasks-per-node=2 --gpus-per-node=2 --exclusive -o "$D/train.out" \
    --dynpipe=release --dynpipe-min-gpus=4 --dynpipe-max-slowdown=50 --dynpipe-reference=start "$D/train.sh")
wait_for 60 job_is "$job" RUNNING
ok $? "a run of two tasks on each of three nodes starts"
wait_for 60 quietly dynpipe pause -j "$job"
promise() { status "$job" ".promise.$1"; }
is_true() { [ "$(status "$job" "$1")" = true ]; }
explains() { timeout 10 dynpipe explain -n 200 -j "$job" --json 2>/dev/null | jq -e "$1" >/dev/null; }
wait_for 240 steps_done "$D/train.jsonl" 320
wait_for 120 explains '[.explain.decisions[] | select(.step > 301 and .allowed_ms != null and .slots_after == 2)] | length > 0'
ok $? "paused, it knows what is allowed and would give a node back"

messages() { is_true '.promise.links | map(select(.ms < 1000)) | length == 2'; }
wait_for 120 messages
ok $? "how long messages between neighbouring nodes take is measured"
diag "$(promise 'links | tojson')"
is_shared() { is_true '.promise.shared | length > 0'; }
refuses() { is_shared && explains '[.explain.decisions[].pack_reason | select(test("nodes by device time, but a step would take"))] | length > 0'; }
crowd refuses
ok $? "by device time fewer nodes would do, by measured times not"

# A paused run begins no trial, and ends none: it is let go only for as long as eight reports take at least.
alone_again
would_again() { is_true '.last_decision.slots_after == 2'; }
wait_for 240 would_again
is_trying() { is_true .promise.trial; }
before=0
tries() {
    before=$(promise measured_ms)
    quietly dynpipe resume -j "$job"
    wait_for 1 is_trying
    quietly dynpipe pause -j "$job"
    is_trying && wait_for 60 is_judged && is_trying
}
is_judged() { [ "$(promise verdict)" != open ]; }
may_pack() { ! is_true .promise.packing_stopped; }
wait_for 240 tries
ok $? "when they have gone, it tries fewer nodes"
# Whatever the measurements scatter. What was as slow before is no reason to go back.
too_slow() { is_true ".promise | .measured_ms > 1.7 * .allowed_ms and .measured_ms > 2 * (${before:-0} // 0)"; }
crowd too_slow
ok $? "others come: a step of the trial takes longer than is allowed"
is "$(job_nodes "$job") $(promise trial)" "3 true" "no node left while it was paused"
quietly dynpipe resume -j "$job"
back='[.report.handovers[] | select(.outcome == "committed" and (.reason | test("back to the layout before the trial")))]'
report() { timeout 10 dynpipe report -j "$job" --json | jq -c "$1"; }
is_back() { [ "$(report "$back | length")" -ge 1 ] 2>/dev/null; }
wait_for 240 is_back
ok $? "the trial is taken back"
diag "$(report "${back}[0].reason")"
is "$(job_nodes "$job") $(status "$job" '[.slots[] | select(.state == "active")] | length')" "3 3" "no node is given up"
stop_step=$(report "${back}[0].step")

alone_again
given_back() { nodes_fewer "$job" 3 || { may_pack || quietly dynpipe resume -j "$job"; false; }; }
wait_for 300 given_back
ok $? "when they have gone, a node is given back"
is "$(report '[.report.handovers[] | select(.leavers > 0 and .moved_layers > 0)]')" "[]" \
    "nobody left before the step was measured on fewer nodes"
is_kept() { [ "$(promise verdict)" = kept ]; }
wait_for 240 is_kept
ok $? "the promise is kept"

crowd is_true .promise.packing_stopped
ok $? "others come again: packing stops"
diag "$(promise why)"
like "$(promise why)" 'a step takes [0-9.]+ ms.*, [0-9.]+ ms are allowed' "with the measured time and the allowed one"
for command in status explain report; do
    like "$(COLUMNS=200 dynpipe $command -j "$job")" 'promise .*packing is stopped: .*a step takes' "$command says it"
done
like "$(timeout 3 dynpipe watch --plain -j "$job")" 'promise missed, packing stops: ' "watch says it"
alone_again
wait_for 60 quietly dynpipe resume -j "$job"
lifted() { may_pack || { quietly dynpipe resume -j "$job"; false; }; }
wait_for 60 lifted
ok $? "resume lifts it"
end_run "$job" train
is "$(drained_nodes)" "" "no node is drained"

# Up to some steps after the trial was taken back: one worker alone needs longer.
losses "$D/train.jsonl" | head -n $((stop_step + 30)) >"$D/train.loss"
alone "$D/alone.jsonl" $endless prune.begin=300 prune.end=301 prune.every=1 prune.final=0.01 train.steps="$(wc -l <"$D/train.loss")"
ok $? "one worker alone trains as far"
losses "$D/alone.jsonl" >"$D/alone.loss"
runs "every loss is bit for bit that of one worker alone" cmp "$D/alone.loss" "$D/train.loss"
done_testing
