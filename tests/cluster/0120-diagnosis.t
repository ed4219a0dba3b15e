#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What is broken on one node is named where people look: in the run's output, in status, and by `dynpipe check`,
# which asks every node. Slurm's plugin missing, a full disk, a wrong munge key, a closed port; and what is mended
# heals by itself.
# shellcheck disable=SC2034,SC2154 # D and the rest come from the sourced file
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"
# shellcheck source=tests/lib/observed-run.sh
. "$DP_SRCDIR/tests/lib/observed-run.sh"
daemon=$DP_BUILDDIR/daemon/dynpiped
begin() {
    wait_for 60 all_nodes_idle
    : >"$D/train.out"
    job=$(sbatch --parsable -o "$D/train.out" "$D/train.sh") || bail "the job was not accepted"
}
end() {
    scancel --signal=TERM "$job"
    wait_for 60 job_ended "$job" || bail "the run does not end"
}
missing_is() { [ "$(run_value '[.missing[].node] | join(",")')" = "$1" ]; }
steps() { local n; n=$(run_value .step) && [ "$n" -gt 5 ] 2>/dev/null; }
check() { timeout 60 "$dynpipe" check "$@" >"$D/check" 2>&1; }
# Start the daemon of a node with a configuration of its own.
own_daemon() { # N FILE
    cluster stop "daemon:$1"
    DYNPIPE_CLUSTER=$D setsid "$daemon" -f "$2" --node "n$1" --foreground </dev/null >>"$D/log/dynpiped.n$1.log" 2>&1 9>&- &
    echo $! >"$D/run/dynpiped.n$1.pid"
    wait_for 60 test -S "$D/run/dynpiped-n$1.sock" || bail "the daemon of n$1 does not start"
}
restart_daemon() { cluster stop "daemon:$1" && cluster start "daemon:$1"; }

check
is "$?" 0 "nothing is wrong at first" || diag "$(cat "$D/check")"
says ok inside "plugin, state_dir, munge and clock are right on all of them, and all reach n1" "and every node was looked at"
check --nodes 'n[2-3]'
says ok inside "plugin.* and all reach n2" "--nodes takes a list"
check --nodes n9
is "$?" 1 "a node that is not there: exit code 1"
says FAIL nodes "n9: n9: .*" "and it is named"

# Whoever can give a process this name, and arguments, must not choose what a daemon loads.
mkdir "$D/evil"
echo "optional /nowhere/spank_dynpipe.so" >"$D/evil/plugstack.conf"
sed "s#^PlugStackConfig=.*#PlugStackConfig=$D/evil/plugstack.conf#" "$D/etc/slurm.conf" >"$D/evil/slurm.conf"
ln -s "$(command -v perl)" "$D/evil/slurmd"
cluster stop slurmd:2
"$D/evil/slurmd" -e 'sleep 1000' -- -N n2 -f "$D/evil/slurm.conf" &
fake=$!
wait_for 60 grep -qx slurmd "/proc/$fake/comm"
check --nodes n2
says ok inside "plugin, state_dir, munge" "a process that only calls itself slurmd is not gone by"
kill "$fake"
cluster start slurmd:2

# ---- the plugin is missing on n3 -------------------------------------------------------------------------------
mkdir "$D/etc3"
cp "$D"/etc/*.conf "$D/etc3"
: >"$D/etc3/plugstack.conf"
sed -i "s#^PlugStackConfig=.*#PlugStackConfig=$D/etc3/plugstack.conf#" "$D/etc3/slurm.conf"
cluster stop slurmd:3
env DYNPIPE_CLUSTER="$D" SLURM_CONF="$D/etc3/slurm.conf" slurmd -N n3 -f "$D/etc3/slurm.conf" </dev/null >>"$D/log/start.log" 2>&1
begin
# Without PMIx the workers meet by the daemons, and wait for each other: there is no run yet.
missed="its daemon runs but was not told about the job" told="rank=2: .*" unheard="on n2: no coordinator"
[ -n "$mpi" ] || missed="no worker has come from there" told="the job asks for DynPipe, but " unheard="of 3 waits for the others"
runs "no plugin on n3: status names n3 and why" wait_for 60 misses "^n3: $missed: does slurmd there load spank_dynpipe.so"
like "$(cat "$D/train.out")" "${told}Slurm's step on node n3 did not load spank_dynpipe.so" "the run's output names it, too"
if [ -n "$mpi" ]; then
    runs "the steps of the others are shown" wait_for 60 steps
    is "$(run_value '.workers[2].node')" null "its worker is on no other node"
    like "$("$dynpipe" status -j "$job")" "missing n3 " "status -j shows it"
    like "$("$dynpipe" status)" "job $job: waiting for workers \(2 of 3 are there\): nothing from n3 " "status shows it"
    like "$("$dynpipe" explain -j "$job")" "missing n3 " "explain shows it"
    "$dynpipe" watch -j "$job" --interval 0.2 >"$D/watch" 2>&1 &
    watcher=$!
    runs "watch shows it" wait_for 60 file_has "$D/watch" "nothing from n3: its daemon runs"
else
    like "$("$dynpipe" status -j "$job" 2>&1)" "2 of 3 workers have arrived; nothing heard from worker 2.*nothing was heard of n3" "status -j shows it"
    like "$("$dynpipe" status)" "job $job: 2 of 3 workers have arrived" "status shows it"
fi
check_fails() { check "$@"; [ $? = 1 ]; } # who asks the same within a second gets the same answer
wait_for 20 check_fails
ok $? "check finds it: exit code 1"
says FAIL plugstack "n3: $D/etc3/plugstack.conf, which slurmd of this node goes by \($D/etc3/slurm.conf\), does not name" "and says which file of which node"
check -j "$job"
says FAIL job "n3: job $job was not registered there" "check -j knows that the step did not load it"
end
[ -z "$mpi" ] || wait "$watcher"

# ---- a plugin of another Slurm on n3, which slurmd does not load -----------------------------------------------
mkdir "$D/other"
cp "$plugin" "$D/other/spank_dynpipe.so"
at=$(nm -D "$plugin" | sed -n 's/ [DR] plugin_version$//p')
printf '\0\010\025\0' | dd of="$D/other/spank_dynpipe.so" bs=1 seek=$((16#$at)) conv=notrunc 2>/dev/null # 21.08.0
echo "optional $D/other/spank_dynpipe.so socket=$D/run/dynpiped-%n.sock" >"$D/etc3/plugstack.conf"
check --nodes n3
is "$?" 1 "a plugin built for another Slurm: check fails"
says FAIL plugin "n3: $D/other/spank_dynpipe.so is built for Slurm 21.08, slurmd here is $(slurmd -V | sed -E 's/^[^0-9]*([0-9]+\.[0-9]+).*/\1/')" \
    "and says for which, and which runs there"
