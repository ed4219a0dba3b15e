#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The harness itself: a private Slurm comes up, runs jobs, survives restarts and goes without trace,
# for root and for an ordinary user.
# shellcheck disable=SC2016,SC2034,SC2154 # jobs expand their own variables; the rest is tap.sh's
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"

probe=$DP_BUILDDIR/tests/lib/pmix_probe

no_process_left() { # PID...
    local p state
    for p; do
        # One that is reaped meanwhile has no status, and is none that is left.
        state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$p/status" 2>/dev/null)
        case $state in "" | [ZX]*) ;; *) diag "$p is left: $state"; return 1 ;; esac
    done
}

# A task that ignores TERM and has a child of its own that left the session: the worst to clean up.
cat >"$D/stubborn.sh" <<'X'
#!/bin/bash
trap '' TERM
setsid sleep 1000 &
echo up >"$1"
while :; do sleep 1000; done
X
chmod +x "$D/stubborn.sh"

t0=${EPOCHREALTIME/[.,]/}
cluster_up --nodes 4 --gpus 2 --no-daemon
up_ms=$(((${EPOCHREALTIME/[.,]/} - t0) / 1000))
diag "up in $up_ms ms"
is "$(sinfo -h -t idle -o %D)" 4 "four nodes are idle"

# ---- jobs
names=$(srun -N4 bash -c 'echo $SLURMD_NODENAME' | sort | tr '\n' ' ')
is "$names" "n1 n2 n3 n4 " "srun reaches every node, and a task knows the name of its node"
is "$(srun -N1 --gpus=2 bash -c 'echo $CUDA_VISIBLE_DEVICES')" "0,1" "a task sees its fake GPUs"
if [ -n "$mpi" ]; then
    is "$(srun $mpi -N4 -n4 timeout 60 "$probe" | sort | tr '\n' ' ')" \
        "rank 0 of 4 rank 1 of 4 rank 2 of 4 rank 3 of 4 " "srun --mpi=pmix wires up four nodes"
else
    skip "srun --mpi=pmix wires up four nodes" "this Slurm has no mpi/pmix"
fi

# ---- waiting
first=$(sbatch --parsable --exclusive -N4 --wrap 'sleep 300')
wait_for 60 job_is "$first" RUNNING
ok $? "a job that takes all nodes starts"
second=$(sbatch --parsable --exclusive -N1 -o "$D/second.out" --wrap 'echo it runs')
job_is "$second" PENDING
ok $? "the next job waits"
scancel "$first"
wait_for 60 job_is "$second" COMPLETED
ok $? "and starts once the first is gone"
is "$(cat "$D/second.out")" "it runs" "with its output where it belongs"

# ---- restarts
third=$(sbatch --parsable -N1 -w n2 --wrap 'sleep 300')
wait_for 60 job_is "$third" RUNNING
wait_until_saved "$third"
cluster stop slurmctld KILL
isnt "$(timeout 2 sinfo -h -o %D 2>/dev/null)" 4 "a killed controller answers nobody"
cluster restart-slurmd 2
cluster start slurmctld
wait_for 60 job_is "$third" RUNNING
ok $? "the job survives a killed controller and a restarted slurmd"
scancel "$third"
wait_for 60 all_nodes_idle
ok $? "and its node comes back"

# ---- two at once
E=$(mktemp -d "${TMPDIR:-/tmp}/dpXXXXXX")
"$DP_SRCDIR/tests/lib/cluster.sh" up "$E" --nodes 1 --no-daemon
ok $? "a second cluster beside the first"
is "$(SLURM_CONF=$E/etc/slurm.conf srun bash -c 'echo $SLURMD_NODENAME')" n1 "runs jobs of its own"
"$DP_SRCDIR/tests/lib/cluster.sh" down "$E"
is "$("$DP_SRCDIR/tests/lib/cluster.sh" pids "$E")" "" "and goes alone"
rm -rf "$E"
is "$(sinfo -h -t idle -o %D)" 4 "the first is still whole"

# ---- down
sbatch --parsable -N1 --wrap "exec '$D/stubborn.sh' '$D/stubborn.up'" >/dev/null
wait_for 60 test -s "$D/stubborn.up"
ok $? "a job runs that does not listen to TERM"
mapfile -t pids < <(cluster pids)
runs "the harness knows its processes (${#pids[@]})" test "${#pids[@]}" -ge 9
t0=${EPOCHREALTIME/[.,]/}
cluster down
diag "down in $(((${EPOCHREALTIME/[.,]/} - t0) / 1000)) ms"
no_process_left "${pids[@]}"
ok $? "after down none of them is left"
is "$(cluster pids)" "" "and nothing else of this cluster"

# ---- as an ordinary user
if [ "$(id -u)" -ne 0 ]; then
    skip "the same as an ordinary user" "this is an ordinary user"
    done_testing
fi
# Not nobody: to Slurm 26.05 that name is no user's.
user=$(id -u daemon 2>/dev/null) || bail "there is no user daemon"
U=$(mktemp -d "${TMPDIR:-/tmp}/dpXXXXXX")
# The checkout may lie where another user cannot look.
cp "$DP_SRCDIR/tests/lib/cluster.sh" "$probe" "$U/"
mkdir "$U/c"
chmod 755 "$U"
chown -R "$user:$user" "$U"
as_user() {
    (cd "$U" && exec setpriv --reuid="$user" --regid="$user" --clear-groups env HOME="$U" \
        SLURM_CONF="$U/c/etc/slurm.conf" "$@")
}
end_user() { as_user ./cluster.sh down "$U/c"; }
at_end+=(end_user)
on_failure="as_user ./cluster.sh logs $U/c"
as_user ./cluster.sh up "$U/c" --nodes 2 --no-daemon
ok $? "an ordinary user brings up a cluster"
is "$(as_user srun -N2 id -u | sort -u)" "$user" "and runs jobs as himself"
if [ -n "$mpi" ]; then
    is "$(as_user srun $mpi -N2 -n2 timeout 60 ./pmix_probe | sort | tr '\n' ' ')" "rank 0 of 2 rank 1 of 2 " "with PMIx"
else
    skip "with PMIx" "this Slurm has no mpi/pmix"
fi
job=$(as_user sbatch --parsable -o "$U/job.out" --wrap 'srun hostname')
SLURM_CONF=$U/c/etc/slurm.conf wait_for 60 job_is "$job" COMPLETED
ok $? "and batch jobs"
mapfile -t pids < <(as_user ./cluster.sh pids "$U/c")
as_user ./cluster.sh down "$U/c"
no_process_left "${pids[@]}"
ok $? "after down none of its ${#pids[@]} processes is left"
[ "$tap_failed" -eq 0 ] && rm -rf "$U"

done_testing
