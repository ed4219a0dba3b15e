# SPDX-License-Identifier: BSD-3-Clause
# What every test on a private Slurm starts with; source it after setting nothing but DP_SRCDIR and
# DP_BUILDDIR: . "$DP_SRCDIR/tests/lib/cluster-test.sh"
#
# Gives: $D (the cluster's directory, removed at the end when all tests passed), cluster_up OPTIONS,
# cluster COMMAND [ARGS] (cluster.sh on $D), $mpi (of cluster.sh mpi), conditions for wait_for, and an exit trap that stops
# everything. On the first failed test the ends of all logs are printed. DP_KEEP=1 keeps $D.
# shellcheck shell=bash disable=SC2034

: "${DP_SRCDIR:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
export DP_SRCDIR DP_BUILDDIR
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=tests/lib/tap.sh
. "$DP_SRCDIR/tests/lib/tap.sh"
# shellcheck source=tests/lib/cores.sh
. "$DP_SRCDIR/tests/lib/cores.sh"

unset SLURM_CONF
for v in "${!SLURM_@}" "${!SBATCH_@}" "${!SALLOC_@}" "${!DYNPIPE_@}"; do unset "$v"; done

for p in munged slurmctld slurmd srun; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done

D=$(mktemp -d "${TMPDIR:-/tmp}/dpXXXXXX") || bail "no temporary directory"
chmod 755 "$D"

cluster() {
    local command=$1
    shift
    "$DP_SRCDIR/tests/lib/cluster.sh" "$command" "$D" "$@"
}

cluster_logs() { cluster logs "${1:-60}"; }

# Commands that a test wants run at its end, however it ends, before the cluster goes down.
at_end=()

cluster_end() {
    local rc=$? c
    trap - EXIT
    for c in "${at_end[@]}"; do $c; done
    cluster down
    leave_cores
    if [ $rc -eq 0 ] && [ -z "${DP_KEEP:-}" ]; then rm -rf "$D"; else diag "left for a look: $D"; fi
    exit $rc
}
trap 'case $BASHPID in $$) cluster_end ;; esac' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cluster_up() {
    cluster up "$@" || bail "no cluster: $*"
    export SLURM_CONF=$D/etc/slurm.conf
    on_failure=cluster_logs
    mpi=$(cluster mpi)
    # Slurm writes slurm-N.out into the working directory.
    cd "$D" || bail "cannot enter $D"
}

# ---- conditions and short questions --------------------------------------------------------------

job_state() { scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n1; }
job_is() { [ "$(job_state "$1")" = "$2" ]; }
job_ended() {
    case $(job_state "$1") in
        COMPLETED | FAILED | CANCELLED | TIMEOUT | PREEMPTED | NODE_FAIL | OUT_OF_MEMORY | "") return 0 ;;
    esac
    return 1
}
# slurmctld writes its state some seconds after it changed, and only then; what it has not written is
# lost when it is killed. So the job is changed now, and with that everything before is written too.
job_is_saved() { [ "$D/state/job_state" -nt "$D/saving.$1" ]; }
wait_until_saved() { # JOB
    touch "$D/saving.$1"
    scontrol update JobId="$1" Comment=saved && wait_for 60 job_is_saved "$1"
}
node_state() { sinfo -h -n "$1" -o %T | head -n1; }
node_is() { [ "$(node_state "$1")" = "$2" ]; }
all_nodes_idle() { [ "$(sinfo -h -o %T | sort -u)" = idle ]; }
file_has() { grep -qE -- "$2" "$1" 2>/dev/null; }
drained_nodes() { sinfo -h -o '%n %T %E' -N | grep -E 'drain|down|fail' | sort -u; }
