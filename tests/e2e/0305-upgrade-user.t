#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Daemons of release 0.1.0 are root's, those of this one user dynpipe's, and daemons only talk to daemons of their own
# user. Both ways of dynpiped(8), UPGRADE, under a running job of an ordinary user: the old daemons become dynpipe first,
# and then new ones; or the new ones are root's until all are new, and become dynpipe then. What root's daemon left, its
# journals above all, is read by dynpipe's; where it cannot be, the daemon says so and ends. Losses stay those of one worker.
# shellcheck disable=SC2086,SC2154 # $run is a list; the rest is lib.sh's and release_before.sh's
own_users="dynpipe:64990 dpowner:64991"
# shellcheck source=tests/e2e/own_users.sh
. "$(dirname "$0")/own_users.sh"
# shellcheck source=tests/e2e/release_before.sh
. "$DP_SRCDIR/tests/e2e/release_before.sh"

take_cores
cluster_up --nodes 4 --gpus 1 --cpus 2 --no-daemon --split --daemon-key 'report_ms = 250;' \
    --plugstack "optional $D/spank_dynpipe.so socket=$D/sock/%n.sock" --daemon-conf "$old_limits"
sed -i '/device_files/d' "$D/etc/dynpipe.conf"
export DYNPIPE_CONF=$D/etc/dynpipe.conf DYNPIPE_SOCKET=$D/sock/n1.sock
mkdir "$D/out" && chown dpowner "$D/out"
tune=$D/out/tune.json

