# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # who sources it has $D, the folder of a private Slurm (cluster.sh), and SLURM_CONF
# Processes of jobs on one node of a private Slurm, and the loss of a node. For tests and ./demo.

# Processes of a job on a node: its tasks and what they start carry both in their environment.
tasks_on() { # JOB NODE
    local f
    for f in /proc/[0-9]*/environ; do
        { LC_ALL=C grep -qzxF "SLURM_JOB_ID=$1" "$f" && LC_ALL=C grep -qzxF "SLURMD_NODENAME=$2" "$f" &&
            LC_ALL=C grep -qzxF "SLURM_CONF=$SLURM_CONF" "$f"; } 2>/dev/null || continue
        f=${f#/proc/}
        echo "${f%/environ}"
    done
}
# Those of them that train.
workers_on() { # JOB NODE
    local p
    for p in $(tasks_on "$1" "$2"); do
        case $(readlink "/proc/$p/exe" 2>/dev/null) in */dynpipe-worker) echo "$p" ;; esac
    done
}
# The step daemons that they descend from.
step_daemons_on() { # JOB NODE
    local p up
    for p in $(tasks_on "$1" "$2"); do
        while up=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$p/stat" 2>/dev/null) && [ "${up:-0}" -gt 1 ]; do
            p=$up
            [ "$(cat "/proc/$p/comm" 2>/dev/null)" != slurmstepd ] || echo "$p"
        done
    done | sort -un
}
# lose_node NODE JOB...: slurmd, daemon and all of these jobs there die at once.
lose_node() {
    local node=$1 job
    shift
    # shellcheck disable=SC2046 # lists
    kill -KILL $(cat "$D/run/slurmd.$node.pid" "$D/run/dynpiped.$node.pid") $(for job; do step_daemons_on "$job" "$node"; tasks_on "$job" "$node"; done)
    rm -f "$D/run/slurmd.$node.pid" "$D/run/dynpiped.$node.pid"
}
# return_node NODE: as after a boot that empties SlurmdSpoolDir and TmpFS, because Slurm 22.05 starts no step of the same number where a
# killed step daemon left its folders for PMIx. The daemon finds its own files.
return_node() {
    rm -rf "${D:?}/spool/$1"/* "$D/tmp/$1"/*
    cluster start "slurmd:$1"
    cluster start "daemon:$1"
}
