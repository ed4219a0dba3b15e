#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Workers that a plain srun started meet through the daemons: with two tasks on a node, with layers that move and a node that
# is given back; a rank that never comes is named, and nobody hangs. Losses are those of one worker and of a run under PMIx.
# shellcheck disable=SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=20 prune.end=120 prune.every=20"
take_cores
run_cluster --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'

# short NAME SRUN-OPTIONS -- OVERRIDES: 30 steps of four workers on two nodes
short() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    sbatch --parsable -J "$name" -N2 -n4 --ntasks-per-node=2 --dynpipe=balance -o "$D/$name.out" --wrap \
        "srun ${options[*]} $(worker_command "$D/$name.jsonl" $run train.steps=30 prune.end=20 "$@")"
}
ended_well() { # JOB NAME
    wait_for 120 job_ended "$1"
    is "$(job_state "$1")" COMPLETED "$2: the run ends well"
    is "$(losses "$D/$2.jsonl" | wc -l)" 30 "$2: after all its steps"
}

# Worker 3 never begins, and its task hangs.
cat >"$D/missing.task" <<X
#!/bin/bash
[ "\$SLURM_PROCID" != 3 ] || exec sleep 1000
exec $(worker_command "$D/missing.jsonl" $run)
X
chmod +x "$D/missing.task"

plain=$(short plain --mpi=none --)
missing=$(sbatch --parsable -N2 -n4 --ntasks-per-node=2 --dynpipe=balance -o "$D/missing.out" --export=ALL,DYNPIPE_WIREUP_S=12 \
    --wrap "srun --mpi=none --no-kill --kill-on-bad-exit=0 $D/missing.task")
at_host() { dynpipe status --node "$(scontrol show job "$missing" | sed -n 's/.*BatchHost=//p')" "$@" 2>&1; }
names_it() { at_host | grep -qE "job $missing: 3 of 4 workers have arrived; nothing heard from worker 3 on n4 in [0-9]+ s"; }
runs "missing: status says who the others wait for" wait_for 60 names_it
like "$(at_host -j "$missing")" "3 of 4 workers have arrived; nothing heard from worker 3 on n4" "missing: with -j, too"
ended_well "$plain" plain
unlike "$(cat "$D/plain.out")" "waits for the others" "plain: nobody has to be warned"
like "$(cat "$D"/log/dynpiped.n*.log)" "job=$plain step=0 all 4 workers have arrived to wire up" "plain: by way of the daemons"
wait_for 120 job_ended "$missing"
is "$(job_state "$missing")" FAILED "missing: a run that lacks a worker is ended"
like "$(cat "$D/missing.out")" "worker 0 of 4: nothing heard from worker 3 on n4 in [0-9]+ s: the run cannot begin" "missing: it is named, with its node"
is "$(grep -c "nothing heard from" "$D/missing.out")" 1 "missing: once"

if [ -n "$mpi" ]; then
    pmix=$(short pmix --mpi=pmix --)
    forced=$(short forced --mpi=pmix -- pipeline.wireup=daemon)
    ended_well "$pmix" pmix
    ended_well "$forced" forced
    unlike "$(cat "$D"/log/dynpiped.n*.log)" "job=$pmix step=0 all 4 workers" "pmix: with PMIx there, it is taken"
    like "$(cat "$D"/log/dynpiped.n*.log)" "job=$forced step=0 all 4 workers" "forced: unless the daemons are asked for"
    for name in pmix forced; do
        runs "$name: the losses are those of the plain run" cmp <(losses "$D/plain.jsonl") <(losses "$D/$name.jsonl")
    done
else
    skip "the same with PMIx" "this Slurm has no mpi/pmix"
fi
wait_for 60 all_nodes_idle

cat >"$D/release.sh" <<X
#!/bin/bash
srun --mpi=none --no-kill --kill-on-bad-exit=0 -n 4 $(worker_command "$D/release.jsonl" $run) || [ \$? = 75 ]
X
release=$(sbatch --parsable -N4 --gpus-per-node=1 --exclusive $release -o "$D/release.out" "$D/release.sh")
wait_for 240 nodes_fewer "$release" 4
ok $? "release: layers move, and a node is given back"
end_run "$release" release
unlike "$(cat "$D/release.out")" "dynpipe-worker error" "release: nobody complains of a worker that left early"

same_as_alone $run -- release
is "$(drained_nodes)" "" "no node is drained"
done_testing
