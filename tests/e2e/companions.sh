# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
# What the tests of companions share: a job of one GPU that asks Slurm for the others. Source it after lib.sh.

# job NAME SBATCH-OPTIONS -- OVERRIDES: a job that asks for its companions; prints its id. Output in NAME.JOB.out.
job_first=true # a line of its script, before the training
job_args=()    # of its script
job() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    cat >"$D/$name.sh" <<X
#!/bin/bash
$job_first
srun -n1 $(worker_command "$D/$name.jsonl" "$@") || [ \$? = 75 ]
X
    sbatch --parsable -J "$name" -n1 -c1 --gpus=1 --mem=500 -t 60 -o "$D/$name.%j.out" "${options[@]}" "$D/$name.sh" "${job_args[@]}"
}
family() { squeue -h -t all -o '%A %T %j %k' | awk -v j="$1" '$1 == j || $0 ~ ("dynpipe: slice of " j "$")' | sort -n; } # HOME
states() { family "$1" | awk '{print $2}' | sort | uniq -c | awk '{printf "%s%s %s", (NR > 1 ? ", " : ""), $1, $2}'; }
states_are() { [ "$(states "$1")" = "$2" ]; }
all_ended() { ! family "$1" | grep -qE 'PENDING|RUNNING|COMPLETING'; }
n_submitted() { cat "$D"/log/dynpiped.n*.log | sed -n "s/.* job=$1 companions: \([0-9]*\) submitted.*/\1/p" | awk '{n += $1} END {print n + 0}'; }
