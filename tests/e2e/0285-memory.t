#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Host memory that pruning frees goes back to Slurm while the job runs: what squeue and scontrol show falls, a job that
# waits for that memory on both nodes starts, sacct has a record of each size, and the run goes on with the losses of one
# that was left alone. Where Slurm cannot do that, sbatch and `dynpipe status` say why.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
# shellcheck source=tests/e2e/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/e2e/lib.sh"

run="$endless prune.begin=5 prune.end=30 prune.every=5 model.blocks=4 model.channels=384 model.context=16 train.batch=1 train.microbatches=1"
limits="hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 1; confirm_s = 1.0; memory_margin = 10;"
dbd=
if command -v slurmdbd >/dev/null && command -v mariadbd >/dev/null; then dbd=--dbd; fi
take_cores
cluster_up --nodes 2 $dbd --gpus 1 --cpus 2 --mem 1000 --daemon-key 'report_ms = 250;' --daemon-conf "run: { $limits };" \
    --conf 'SelectTypeParameters=CR_Core_Memory' --conf 'PrologFlags=Contain' \
    --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock"
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock

cat >"$D/train.sh" <<X
#!/bin/bash
srun $mpi --no-kill --kill-on-bad-exit=0 -n 2 $(worker_command "$D/train.jsonl" $run) || [ \$? = 75 ]
X
job=$(sbatch --parsable -J train -N2 -n2 -c1 --mem=900 --no-requeue --dynpipe=release --dynpipe-min-gpus=2 --dynpipe-memory -o "$D/train.out" \
    "$D/train.sh" 2>"$D/sbatch.err")
memory() { scontrol show job "$1" | sed -n 's/.*MinMemoryNode=\([0-9.]*[MG]*\).*/\1/p'; }

text_is_there() { [ -n "$(status "$job" '.memory.text // ""')" ]; }
if grep -q 'dynpipe-memory does nothing here' "$D/sbatch.err"; then
    ok 0 "this Slurm cannot, and sbatch says so"
    wait_for 120 text_is_there
    like "$(status "$job" .memory.text)" 'cannot take memory back from a running job' "status says so, too"
    wait_for 120 steps_done "$D/train.jsonl" 31
    is "$(memory "$job")" 900M "and the job keeps its memory"
else
    waiting=$(sbatch --parsable -J waiting -N2 -n2 -c1 --mem=700 -o "$D/waiting.out" --wrap "sleep 1")
    given_back() { local mb; mb=$(status "$job" '.memory.given_mb // 0'); [ "${mb:-0}" -gt 0 ] && [ "$mb" -lt 260 ]; }
    wait_for 180 given_back
    ok $? "memory is given back"
    given=$(status "$job" .memory.given_mb)
    is "$(memory "$job")" "${given}M" "scontrol shows what status says"
    is "$(squeue -h -j "$job" -O MinMemory | tr -d ' ')" "${given}M" "and squeue"
    if [ -n "$dbd" ]; then
        records() { sacct -D -X -n -P -j "$job" -o "State,AllocTRES" | sed 's/|.*mem=\([0-9]*[MG]\).*/ \1/'; }
        last_record() { [ "$(records | tail -n 1)" = "RUNNING $((2 * given))M" ]; }
        wait_for 60 last_record
        ok $? "and sacct, for two nodes"
        is "$(records | head -n 1)" "RESIZING 1800M" "and what it was before"
    fi
    runs "what was dense has gone ($given MiB of 900)" test "$given" -lt 260
    wait_for 120 job_ended "$waiting"
    is "$(job_state "$waiting")" COMPLETED "a job that waited for that memory on both nodes has run"
    is "$(job_state "$job")" RUNNING "while the run went on"
    like "$(dynpipe status -j "$job")" 'memory .* of .* per node' "dynpipe status says so"
    makes_steps train
    ok $? "and it trains on with what it kept"
fi
end_run "$job" train
same_as_alone $run -- train
is "$(drained_nodes)" "" "no node is drained"
done_testing
