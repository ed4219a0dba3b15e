#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The daemon as it is shipped: the process that listens is user dynpipe, without a capability; a helper keeps
# the rights to end what is left of a job and to ask Slurm as its owner. Both ways to start it: by root, and as
# the systemd unit does. A run of an ordinary user gives nodes back, and nothing of it gets in the way.
# shellcheck disable=SC2016,SC2086,SC2154 # jobs expand their own variables; the rest is lib.sh's
own_users="dynpipe:64990 dpowner:64991 dpother:64992"
# shellcheck source=tests/e2e/own_users.sh
. "$(dirname "$0")/own_users.sh"
take_core
cluster_up --nodes 4 --gpus 1 --cpus 2 --split --plugstack "optional $plugin socket=$D/sock/%n.sock" \
    --daemon-conf 'run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 2; confirm_s = 2.0; gone_timeout_s = 3.0; grace_s = 2.0; };'
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/sock/n1.sock
mkdir "$D/out" && chown dpowner "$D/out"
tune=$D/out/tune.json

# ---- who is who
rights() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
helper_of() { cat "/proc/$1/task/$1/children"; }
for n in 1 2; do
    how=$([ $n = 1 ] && echo "started by root" || echo "as the unit starts it")
    pid=$(cat "$D/run/dynpiped.n$n.pid")
    helper=$(helper_of "$pid") helper=${helper% }
    is "$(rights "$pid" Uid | cut -f1-3)" "64990	64990	64990" "$how: the process that listens is dynpipe"
    is "$(rights "$pid" CapPrm)$(rights "$pid" CapEff)" 00000000000000000000000000000000 "and has no capability"
    is "$(rights "$pid" NoNewPrivs)" 1 "nor gets one by running something"
    is "$(rights "$helper" Name)" dynpiped-priv "its helper is there"
    is "$(find "/proc/$helper/fd" -lname 'socket:*' | wc -l)" 1 "which has one socket, and that is to it"
done
is "$(rights "$helper" Uid | cut -f1)" 64990 "started by the unit, the helper is not root either"

# ---- a run of an ordinary user gives a node back
# It tries to keep the GPUs of what it gives back: processes that left the job, environment and all.
cat >"$D/hide.sh" <<X
#!/bin/bash
[ "\$SLURMD_NODENAME" = n1 ] || env -i setsid -f sh -c "echo \\\$\\\$ >>$D/out/hidden; exec 9<$D/run/\$SLURMD_NODENAME-device0 >/dev/null 2>&1; exec sleep 600"
X
chmod 755 "$D/hide.sh"
hidden() { # those of them that live
    local p
    for p in $(cat "$D/out/hidden" 2>/dev/null); do [ "$(cat "/proc/$p/comm" 2>/dev/null)" != sleep ] || echo "$p"; done
}
# shellcheck disable=SC2046
end_hidden() { kill $(hidden) 2>/dev/null; }
at_end+=(end_hidden)
three_hide() { [ "$(hidden | wc -l)" = 3 ]; }
cat >"$D/train.sh" <<X
#!/bin/bash
srun -n 4 "$D/hide.sh"
srun $mpi --no-kill --kill-on-bad-exit=0 -n 4 $(worker_command "$D/out/train.jsonl" $endless prune.begin=20 prune.end=120 prune.every=20) || [ \$? = 75 ]
X
job=$(cd "$D/out" && as dpowner sbatch --parsable -N4 --gpus-per-node=1 --exclusive -o "$D/out/train.out" $release "$D/train.sh")
wait_for 120 steps_done "$D/out/train.jsonl" 1
ok $? "a run of another user starts"
for n in n1 n2; do
    lock=$D/sock/$n.sock.locks/job-$job.lock
    wait_for 60 test -e "$lock"
    runs "$n: its owner can take the device lock" as dpowner flock -s -n "$lock" true
    fails "$n: another user cannot" as dpother flock -s -w 1 "$lock" true
