#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs whose layers have copies on other nodes (--dynpipe-copies=1), and no checkpoint: workers are killed one after the other, the one
# that leads among them, until one is left; then, of another run, a whole node. The others go on with the step that was under way: each
# step's line is there once, and its loss is that of one worker alone, to the last bit.
# shellcheck disable=SC2046,SC2086,SC2154 # $run and pids are lists; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=10 prune.end=40 prune.every=10"
run_cluster --conf SlurmdTimeout=20

begin() { # NAME SBATCH-OPTIONS
    cat >"$D/$1.sh" <<X
#!/bin/bash
srun --mpi=none --no-kill --kill-on-bad-exit=0 -n 4 $(worker_command "$D/$1.jsonl" $run)
rc=\$?
[ \$rc = 75 ] || [ \$rc = 137 ] # 137: of those that are killed
X
    sbatch --parsable -J "$1" -N4 --gpus-per-node=1 --exclusive -o "$D/$1.out" --dynpipe=balance --dynpipe-policy=keep --dynpipe-copies=1 \
        "${@:2}" "$D/$1.sh"
}
regrouped() { [ "$(grep -c '"event":"regrouped"' "$D/$1.jsonl")" = "$2" ]; }
# All layers have copies, of that many workers.
are_copied() { [ "$(status "$1" "[.copies | .layers, .whole] + [[.workers[] | select(.copies.whole > 0)] | length] | tostring")" = "[8,8,$2]" ]; }
# end NAME JOB: asked to stop, it ends well, and made each step once.
end() {
    scancel --signal=TERM "$2"
    wait_for 120 job_ended "$2"
    is "$(job_state "$2")" COMPLETED "$1: the run ends well when it is asked to"
    losses "$D/$1.jsonl" | cut -d' ' -f1 >"$D/$1.made"
    runs "$1: each step's line is there, once" cmp "$D/$1.made" <(seq "$(wc -l <"$D/$1.made")")
    is "$(grep '"event":"regrouped"' "$D/$1.jsonl" | grep -vc 'no step is lost')" 0 "$1: and no step was said to be lost"
    is "$(find "$D" -name 'step-0*' | head -n 1)" "" "$1: there is no checkpoint"
    wait_for 60 all_nodes_idle
    ok $? "$1: every node is free afterwards"
}

job=$(begin one)
wait_for 120 steps_done "$D/one.jsonl" 50
ok $? "one: a run passes step 50"
n=0
for node in n3 n2 n1; do # worker 0, on n1, has no other layers than when it began; it leads
    wait_for 120 are_copied "$job" $((4 - n))
    ok $? "one: $((4 - n)) workers have a copy of each layer"
    n=$((n + 1))
    victim=$(workers_on "$job" $node | head -n 1)
    kill -KILL "$victim"
    wait_for 120 regrouped one $n
    ok $? "one: after kill -9 of the worker on $node the others go on"
    runs "one: and make steps" makes_steps one 20
    like "$(grep -h 'regrouped: ' "$D/one.out" | tail -n 1)" "worker [0-3] on $node was lost \(process $victim\).*no step is lost" "one: the user reads that no step is lost"
done
like "$(dynpipe report -j "$job" 2>&1)" "copies .*no other worker is left that could hold one" "one: report says why there are no copies now"
end one "$job"

job=$(begin node --no-kill)
wait_for 120 steps_done "$D/node.jsonl" 50
ok $? "node: a run passes step 50"
wait_for 120 are_copied "$job" 4
ok $? "node: each layer has a copy"
lose_node n4 "$job"
wait_for 150 regrouped node 1
ok $? "node: after a node is lost with all that runs there the others go on"
runs "node: and make steps" makes_steps node 20
like "$(cat "$D/node.out")" "worker 3 on n4 was lost .*no step is lost" "node: without a step lost"
said="at [0-9.]+ (s|min): worker 3 on n4 was lost .*; 3 workers go on from step [0-9]+ with .* from copies: no step is lost"
like "$(dynpipe report -j "$job" 2>&1 | tr -s ' \n' ' ')" "lost $said" "node: report says so, too"
wait_for 120 are_copied "$job" 3
ok $? "node: each layer has a copy again"
return_node n4
scontrol update nodename=n4 state=resume 2>/dev/null
end node "$job"

same_as_alone $run -- one node
done_testing
