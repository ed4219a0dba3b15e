#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs of the fault campaign (tests/campaign), always with the same plans: whole nodes and slices, workers and daemons that are killed
# or stopped, disks whose power is cut, journals that cannot be written, clocks that jump, answers that get lost, a network that is
# cut, preemption, cancelling and requeueing during hand-overs and releases.
#
# It fails on a violation alone, which no slow machine explains: a process of a run alive on what Slurm gave to others, a loss that
# differs, a journal that contradicts itself or what was told, a release without its proof, a daemon that died. It fails, too, when
# not one run could be judged. What a run should have got to and has not (it "fell short") is told with its reason, and no failure: on
# a busy machine something always comes too late. So how many are played is the machine's affair: none begins after BEGIN_S.
# What Slurm 22.05 does not survive in order (--spare-slurm) is not done here.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
export DP_SRCDIR DP_BUILDDIR
# shellcheck source=tests/lib/cores.sh
. "$DP_SRCDIR/tests/lib/cores.sh"
SEED=6
RUNS=30
BEGIN_S=480 # all begin within that where other tests alone run beside them
[ "$(id -u)" = 0 ] || skip_all "only root can stop a daemon at its records"
for p in munged slurmctld slurmd srun strace bible jq; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done
T=$(mktemp -d "${TMPDIR:-/tmp}/dpXXXXXX") && chmod 755 "$T" || bail "no temporary directory" # munged wants to be reached by all
campaign=
cleanup() {
    local rc=$?
    trap - EXIT TERM
    [ -z "$campaign" ] || { kill -TERM $campaign 2>/dev/null; wait $campaign; }
    leave_cores
    if [ $rc = 0 ]; then rm -rf "$T"; else diag "left for a look: $T/runs"; fi
    exit $rc
}
trap 'case $BASHPID in $$) cleanup ;; esac' EXIT
trap 'exit 143' TERM

take_core
"$DP_SRCDIR/tests/campaign" --seed $SEED --runs $RUNS --kind node_shrink,slices --spare-slurm --jobs 2 --seconds $BEGIN_S --dir "$T/runs" \
    >"$T/said" 2>&1 &
campaign=$!
wait $campaign
status=$?
campaign=
diag "$(cut -c1-500 "$T/said")"
like "$status" "^[013]$" "the campaign is played"
totals=$(sed -nE "s/^$RUNS runs in [0-9]+ s: ([0-9]+) with violations, [0-9]+ fell short, ([0-9]+) not played, .*/\1 \2/p" "$T/said")
read -r violations unplayed <<<"$totals"
is "${violations:-not told}" 0 "no run has a violation"
judged=$((RUNS - ${unplayed:-$RUNS}))
diag "$judged runs are judged"
runs "at least one run is judged" test $judged -gt 0
done_testing
