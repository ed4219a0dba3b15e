#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Site policies as a site uses them: the example is compiled against what is installed, loaded by a real
# daemon, and decides for a run of real workers; policies that hang, crash or speak another interface
# leave a run as it is, and say so. No Slurm, no root.
# shellcheck disable=SC2317,SC2034,SC2086,SC2154 # cleanup is called by the trap; lists of pids
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck source=tests/lib/site-policy.sh
. "$DP_SRCDIR/tests/lib/site-policy.sh"
dynpiped=$DP_BUILDDIR/daemon/dynpiped
worker=$DP_BUILDDIR/worker/dynpipe-worker
[ -x "$dynpiped" ] && [ -x "$worker" ] || skip_all "dynpiped or dynpipe-worker is not built"

chmod 755 "$tmp"
pids= launcher=
stop() {
    local p
    for p in $pids; do
        [ "$p" != "$launcher" ] || { kill -TERM "$p" 2>/dev/null; wait "$p" 2>/dev/null; } # it ends its workers
        end_processes "$p"
    done
    pids= launcher=
}
trap 'case $BASHPID in $$) stop; rm -rf "$tmp" ;; esac' EXIT
on_failure="tail -n 20 $tmp/log $tmp/worker.out"
export DYNPIPE_CONF=$tmp/conf DYNPIPE_SOCKET=$tmp/n1.sock
for p in bad_policy old_policy; do
    install -m 644 "$DP_BUILDDIR/tests/lib/$p.so" "$tmp/$p.so" || bail "$p.so is not built"
done

# ---- the example against what is installed
site_policy "$tmp"

# ---- what the daemon takes
conf() { # NAME FILE ARGUMENTS TIMEOUT
    cat >"$tmp/conf" <<X
daemon: { socket = "$tmp/%n.sock"; state_dir = "$tmp/state-%n"; port = 0; slurm = false; run_user = ""; report_ms = 50; };
run: { cooldown_s = 1.0; warmup_reports = 1; policy = "$1"; policies = "time,$1"; policy_timeout_s = $4; };
site_policies = ( { name = "$1"; file = "$2"; arguments = "$3"; } );
X
    sed -i 's/ arguments = "";//' "$tmp/conf"
    chmod 644 "$tmp/conf"
}
checks() { # NAME REGEX
    like "$("$dynpiped" --check-config -f "$tmp/conf" 2>&1; echo "rc=$?")" "$2" "$1"
}
abi=$(sed -nE 's/^#define DP_POLICY_ABI ([0-9]+).*/\1/p' "$DP_SRCDIR/policies/policy.h")
conf headroom "$tmp/headroom.so" free=20 10.0
checks "the example is taken" "ok.*rc=0"
conf headroom "$tmp/headroom.so" free=lots 10.0
checks "its arguments are checked" "headroom: argument 'free=lots': expected.*rc=1"
conf old "$tmp/old_policy.so" x 10.0
checks "a wrong interface is refused with both numbers" "policy old: .*/old_policy.so: it has policy interface 4711, this program has $abi.*rc=1"
like "$(timeout 60 "$dynpiped" -f "$tmp/conf" --node n1 --foreground 2>&1; echo "rc=$?")" "interface 4711.*rc=1" "nor does the daemon start with it"
install -m 644 "$DP_BUILDDIR/spank_plugin/spank_dynpipe.so" "$tmp/other.so"
conf other "$tmp/other.so" "" 10.0
checks "a library that is no policy is refused" "policy other: .*/other.so (cannot be loaded|has no symbol dp_policy_v1).*rc=1"
conf bad "$tmp/bad_policy.so" open 10.0
checks "a policy that does not open is refused" "policy bad: does not want to.*rc=1"
conf gone "$tmp/none.so" "" 10.0
checks "a file that is not there is refused, with the line" "conf:3: policy gone: $tmp/none.so: No such file.*rc=1"
chmod 666 "$tmp/headroom.so"
conf headroom "$tmp/headroom.so" "" 10.0
checks "a file that others may write is refused" "conf:3: policy headroom: $tmp/headroom.so: others may write to it.*rc=1"
chmod 644 "$tmp/headroom.so"
conf headroom headroom.so "" 10.0
checks "a path that is not absolute is refused" "must be an absolute path.*rc=1"

# ---- a run
start() {
    stop
    rm -rf "$tmp"/state-* "$tmp/ready"
    "$dynpiped" -f "$tmp/conf" --node n1 --foreground >"$tmp/ready" 2>"$tmp/log" &
    pids=$!
    wait_for 60 grep -q ready "$tmp/ready" || bail "dynpiped does not come up: $(cat "$tmp/log")"
}
head -c 60000 "$DP_SRCDIR"/common/*.c "$DP_SRCDIR"/common/*/*.c >"$tmp/text.txt"
train() { # COMMAND...: in the background, without an end
    "$@" "$worker" "$DP_SRCDIR/etc/gpt-prune.conf" data.path="$tmp/text.txt" model.blocks=4 model.channels=32 \
        model.context=32 train.steps=1000000 train.microbatches=2 prune.begin=0 prune.end=0 data.eval_every=0 \
        checkpoint.dir= checkpoint.resume=none output.tune="$tmp/tune.json" >"$tmp/worker.out" 2>&1 &
    pids="$pids $!"
}
step() { "$dynpipe" status -h -j "$1" -o step 2>/dev/null | sed 's,/.*,,;s/[^0-9]//g'; }
beyond() { [ "$(step "$1")0" -gt "${2}0" ]; }
explains() { COLUMNS=300 "$dynpipe" explain ${2:+-j "$2"} 2>/dev/null | grep -qE "$1"; }

