#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Trainers that do not keep to their word (tests/e2e/odd_trainer.py), all on the same nodes as a run that does: one that always votes
# no, one that lies about times, one that votes with a digest of its own, one that talks without end. Each hurts its own job at
# most: its layers stay where they are, and the other run does not notice. One that never leaves has its node held until its
# process is proved gone.
# shellcheck disable=SC2086,SC2154 # lists of options; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"
# shellcheck source=tests/e2e/torch.sh
. "$DP_SRCDIR/tests/e2e/torch.sh"

odd="$python $DP_SRCDIR/tests/e2e/odd_trainer.py"
run="$endless prune.begin=20 prune.end=80 prune.every=20"
take_cores
run_cluster --gpus 5 --cpus 10 --mem 4000 --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; grace_s = 3.0; };'
daemons() { cat "$D"/run/dynpiped.n?.pid; }
before=$(daemons)

# ---- side by side ------------------------------------------------------------------------------------

declare -A jobs
for how in refuses tells-tales lies floods; do
    jobs[$how]=$(torch_run $how -n4 --mem=500 --dynpipe=balance -- $odd $how "$example")
done
cat >"$D/honest.sh" <<X
#!/bin/bash
srun $mpi --no-kill --kill-on-bad-exit=0 -n 4 $(worker_command "$D/honest.jsonl" $run) || [ \$? = 75 ]
X
honest=$(sbatch --parsable -J honest -N4 -n4 --mem=500 --gpus-per-node=1 --dynpipe=balance -o "$D/honest.out" "$D/honest.sh")
wait_for 300 steps_done "$D/honest.jsonl" 5
ok $? "a run that keeps to its word trains beside them"
for how in "${!jobs[@]}"; do
    wait_for 300 foreign_steps_done "$D/$how.out" 5
    ok $? "$how: trains"
done

aborted() { # JOB REASON
    dynpipe report -j "$1" --json | jq -e --arg why "$2" '[.report.handovers[] | select(.outcome == "aborted" and (.reason | test($why)))] | length > 0' >/dev/null
}
wait_for 300 aborted "${jobs[refuses]}" "not told the same|does not ask for it"
ok $? "refuses: its hand-over is aborted, and says why"
wait_for 300 aborted "${jobs[lies]}" "another digest"
ok $? "lies: the daemon sees another digest, and aborts"
wait_for 300 file_has "$D/log/dynpiped.n1.log" "events were not taken"
ok $? "floods: most of what it says is not taken"
for how in "${!jobs[@]}"; do
    torch_makes_steps $how 10
    ok $? "$how: goes on"
done
for how in refuses lies; do
    is "$(dynpipe report -j "${jobs[$how]}" --json | jq '[.report.handovers[] | select(.outcome == "committed")] | length')" 0 "$how: no layer moved"
done
wait_for 300 steps_done "$D/honest.jsonl" 100
ok $? "the other run comes behind its last pruning"
for how in "${!jobs[@]}"; do end_torch "${jobs[$how]}" $how; done
end_run "$honest" honest
is "$(daemons)" "$before" "no daemon has ended"
for n in 1 2 3 4; do runs "that of n$n is there" kill -0 "$(cat "$D/run/dynpiped.n$n.pid")"; done
is "$(drained_nodes)" "" "no node is drained"

# ---- one that never leaves -----------------------------------------------------------------------------

job=$(torch_run stays --exclusive --mem=0 $release --dynpipe-min-gpus=3 -- $odd stays "$example")
wait_for 300 nodes_fewer "$job" 4
ok $? "stays: the node is given back all the same"
pid=$(sed -n 's/^pid \([0-9]*\) stays$/\1/p' "$D/stays.out" | head -n 1)
isnt "$pid" "" "stays: its process said that it stays"
runs "stays: and was ended before" dead "$pid"
torch_makes_steps stays 10
ok $? "stays: the others go on"
touch "$D/stays.stop"
wait_for 120 job_ended "$job"
is "$(drained_nodes)" "" "no node is drained"

same_as_fixed "${!jobs[@]}" stays
same_as_alone $run -- honest
done_testing
