# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2016,SC2086,SC2154,SC2317 # jobs expand their own variables; the rest is lib.sh's
# What the tests of slices share: job arrays that are one run, on two nodes (or slices_nodes) of four GPUs. Source it after lib.sh.

# slices_hysteresis: the gain in percent from which on layers move for speed alone. Where workers share cores, a run may gain from one
# that has none.
slices_cluster() { # SECONDS-TO-WAIT-FOR-SLICES OTHER-KEYS-OF-THE-DAEMON
    cluster_up --nodes "${slices_nodes:-2}" --gpus 4 --cpus 8 --daemon-key "report_ms = 250; slices_wait_s = $1; ${2:-}" \
        --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock" \
        --daemon-conf "run: { hysteresis = ${slices_hysteresis:-1.0}; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };"
    export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/run/dynpiped-n1.sock
}

# array NAME TASKS SBATCH-OPTIONS -- OVERRIDES: a run of slices; prints the array's id. Output in NAME.TASK.out. slices_before: a command
# of the script in front of its step.
array() {
    local name=$1 tasks=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X
#!/bin/bash
${slices_before:-}
srun -n1 $(worker_command "$D/$name.jsonl" "$@") || [ \$? = 75 ]
X
    sbatch --parsable -J "$name" --array="$tasks" -n1 -c1 --gpus=1 --mem=500 -o "$D/$name.%a.out" "${options[@]}" "$D/$name.sh"
}

# Two GPUs of each of these nodes are another job's: ${blocker[NUMBER]}.
block_two_gpus() { # NUMBER...
    local n
    for n; do
        blocker[n]=$(sbatch --parsable -w "n$n" -n1 -c1 --gpus=2 --mem=100 --no-requeue -o "$D/block$n.out" --wrap "sleep 1000")
        wait_for 60 job_is "${blocker[n]}" RUNNING
    done
}

states() { squeue -h -r -t all -j "$1" -o %T | sort | uniq -c | awk '{printf "%s%s %s", (NR > 1 ? ", " : ""), $1, $2}'; } # ARRAY
states_are() { [ "$(states "$1")" = "$2" ]; }
all_ended() { ! squeue -h -r -t all -j "$1" -o %T | grep -qE 'PENDING|RUNNING|COMPLETING'; }
task_is() { [ "$(squeue -h -r -t all -j "$1" -o %T)" = "$2" ]; } # ARRAY_TASK
# The job whose run it is: the daemons say so.
home_of() { sed -n "s/.* job=\([0-9]*\) the run begins with .*/\1/p" "$D"/log/dynpiped.n*.log | while read -r j; do
    case " $(squeue -h -r -t all -j "$1" -o %A | tr '\n' ' ')" in *" $j "*) echo "$j" ;; esac done | tail -n1; }
end_array() { # ARRAY NAME
    scancel --signal=TERM "$1"
    wait_for 120 all_ended "$1"
    is "$(cat "$D/$2".*.out | grep -i 'exit code' | grep -v 'exit code 75')" "" "$2: no worker fails"
}
