#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ./demo cleans up: after --keep by --stop, after ^C at once, and twice is no harm. Short runs of what is built here;
# what the demo shows is for whoever runs it.
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
export DP_SRCDIR DP_BUILDDIR
# shellcheck source=tests/lib/tap.sh
. "$DP_SRCDIR/tests/lib/tap.sh"
for p in munged slurmctld slurmd srun bible; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done
T=$(mktemp -d /tmp/dpXXXXXX) || bail "no temporary directory"
chmod 755 "$T"
mkdir "$T/t"
export TMPDIR=$T/t DEMO_KEPT=$T/kept DEMO_STEPS=42 LC_ALL=C.UTF-8
demo=$DP_SRCDIR/demo
pid=0
clean_up() {
    [ $pid = 0 ] || kill -TERM $pid 2>/dev/null
    wait
    "$demo" --stop >/dev/null 2>&1
    if [ "$tap_failed" = 0 ]; then rm -rf "$T"; else diag "left for a look: $T"; fi
}
trap clean_up EXIT
on_failure="tail -n 30 $T/demo.out"

processes() { LC_ALL=C grep -lzE "^(DYNPIPE_CLUSTER|SLURM_CONF)=$T/t/" /proc/[0-9]*/environ 2>/dev/null; }
folders() { find "$T/t" -maxdepth 1 -name 'dpdemo*'; }
nothing_left() { [ -z "$(processes)" ] && [ -z "$(folders)" ]; }
# A process group of its own, with ^C as a terminal's processes have it, also where whoever runs the tests ignores it.
begin() { # OPTIONS
    set -m
    env --default-signal=INT "$demo" --out "$T/out" "$@" >"$T/demo.out" 2>&1 </dev/null &
    pid=$!
    set +m
}
end() { wait $pid; rc=$?; pid=0; }
interrupt() { kill -INT -- -$pid; end; }

out=$("$demo" --stop 2>&1)
is "$?" 0 "--stop when nothing runs"
like "$out" "nothing is kept" "says so"
"$demo" --stop --keep >/dev/null 2>&1
is "$?" 2 "--stop --keep is refused"

begin --keep
cluster_begins() { [ -n "$(folders)" ] && [ -n "$(processes)" ]; }
wait_for 120 cluster_begins
ok $? "a private Slurm comes up"
interrupt
is $rc 130 "^C while it comes up, with --keep: ended by it"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"
fails "nothing is written down as kept" test -s "$T/kept"

begin --without-pruning
wait_for 240 grep -q "is a run without pruning on 4 nodes" "$T/demo.out"
ok $? "a run begins, the control"
like "$(cat "$T/demo.out")" "sbatch --dynpipe=release .*--dynpipe-max-slowdown=99" "which may become as slow as it likes"
interrupt
is $rc 130 "^C in the middle: ended by it"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"

begin --keep
end
is $rc 0 "--keep: the demo ends well"
like "$(cat "$T/demo.out")" "DynPipe report .*Kept running: .*\. $T/t/dpdemo.*/env.*Stop it with: .*demo --stop" \
    "and says what it leaves, and how to stop it"
D=$(folders)
# shellcheck source=/dev/null
looks() { (. "$D/env" && dynpipe "$@" 2>&1); }
like "$(looks status -a -h)" "train .*completed" "its daemons answer: status"
like "$(looks explain -j 1)" "job 1  policy" "explain"
like "$(looks check)" "ok +nodes +the daemons of 4 of 4 nodes were asked" "check"

begin --keep
end
is $rc 0 "--keep a second time: the demo ends well"
is "$(folders | wc -l)" 2 "and both are there"
is "$(wc -l <"$T/kept")" 2 "and written down"
like "$(looks status -a -h)" "train .*completed" "the first one still answers"
out=$("$demo" --stop 2>&1)
is "$?" 0 "--stop"
is "$(grep -c "stopped and removed $T/t/dpdemo" <<<"$out")" 2 "stops both"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"
out=$("$demo" --stop 2>&1)
is "$?" 0 "--stop once more"
like "$out" "nothing is kept" "finds nothing"
done_testing