done
wait_for 60 three_hide
ok $? "three processes of it hide from Slurm, each with a GPU"
is_held() { grep -qs "node is held.*nothing shows that it is the job's, but it has a device open.*-device0" "$D"/log/dynpiped.n[2-4].log; }
wait_for 300 is_held
ok $? "no node is given back while one holds its GPU"
is "$(job_nodes "$job")" 4 "all of them stay"
is "$(hidden | wc -l)" 3 "and what may be anything of his is not ended"
like "$(cat "$D"/log/dynpiped.n1.log)" "ProctrackType is proctrack/linuxproc" "the log says that Slurm lets them go"
end_hidden
wait_for 300 nodes_fewer "$job" 4
ok $? "it becomes smaller"
like "$(grep -h "node is empty" "$D"/log/dynpiped.n[2-4].log)" "job=$job node is empty" "after a proof"
like "$(grep -h "shrink: rc" "$D/log/dynpiped.n1.log")" "job=$job shrink: rc=0" "and Slurm was asked"
unlike "$(cat "$D"/log/dynpiped.n*.log)" "device lock:|cannot|capabilit" "no right was missing"

# ---- what somebody could do who took over the process that listens: he has its socket to the helper
probe=$DP_BUILDDIR/tests/lib/priv_probe
for n in 1 2; do
    pid=$(cat "$D/run/dynpiped.n$n.pid")
    helper=$(helper_of "$pid") helper=${helper% }
    before=$(find "/proc/$helper/fd" | wc -l)
    "$probe" "$pid" flood 20
    like "$("$probe" "$pid" fence 4000000 0)" "^gone=0 whose job it is cannot be asked" "n$n: a job that nobody has is nobody's to end"
    is "$(find "/proc/$helper/fd" | wc -l)" "$before" "descriptors that came along too many are not kept"
done
like "$("$probe" "$pid" fence "$job" 7)" "^gone=0 the job was requeued" "an order for another life of the job is refused"
like "$("$probe" "$pid" shrink "$job" 0 n1)" "^rc=-1 this node does not decide for the job, n1 does" "nor may another node shrink it"
find_free() { free=$(sinfo -h -N -t idle -o %N | tail -n 1); [ -n "$free" ]; }
wait_for 60 find_free
pid=$(cat "$D/run/dynpiped.$free.pid")
rootjob=$(sbatch --parsable -N1 -n1 -w "$free" -o "$D/root.out" --wrap 'exec sleep 600')
wait_for 60 job_is "$rootjob" RUNNING
like "$("$probe" "$pid" fence "$rootjob" 0)" "^gone=0 the job is root's" "root's job is not ended"
like "$("$probe" "$pid" shrink "$rootjob" 0 "$free")" "^rc=-1 the job is root's" "nor shrunk"
like "$("$probe" "$pid" requeue "$rootjob" 0)" "^rc=-1 the job is root's" "nor put back into the queue"
job_is "$rootjob" RUNNING
ok $? "and goes on"
# Bystanders: of root, of another user, and of the job's owner himself, who is not his job.
bystanders=
for user in root dpother dpowner; do
    (exec setpriv --reuid $user --regid $user --clear-groups sleep 600) >/dev/null 2>&1 &
    bystanders="$bystanders $!"
    wait_for 60 grep -qx sleep "/proc/$!/comm"
done
at_end+=("kill $bystanders")
text=$("$probe" "$pid" fence "$job" 0 $bystanders)
like "$text" "^gone=0 .*: 1 processes left, pid ${bystanders##* } .sleep, state [SR], registered, but nothing shows" \
    "a process that is only named is not ended, and is no proof either"
for p in $bystanders; do
    is "$(cat "/proc/$p/comm" 2>/dev/null)" sleep "the bystander of $(stat -c %U "/proc/$p") lives"
done

as dpowner scancel "$job"
wait_for 60 job_ended "$job"
scancel "$rootjob"
wait_for 60 all_nodes_idle
pid=$(cat "$D/run/dynpiped.n2.pid")
kill -KILL "$(helper_of "$pid")"
is_gone() { [ ! -d "/proc/$pid" ]; }
wait_for 60 is_gone
ok $? "without its helper the daemon does not go on as if all was well"
like "$(tail -n 3 "$D/log/dynpiped.n2.log")" "the privileged helper is gone, ending" "and says so"
chmod 600 "$D/etc/dynpipe.conf"
cluster restart daemon:3
like "$(cat "$D/log/dynpiped.n3.log")" "a reload of the configuration will fail: $D/etc/dynpipe.conf cannot be read by uid 64990" \
    "that its user cannot read the configuration again is said at once"
is "$(drained_nodes)" "" "no node is drained"
done_testing
