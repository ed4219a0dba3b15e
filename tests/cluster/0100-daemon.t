#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Daemons, plugin and Slurm together: workers of two nodes meet at the batch host's coordinator, who
# may ask what, kill -9 of either daemon, and what is left when the job is over. The workers are
# tests/lib/daemon_probe, which says HELLO as a worker does and stays.
# shellcheck disable=SC2016,SC2034,SC2154,SC2317 # jobs expand their own variables; the rest is tap.sh's
# shellcheck source=tests/lib/cluster-test.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/cluster-test.sh"

plugin=$DP_BUILDDIR/spank_plugin/spank_dynpipe.so
probe=$DP_BUILDDIR/tests/lib/daemon_probe
nm -D "$plugin" 2>/dev/null | grep -qE ' U __(asan|tsan|ubsan)_' &&
    skip_all "the plugin is built with a sanitizer, which Slurm's programs do not carry"
cluster_up --nodes 3 --cpus 4 --plugstack "optional $plugin socket=$D/run/dynpiped-%n.sock"

ask() { "$probe" "$D/run/dynpiped-$1.sock" query "${@:2}"; }
n1_port=$(sed -n 's/.*name = "n1".*port = \([0-9]*\).*/\1/p' "$D/etc/dynpipe.conf")

cat >"$D/worker.sh" <<X
#!/bin/bash
until [ -e $D/stop ]; do
    sleep 0.1
done | $probe "\$DYNPIPE_SOCKET" hello "\$SLURM_JOB_ID" "\$SLURM_PROCID" 2
X
chmod 755 "$D/worker.sh"
: >"$D/out"
job=$(sbatch --parsable -N2 -n2 -w n1,n2 --dynpipe=balance --open-mode=append -o "$D/out" \
    --wrap "srun -N2 -n2 $D/worker.sh; srun -N2 -n2 $D/worker.sh")
welcomes() { [ "$(grep -c '^welcome 0' "$D/out")" -ge "$1" ]; }
wait_for 60 welcomes 2
ok $? "workers of both nodes are welcome"
is "$(grep -c 'daemon of node n2 connected' "$D/log/dynpiped.n1.log")" 1 "n2's daemon found n1's"

# ---- who may ask what
workers_connected() { ask n1 status "$job" | grep -o '"connected":true' | grep -c .; }
is "$(workers_connected)" 2 "the coordinator sees both"
like "$(ask n2 status "$job")" "error ask the daemon of node n1" "another node of the job names the one to ask"
like "$(ask n3 status "$job")" "error this job is not known here" "a node outside the job knows nothing"
like "$("$probe" - remote "$n1_port" n1 "$D/run/munge.socket" status "$job")" '"incarnation":1' "the same over TCP with munge"
like "$("$probe" - remote "$n1_port" n2 "$D/run/munge.socket" status "$job")" "daemon of node n1, not of n2" \
    "a daemon that gives another name is refused"
like "$("$probe" - remote "$n1_port" n1 "$D/run/nothing" status "$job")" "^error .*munge" "nothing without munge"
like "$("$probe" "$D/run/dynpiped-n1.sock" hello 999999 0 1 </dev/null)" "^welcome 3 .*not registered" \
    "a worker of a job that did not ask for DynPipe is turned away"
# A job that was not registered, with options as a worker of --dynpipe has them: Slurm is asked.
knocks() { # JOB REGEX: a worker of that job is answered so
    SLURM_DYNPIPE=mode=balance "$probe" "$D/run/dynpiped-n1.sock" hello "$1" 0 1 </dev/null | grep -qE "$2"
}
runs "then Slurm is asked what it is" knocks 999997 "^welcome 3 .*Slurm is asked what it is"
runs "and says that there is none" wait_for 60 knocks 999997 "^welcome 3 .*Slurm knows no such job"
plain=$(sbatch --parsable -N1 -w n3 -o /dev/null --wrap 'sleep 1000')
wait_for 60 job_is "$plain" RUNNING
runs "or that the job is not on this node" wait_for 60 knocks "$plain" "^welcome 3 .*Slurm says that it does not have this node"
if [ "$(id -u)" = 0 ]; then
    asked() { sdiag | sed -n 's/.*REQUEST_JOB_INFO_SINGLE .*count:\([0-9]*\).*/\1/p'; }
    stranger() { setpriv --reuid 65534 --regid 65534 --clear-groups env SLURM_DYNPIPE=mode=balance "$probe" "$D/run/dynpiped-n3.sock" hello "$1" 0 1 </dev/null; }
    if cp "$probe" "$D/probe" && chmod 755 "$D/probe" && probe=$D/probe && stranger 1 >/dev/null; then
        theirs() { stranger "$plain" | grep -q "^welcome 3 .*Slurm says that it belongs to another user"; }
        runs "another user's worker gets nowhere" wait_for 60 theirs
        unlike "$(ask n3 jobs 0)" "\"job_id\":$plain," "and the job is not registered by that"
        before=$(asked)
        SECONDS=0
        for i in $(seq 2000 2200); do stranger "$i" >/dev/null; done
        most=$((SECONDS / 2 + 14)) # 10, and one every two seconds
        runs "who asks for 200 jobs makes the daemon ask for $most at most" test $(($(asked) - before)) -le "$most" || diag "$before, now $(asked)"
        like "$(SLURM_DYNPIPE=mode=balance "$probe" "$D/run/dynpiped-n3.sock" hello 999996 0 1 </dev/null)" "Slurm is asked what it is" "and others are asked for"
    else
        skip "a stranger's HELLO" "another user does not reach the build"
    fi