by_root() { sed -i 's/split=[01]/split=0/' "$D/etc/cluster.vars"; } # whoever starts a daemon from now on
by_unit() { sed -i 's/split=[01]/split=1/' "$D/etc/cluster.vars"; } # (odd nodes: root, who becomes dynpipe)
run_user() { # ""|NAME|none: what the configuration says
    sed -i '/run_user/d' "$D/etc/dynpipe.conf"
    [ "$1" = none ] || sed -i "s/^daemon: {/&\n  run_user = \"$1\";/" "$D/etc/dynpipe.conf"
}
# What systemd does by itself when User= of a unit changes (StateDirectory, RuntimeDirectory), for everything below.
give_to() { chown -R "$1:" "$D/dynpipe/n$2" "$D/sock/n$2".*; }
uid_of() { sed -n 's/^Uid:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$(cat "$D/run/dynpiped.n$1.pid")/status"; }
# The new unit with User=root in a drop-in: root, with no more rights than the unit gives.
caps=$(sed -n 's/^AmbientCapabilities=//p' "$DP_SRCDIR/etc/dynpiped.service.in" | tr 'A-Z ' 'a-z,')
caps=-all,${caps//cap_/+}
cat >"$D/root-unit" <<X
#!/bin/bash
exec setpriv --no-new-privs --bounding-set $caps --inh-caps $caps --ambient-caps $caps $DP_BUILDDIR/daemon/dynpiped "\$@"
X
chmod 755 "$D/root-unit"
upgrade_as_root() { cluster stop "daemon:$1" && DP_DYNPIPED=$D/root-unit cluster start "daemon:$1"; }
train() { # NAME WORKER: a run of dpowner's; sets job
    worker=$2
    cat >"$D/$1.sh" <<X
#!/bin/bash
srun $mpi --no-kill --kill-on-bad-exit=0 -n 4 $(worker_command "$D/out/$1.jsonl" $run) || [ \$? = 75 ]
X
    job=$(cd "$D/out" && as dpowner sbatch --parsable -J "$1" -N4 --gpus-per-node=1 --exclusive -o "$D/out/$1.out" $release "$D/$1.sh")
    wait_for 120 steps_done "$D/out/$1.jsonl" 5
    ok $? "$1: a run of an ordinary user trains"
}
ends() { # NAME: with a node less, and well
    runs "$1: packing may go on" dynpipe resume -j "$job"
    wait_for 240 nodes_fewer "$job" 4
    ok $? "$1: a node is given back when all daemons are new"
    scancel --signal=TERM "$job"
    wait_for 120 job_ended "$job"
    is "$(job_state "$job")" COMPLETED "$1: the run ends well when it is asked to"
    wait_for 60 all_nodes_idle
    cp "$D/out/$1.jsonl" "$D/$1.jsonl"
}

# ---- the old daemons become dynpipe first -----------------------------------------------------------
by_root
run_user none
chown root "$D/sock" "$D"/dynpipe/n[1-4]
for n in 1 2 3 4; do start_old $n; done
is "$(uid_of 1)" 0 "daemons of 0.1.0 are root's"
train first "$old/worker/dynpipe-worker"
moves "$job" "0-1|2-3|4-5|6-7" "first: all old, root's"

# Too early: the new one is dynpipe, and what is there is root's.
cluster stop daemon:1
by_unit
chown dynpipe "$D/sock"
start_new 1 2>/dev/null
says() { # WHAT TEXT: the last line of n1's daemon
    start_new 1 2>/dev/null
    like "$(tail -n 1 "$D/log/dynpiped.n1.log")" "$2 belongs to uid 0, and this daemon is uid 64990.*chown -R 64990" "$1"
}
says "a new daemon that finds a lock of root's ends, and says what to do" "$D/sock/n1.sock.lock: Permission denied: $D/sock/n1.sock.lock"
chown dynpipe "$D"/sock/n1.*
says "the same for the folder of its state" "$D/dynpipe/n1: Operation not permitted: $D/dynpipe/n1"
chown dynpipe "$D/dynpipe/n1" "$D/dynpipe/n1/history"
says "and for a journal" "$D/dynpipe/n1/node.journal: Permission denied: $D/dynpipe/n1/node.journal"
is "$(stat -c %U "$D"/dynpipe/n1/*.journal | sort -u)" root "nothing there was changed"
chown root "$D/sock"

by_root
run_user dynpipe
chown dynpipe "$D/sock"
for n in 1 2 3 4; do
    cluster stop daemon:$n
    give_to dynpipe $n
    start_old $n
done
is "$(uid_of 1) $(uid_of 4)" "64990 64990" "with run_user those of 0.1.0 are dynpipe's"
moves "$job" "0-2|3|4-5|6-7" "first: all old, dynpipe's"
by_unit
decides 2
for n in 1 2 3 4; do upgrade $n; done
is "$(uid_of 1) $(uid_of 4)" "64990 64990" "the new ones are dynpipe's"
moves "$job" "0-1|2-3|4-5|6-7" "first: all new"
like "$(cat "$D/log/dynpiped.n1.log")" "job=$job .*taken up again" "root's journal is read by dynpipe's daemon"
ends first

# ---- or the new ones are root's until all are new -----------------------------------------------------
for n in 1 2 3 4; do cluster stop daemon:$n; done
rm -rf "$D"/dynpipe/n[1-4]/* "$D"/sock/*
by_root
run_user none
chown -R root "$D/sock" "$D"/dynpipe/n[1-4]
decides 1000
for n in 1 2 3 4; do start_old $n; done
ln -sfn "$plugin" "$D/plugin.new" && mv -T "$D/plugin.new" "$D/spank_dynpipe.so"
train second "$new_worker"
run_user ""
for n in 4 3; do upgrade_as_root $n; done
is "$(uid_of 1) $(uid_of 4)" "0 0" "with an empty run_user the new ones are root's"
moves "$job" "0-1|2-3|4-5|6-7" "second: n1 and n2 are old, all root's"
for n in 2 1; do upgrade_as_root $n; done
moves "$job" "0-2|3|4-5|6-7" "second: all new, root's"
# One after the other becomes dynpipe. Meanwhile the two sorts do not talk, and the run trains on.
by_unit
run_user none
decides 2
chown dynpipe "$D/sock"
for n in 2 1; do
    cluster stop daemon:$n
    give_to dynpipe $n
    start_new $n
done
refused() { grep -q "sealed for another user than uid $1: is run_user the same on all nodes" "$D"/log/dynpiped.n[1-4].log; }
wait_for 60 refused 0 && wait_for 60 refused 64990
ok $? "second: daemons of two users do not talk, and say why"
makes_steps out/second 5
ok $? "second: the run trains on meanwhile"
is "$(job_nodes "$job")" 4 "second: with all its nodes"
for n in 3 4; do
    cluster stop daemon:$n
    give_to dynpipe $n
    start_new $n
done
moves "$job" "0-1|2-3|4-5|6-7" "second: all new, dynpipe's"
ends second
same_as_alone $run -- first second
is "$(drained_nodes)" "" "no node is drained"
done_testing
