#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Where Slurm gives each job a /tmp and a /dev/shm of its own (job_container/tmpfs, from 25.11 on namespace/tmpfs), a run
# gives nodes back as anywhere, and losses stay. A daemon whose socket lies in the node's /tmp is seen by slurmstepd and
# not by the tasks: they say so, train on with a fixed layout, and `dynpipe check` says what to do.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's
export TMPDIR=/var/tmp # what is in /tmp no job sees
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
export DP_SRCDIR
# shellcheck source=tests/e2e/lib.sh
. "$DP_SRCDIR/tests/e2e/lib.sh"

[ "$(id -u)" = 0 ] || skip_all "only root's slurmd makes mount name spaces"
# A job's name space is bound to a file. Linux 6.18 refuses that ("Invalid argument") where its number is not above that of
# the one around it, and numbers are given by processor: so it is refused at times where ours is not the machine's first.
# And who enters one leaves a chroot.
binds_name_spaces() {
    local cpu child rc=0
    : >"$D/bound"
    for cpu in $(seq 0 $(($(nproc --all) - 1))); do
        taskset -c "$cpu" unshare -m sleep 60 &
        child=$!
        wait_for 20 grep -qx sleep "/proc/$child/comm"
        if mount --bind "/proc/$child/ns/mnt" "$D/bound" 2>/dev/null; then
            nsenter --mount="$D/bound" test -d "$D" || rc=1
            umount "$D/bound"
        else
            rc=1
        fi
        kill "$child"
        wait "$child" 2>/dev/null
    done
    return $rc
}
binds_name_spaces || skip_all "this Linux binds no mount name spaces here, or this is a chroot"
# What a killed job leaves mounted would keep the folder.
unmount_all() {
    cluster down
    awk -v d="$D/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r f; do umount "$f"; done
}
at_end+=(unmount_all)

version=$(slurmctld -V | sed 's/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/')
if [ "$version" -ge 2511 ]; then kind=NamespaceType=namespace/tmpfs; else kind=JobContainerType=job_container/tmpfs; fi
plugin_kind=${kind#*=}
mkdir -p "$D/etc" "$D/ns" "$D/bin"
for n in 1 2 3 4; do echo "NodeName=n$n AutoBasePath=true BasePath=$D/ns/n$n"; done >"$D/etc/job_container.conf"
# The build may lie in /tmp.
cp "$worker" "$plugin" "$DP_SRCDIR/etc/gpt-prune.conf" "$D/bin/" || bail "cannot copy"
worker=$D/bin/dynpipe-worker plugin=$D/bin/spank_dynpipe.so train_conf=$D/bin/gpt-prune.conf
hidden=$(mktemp -d /tmp/dpXXXXXX) && chmod 755 "$hidden" || bail "no folder in /tmp"
at_end+=("rm -rf $hidden")

run="$endless prune.begin=20 prune.end=120 prune.every=20"
take_cores
run_cluster --conf "$kind" --conf PrologFlags=Contain \
    --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; };'
: >"$hidden/of-the-node"
srun -N1 -n1 ls "$hidden" >"$D/look.out" 2>&1
like "$(cat "$D/look.out")" "cannot access" "a job does not see the /tmp of its node"

job=$(submit seen $release -- "$D/seen.jsonl" $run)
wait_for 120 steps_done "$D/seen.jsonl" 1
ok $? "the socket is seen: a run trains"
wait_for 180 nodes_fewer "$job" 4
ok $? "the socket is seen: the run gives nodes back"
like "$(cat "$D"/log/dynpiped.n*.log)" "job=$job node is empty" "after a proof that they are empty"
end_run "$job" seen

# The same with the socket in the node's /tmp.
for n in 1 2 3 4; do cluster stop daemon:$n; done
sed -i "s,socket = \"$D/run/dynpiped-%n.sock\",socket = \"$hidden/%n.sock\"," "$D/etc/dynpipe.conf"
sed -i "s,socket=.*,socket=$hidden/%n.sock," "$D/etc/plugstack.conf"
for n in 1 2 3 4; do cluster start daemon:$n; done
export DYNPIPE_SOCKET=$hidden/n1.sock
SLURMD_NODENAME=n1 dynpipe check >"$D/check.out" 2>&1
like "$(tr -s ' \n' ' ' <"$D/check.out")" "FAIL socket Slurm gives each job its own /tmp and /dev/shm .$plugin_kind.: no worker finds $hidden/" "dynpipe check says that no worker will find it"
if [ -n "$mpi" ]; then
    job=$(submit unseen $release -- "$D/unseen.jsonl" $run)
    wait_for 120 steps_done "$D/unseen.jsonl" 30
    ok $? "the socket is not seen: the run trains"
    is "$(job_nodes "$job")" 4 "and keeps its nodes"
    end_run "$job" unseen
else # without PMIx workers meet by the daemons
    job=$(submit unseen $release -- "$D/unseen.jsonl" $run)
    wait_for 120 job_ended "$job"
    ok $? "the socket is not seen: the workers cannot meet, and the run ends"
fi
like "$(cat "$D/unseen.out")" "the tasks on node n2 do not see its daemon's socket $hidden/n2.sock" "the plugin says why"
is "$(grep -c "do not see its daemon's socket" "$D/unseen.out")" 4 "once per node"
like "$(cat "$D/unseen.out")" "$hidden/n[1-4].sock: No such file or directory .nor its folder: .* a /tmp of the job's own" "and the worker"
wait_for 60 all_nodes_idle
ok $? "every node is free"
same_as_alone $run -- seen ${mpi:+unseen}
is "$(drained_nodes)" "" "no node is drained"
done_testing