fi
scancel "$plain"
like "$("$probe" "$D/run/dynpiped-n1.sock" step 999998 "$(id -u)" n2)" "^ack 1 .*another node" "a step of another node too"

# ---- who may call himself which node: munge vouches for a user, not for a machine
address() { sed -n "s/.*name = \"$1\"; address = \"\([^\"]*\)\".*/\1/p" "$D/etc/dynpipe.conf"; }
as_daemon() { "$probe" - daemon "$(address n1)" "$n1_port" "$D/run/munge.socket" "$1" "$2"; }
is "$(as_daemon n3 "$(address n3)")" "let in" "a daemon of n3 from n3's address is one"
like "$(as_daemon n2 "$(address n3)")" "^refused calls itself n2: it connects from $(address n3), but that node's addresses are .*$(address n2)" \
    "from there it cannot call itself n2"
like "$(as_daemon n2 127.0.9.9)" "^refused calls itself n2: it connects from 127.0.9.9.* from = .127.0.9.9" "nor from an address that is no node's, and it reads what to do if that is right"
like "$(as_daemon n1 "$(address n1)")" "^refused calls itself n1: that is this node itself" "nobody else is the node itself"
like "$(as_daemon login1 "$(address n3)")" "^refused calls itself login1: there is no node of that name in Slurm or dynpipe.conf" \
    "a name that Slurm does not know is nobody's"
like "$(cat "$D/log/dynpiped.n1.log")" "calls itself n2: it connects from 127.0.9.9" "the daemon's log says it, too"

# ---- kill -9
closed() { [ "$(grep -c '^closed' "$D/out")" -ge "$1" ]; }
cluster stop daemon:2 KILL
cluster start daemon:2
runs "the worker on n2 noticed the end of its daemon" wait_for 60 closed 1
runs "n2's daemon is back and knows the job" wait_for 60 grep -q "job=$job uid=$(id -u) taken up again" "$D/log/dynpiped.n2.log"
reconnected() { [ "$(grep -c 'daemon of node n2 connected' "$D/log/dynpiped.n1.log")" -ge 2 ]; }
runs "and n1's daemon hears from it" wait_for 60 reconnected
cluster stop daemon:1 KILL
cluster start daemon:1
incarnation() { ask n1 status "$job" | grep -q '"incarnation":2'; }
runs "n1's coordinator goes on from its journal" wait_for 60 incarnation
n2_again() { [ "$(grep -c 'connected to the daemon of node n1' "$D/log/dynpiped.n2.log")" -ge 3 ]; }
runs "n2 finds it again by itself" wait_for 60 n2_again

# ---- the end
touch "$D/stop"
scancel "$job"
wait_for 60 job_ended "$job"
gone() { ! ask "$1" jobs 0 | grep -q '"state":"running"'; }
runs "the run is over on n1" wait_for 60 gone n1
runs "and on n2" wait_for 60 gone n2
like "$(ask n1 jobs 0)" "\"job_id\":$job.*finished" "its report is kept"
like "$(ask n1 report "$job")" '^\{' "and can be asked for"
is "$(find "$D"/dynpipe/*/ -name 'job-*.journal')$(find "$D"/run/*.locks -type f)" "" "no journal and no lock is left"
wait_for 60 all_nodes_idle
ok $? "all nodes are idle"

# ---- a batch host without a worker, whose daemon was down and has lost its journals: another node asks it ------
cat >"$D/patient.sh" <<X
#!/bin/bash
until [ -e $D/stop2 ]; do
    sleep 0.1
done | $probe "\$DYNPIPE_SOCKET" patient "\$SLURM_JOB_ID" "\$SLURM_PROCID" 2
X
chmod 755 "$D/patient.sh"
cluster stop daemon:1
rm -rf "$D"/dynpipe/n1/*
: >"$D/out"
job=$(sbatch --parsable -N3 -n3 -w n1,n2,n3 --dynpipe=balance --open-mode=append -o "$D/out" \
    --wrap "srun -N2 -n2 -w n2,n3 --dynpipe=observe --dynpipe-min-gpus=2 $D/patient.sh")
runs "without the batch host's daemon nobody is welcome" wait_for 60 file_has "$D/out" "^welcome 3 the daemon of the batch host n1 is not there: .*Connection refused"
cluster start daemon:1
runs "when it is there, workers of other nodes are" wait_for 60 welcomes 2
like "$(cat "$D/log/dynpiped.n1.log")" "job=$job uid=$(id -u) found in Slurm: another node asks for it" "it asked Slurm"
like "$(ask n1 status "$job")" '"mode":"observe"' "and goes by the options of the step, not by those of the job"
touch "$D/stop2"
scancel "$job"
wait_for 60 job_ended "$job"
wait_for 60 all_nodes_idle
cluster stop slurmctld KILL
cluster stop daemon:3
cluster start daemon:3
n3_port=$(sed -n 's/.*name = "n3".*port = \([0-9]*\).*/\1/p' "$D/etc/dynpipe.conf")
like "$("$probe" - daemon "$(address n3)" "$n3_port" "$D/run/munge.socket" n2 "$(address n2)")" "let in" "while Slurm does not answer, a daemon comes in from its node's address"
like "$("$probe" - daemon "$(address n3)" "$n3_port" "$D/run/munge.socket" n2 "$(address n1)")" "^refused calls itself n2" "and from no other"
is "$(grep -hE ' (error|warning): ' "$D"/log/dynpiped.*.log | grep -vcE 'daemon of node n[12]:|calls itself|ProctrackType')" 0 "no other trouble in the logs"
done_testing