cluster stop slurmd:3
cluster start slurmd:3

# ---- another munge key on n2 -----------------------------------------------------------------------------------
(umask 077 && head -c 1024 /dev/urandom >"$D/key/other.key")
env DYNPIPE_CLUSTER="$D" munged --key-file="$D/key/other.key" --socket="$D/run/other.socket" --pid-file="$D/run/other.pid" \
    --log-file="$D/log/munged.other.log" --seed-file="$D/key/other.seed" --num-threads=2 </dev/null >>"$D/log/start.log" 2>&1 9>&-
wait_for 60 test -S "$D/run/other.socket" || bail "the other munged does not start"
sed "s#munge_socket = .*#munge_socket = \"$D/run/other.socket\";#" "$D/etc/dynpipe.conf" >"$D/etc/other.conf"
own_daemon 2 "$D/etc/other.conf"
begin
runs "a wrong munge key: status says what the other side's munge said" wait_for 60 \
    misses "^n2: its daemon cannot be reached: 127.0.0.[0-9]+ port [0-9]+: it refuses our credential: .*Invalid credential"
runs "and so does the run's output" wait_for 60 file_has "$D/train.out" \
    "worker 1 $unheard: node n2 does not reach the daemon of the batch host n1: .*Invalid credential"
is "$(grep -c 'no daemon at' "$D/train.out")" 0 "nobody says that there is no daemon"
check
says FAIL nodes "n2: .*refuses our credential: .*Invalid credential" "check names node and cause"
grep -q "do: the same munge key on every node" "$D/check"
ok $? "and says what to do"
t0=$EPOCHREALTIME
restart_daemon 2
runs "with the right key it heals" wait_for 60 all_there
diag "healed after $(awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s"

# ---- daemons that come back, in the same run -------------------------------------------------------------------
# Far more than the 5 s that it may take: this machine may be busy. Retries every 30 s would not pass.
heals() { # NAME: within 20 s
    local t0=$EPOCHREALTIME
    runs "$1: all is there again within 20 s" wait_for 20 all_there
    diag "$1: $(awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s"
}
cluster stop daemon:3
runs "a daemon that ended is missed" wait_for 60 misses "^n3: its daemon cannot be reached: 127.0.0.[0-9]+ port [0-9]+: Connection refused"
like "$(run_value .state_text)" "training with the layout in force; nothing from n3 " "the state says so"
is "$(run_value '.missing[0].ranks | join(",")')" 2 "with its worker"
cluster start daemon:3
heals "its daemon started again"
end

# ---- no way to the batch host from n3 --------------------------------------------------------------------------
port=$(sed -n 's/.*name = "n1";.*port = \([0-9]*\);.*/\1/p' "$D/etc/dynpipe.conf")
closed=$((port + 10)) # beyond those of this cluster
sed "s/port = $port;/port = $closed;/" "$D/etc/dynpipe.conf" >"$D/etc/closed.conf"
own_daemon 3 "$D/etc/closed.conf"
check --nodes 'n[1-3]'
is "$?" 1 "a closed port to the batch host: check fails"
says FAIL peer "n3: the daemon of n1 cannot be reached from here: 127.0.0.[0-9]+ port $closed: .*Connection refused" "and names node, port and cause"
restart_daemon 3

# ---- a full disk under the journals of n1 ----------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && mkdir "$D/full" && mount -t tmpfs -o size=24m none "$D/full" 2>/dev/null; then
    at_end+=("cluster stop daemon:1" "umount $D/full")
    sed "s#state_dir = .*#state_dir = \"$D/full/%n\";#" "$D/etc/dynpipe.conf" >"$D/etc/full.conf"
    own_daemon 1 "$D/etc/full.conf"
    dd if=/dev/zero of="$D/full/fill" bs=1M count=30 2>/dev/null
    check
    is "$?" 1 "a full state_dir: check fails"
    says FAIL state_dir "n1: $D/full/n1 cannot be written: No space left on device" "and says where and why"
    begin
    runs "the run's output says it" wait_for 60 file_has "$D/train.out" "No space left on device"
    is "$(grep -c 'no daemon at' "$D/train.out")" 0 "nobody says that there is no daemon"
    end
    rm "$D/full/fill"
    check
    says ok inside "plugin, state_dir, munge" "with room again all is well"
else
    skip "a full state_dir" "needs root and a tmpfs"
fi

is "$(drained_nodes)" "" "no node was drained"
done_testing