conf headroom "$tmp/headroom.so" free=25 10.0
start
if mpirun=$(command -v mpirun); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ldd "$worker" | grep -q libtsan && export UCX_MEM_EVENTS=n
    train "$mpirun" --oversubscribe -n 2
    launcher=$!
else
    train env SLURM_JOB_ID=77 SLURM_STEP_ID=0
fi
runs "the example decides for a run" wait_for 120 explains 'headroom: slowest device computes [0-9.]+ ms a step, 25 % of the memory stay free'
like "$("$dynpipe" status -h -o policy)" headroom "status names it"
conf old "$tmp/old_policy.so" x 10.0
kill -HUP "${pids%% *}"
runs "a reload with a wrong interface is told" wait_for 60 grep -q "policy old: .*interface 4711, this program has $abi" "$tmp/log"
check() { "$dynpipe" check 2>/dev/null | tr -s ' \n' ' '; }
checked() { [[ $(check) =~ $1 ]]; }
runs "and dynpipe check says it, for who did not see the log" checked \
    "FAIL reload n1: the layouts of its runs will stay as they are: policy old: .*interface 4711, this program has $abi"
conf headroom "$tmp/headroom.so" free=25 10.0
kill -HUP "${pids%% *}"
well() { local said; said=$(check); [[ $said == *"on n1 answers"* && $said != *"FAIL reload"* ]]; }
runs "until a reload is right" wait_for 60 well
stop

logged_once() { [ "$(grep -c "no decision: policy bad: $1" "$tmp/log")" = 1 ]; }
survives() { # HOW TIMEOUT REGEX
    conf bad "$tmp/bad_policy.so" "$1" "$2"
    start
    train env SLURM_JOB_ID=78 SLURM_STEP_ID=0
    runs "$1: explain says why the layout stays" wait_for 120 explains "stay: policy bad: $3" 78
    local at
    at=$(step 78)
    runs "$1: training goes on" wait_for 120 beyond 78 "$((at + 10))"
    is "$("$dynpipe" layout -j 78)" "0-5  epoch 0" "$1: with the layout in force"
    runs "$1: the log says it once" wait_for 60 logged_once "$3"
    stop
}
survives hang 0.5 "no answer within 0.5 s"
survives crash 10.0 "it crashed: signal 11"
survives garbage 10.0 "layout: "

# Memory that runs out for real, where a group of processes can be limited: the kernel ends the policy, and neither the
# daemon in the same group nor its run.
memory_group() { # MIB: prints its folder
    local top file g
    [ "$(sed -n 's/^SwapTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)" = 0 ] || return 1
    for top in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        g=$top/dynpipe-test-$$
        mkdir "$g" 2>/dev/null || continue
        for file in memory.limit_in_bytes memory.max; do
            [ ! -e "$g/$file" ] || echo $(($1 << 20)) 2>/dev/null >"$g/$file" && [ -e "$g/$file" ] && echo "$g" && return
        done
        rmdir "$g"
    done
    return 1
}
if group=$(memory_group 256); then
    conf bad "$tmp/bad_policy.so" memory 10.0
    start
    echo "${pids%% *}" >"$group/cgroup.procs"
    train env SLURM_JOB_ID=80 SLURM_STEP_ID=0
    runs "out of memory: explain says which was ended" wait_for 120 explains "stay: policy bad: it crashed: signal 9" 80
    kills=$(cat "$group"/memory.oom_control "$group"/memory.events 2>/dev/null | sed -n 's/^oom_kill //p')
    ok $((${kills:-0} < 1)) "out of memory: by the kernel" || diag "$(cat "$group"/memory.oom_control "$group"/memory.events 2>&1)"
    at=$(step 80)
    runs "out of memory: training goes on" wait_for 120 beyond 80 "$((at + 10))"
    ok "$(kill -0 "${pids%% *}"; echo $?)" "out of memory: the daemon lives"
    stop
    runs "the group is empty" wait_for 60 rmdir "$group"
else
    skip "out of memory: explain says which was ended" "no group of processes can be limited here, or there is swap"
fi

# While a policy does not answer, the daemon does.
conf bad "$tmp/bad_policy.so" spin 600.0
start
train env SLURM_JOB_ID=79 SLURM_STEP_ID=0
thinks() { pgrep -P "${pids%% *}" >/dev/null; }
runs "a policy that never answers is being asked" wait_for 120 thinks
answered() { timeout 20 "$dynpipe" status -h -o jobid | grep -q 79; }
runs "the daemon answers meanwhile" answered
at=$(step 79)
runs "and the run trains" wait_for 120 beyond 79 "$((at + 10))"
child=$(pgrep -P "${pids%% *}")
child="$child $(pgrep -P "$child")" # who decides, and the policy
is "$(wc -w <<<"$child")" 2 "in a process of its own"
kill -TERM "${pids%% *}"
wait "${pids%% *}"
is "$?" 0 "and it ends when it is asked to"
gone() {
    local p
    for p in $child; do [ -z "$(sed -n 's/.*) \([^Z]\) .*/\1/p' "/proc/$p/stat" 2>/dev/null)" ] || return 1; done
}
runs "nothing of the policy is left" wait_for 60 gone
done_testing
