#!/bin/bash
# What a run promised when it gave nodes back, held against what is measured. Two workers a node. As long as
# others have the cores, measured times say that fewer nodes would not do, though device time says they would.
# Left alone, the run tries fewer nodes, measures, and only then gives one back. Then the others come again:
# the miss is said everywhere, packing stops, and `dynpipe resume` lifts that.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

cluster_up --nodes 3 --gpus 2 --cpus 2 \
    --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" \
    --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock

# Others on the cores: all workers on one core, and with them eight that only count.
all=$(taskset -cp $$ | sed 's/.*: //') core=$(taskset -cp $$ | sed 's/.*: //;s/[-,].*//')
spinners=()
pin_workers() { # CORES
    local node pid
    for node in n1 n2 n3; do
        for pid in $(workers_on "$job" $node); do taskset -acp "$1" "$pid" >/dev/null 2>&1; done
    done
}
crowd() {
    pin_workers "$core"
    for _ in 1 2 3 4 5 6 7 8; do
        setsid taskset -c "$core" sh -c 'while :; do :; done' & # each a session: that is what shares are given to
        spinners+=($!)
    done
}
alone_again() {
    kill "${spinners[@]}"
    wait "${spinners[@]}" 2>/dev/null
    spinners=()
    pin_workers "$all"
}
# shellcheck disable=SC2317 # called at the end of the test
stop_spinners() { [ ${#spinners[@]} -eq 0 ] || kill "${spinners[@]}"; }
at_end+=(stop_spinners)

quietly() { "$@" >/dev/null 2>&1; }

# As good as nothing is pruned, at a step after which the reference is known: two nodes of three are allowed twice
# the time, and need less.
cat >"$D/train.sh" <<X
#!/bin/bash
srun --mpi=pmix --no-kill --kill-on-bad-exit=0 -n 6 --ntasks-per-node=2 $(worker_command "$D/train.jsonl" $endless prune.begin=300 prune.end=301 prune.every=1 prune.final=0.01) || [ \$? = 75 ]
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

crowd
wait_for 120 is_true '.promise.shared | length > 0'
ok $? "that others have its cores is measured"
slow() { is_true '.promise | .measured_ms > .allowed_ms'; }
wait_for 120 slow
quietly dynpipe resume -j "$job"
wait_for 120 explains '[.explain.decisions[].pack_reason | select(test("slots by device time, but a step would take"))] | length > 0'
ok $? "by device time fewer nodes would do, by measured times not"
is "$(job_nodes "$job") $(status "$job" '[.slots[] | select(.state == "active")] | length')" "3 3" "no node is given up"

alone_again
wait_for 240 nodes_fewer "$job" 3
ok $? "when they have gone, a node is given back"
report() { timeout 10 dynpipe report -j "$job" --json | jq -c "$1"; }
is "$(report '[.report.handovers[] | select(.leavers > 0 and .moved_layers > 0)]')" "[]" \
    "nobody left before the step was measured on fewer nodes"
is_kept() { [ "$(promise verdict)" = kept ]; }
wait_for 120 is_kept
ok $? "the promise is kept"

crowd
wait_for 240 is_true .promise.packing_stopped
ok $? "others come again: packing stops"
diag "$(promise why)"
like "$(promise why)" 'a step takes [0-9.]+ ms.*, [0-9.]+ ms are allowed' "with the measured time and the allowed one"
for command in status explain report; do
    like "$(COLUMNS=200 dynpipe $command -j "$job")" 'promise .*packing is stopped: .*a step takes' "$command says it"
done
like "$(timeout 3 dynpipe watch --plain -j "$job")" 'promise missed, packing stops: ' "watch says it"
alone_again
wait_for 60 quietly dynpipe resume -j "$job"
lifted() { is_true '.promise.packing_stopped | not'; }
wait_for 60 lifted
ok $? "resume lifts it"
end_run "$job" train
is "$(drained_nodes)" "" "no node is drained"
done_testing
