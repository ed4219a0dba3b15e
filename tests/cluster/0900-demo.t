#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ./demo tells its story of slices to the end: two are left, three other jobs run on what came back, one slice is preempted,
# and the losses are those of one worker. And it cleans up: after --keep by --stop, after ^C at once, and twice is no harm.
# Short runs of what is built here; what ./demo --nodes shows is for whoever runs it.
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
export DP_SRCDIR DP_BUILDDIR
# shellcheck source=tests/lib/tap.sh
. "$DP_SRCDIR/tests/lib/tap.sh"
# shellcheck source=tests/lib/cores.sh
. "$DP_SRCDIR/tests/lib/cores.sh"
for p in munged slurmctld slurmd srun bible; do
    command -v $p >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh lists the packages)"
done
take_core
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
trap 'case $BASHPID in $$) clean_up ;; esac' EXIT
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
"$demo" --stop --nodes >/dev/null 2>&1
is "$?" 2 "--stop --nodes is refused"
out=$("$demo" --without-pruning 2>&1)
is "$?: $out" "2: demo: --without-pruning goes with --nodes" "--without-pruning is for nodes alone"

begin --keep
cluster_begins() { [ -n "$(folders)" ] && [ -n "$(processes)" ]; }
wait_for 120 cluster_begins
ok $? "a private Slurm comes up"
interrupt
is $rc 130 "^C while it comes up, with --keep: ended by it"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"
fails "nothing is written down as kept" test -s "$T/kept"

begin
wait_for 240 grep -q "step .*devices 8/8" "$T/demo.out"
ok $? "a run of slices begins"
interrupt
is $rc 130 "^C while it trains: ended by it"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"

begin --nodes --without-pruning
wait_for 240 grep -q "is a run without pruning on 4 nodes" "$T/demo.out"
ok $? "a run begins, the control"
like "$(cat "$T/demo.out")" "sbatch --dynpipe=release .*--dynpipe-max-slowdown=99" "which may become as slow as it likes"
interrupt
is $rc 130 "^C in the middle: ended by it"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"

begin --nodes --keep
end
is $rc 0 "--nodes --keep: the demo ends well"
like "$(cat "$T/demo.out")" "DynPipe report .*Kept running: .*\. $T/t/dpdemo.*/env.*Stop it with: .*demo --stop" \
    "and says what it leaves, and how to stop it"
D=$(folders)
# shellcheck source=/dev/null
looks() { (. "$D/env" && dynpipe "$@" 2>&1); }
like "$(looks status -a -h)" "train .*completed" "its daemons answer: status"
like "$(looks explain -j 1)" "job 1  policy" "explain"
like "$(looks check)" "ok +nodes +the daemons of 4 of 4 nodes were asked" "check"

unset DEMO_STEPS
begin --keep --fast
end
is $rc 0 "slices, and --keep a second time: the demo ends well"
# Who has the GPUs, sorted, a line whenever that changes: "01234567" at first, "-0" for nobody and a slice.
# (Of the last run, where it was told twice because others kept the machine busy.)
sed -n '/ sbatch --array/h; / sbatch --array/!H; ${g; p}' "$T/demo.out" | sed -n 's/.* GPUs: n1 \[\(.*\)\]  n2 \[\([^]]*\)\].*/\1\2/p' |
    while read -r line; do tr -d ' ' <<<"$line" | grep -o . | LC_ALL=C sort | tr -d '\n'; echo; done >"$T/gpus"
is "$(head -n 1 "$T/gpus")" 01234567 "slices: eight have a GPU each"
like "$(cat "$T/gpus")" "0[1-7]AABBCC.*0AABBCCU.*--------" "slices: two are left beside three other jobs; then one and an urgent job; all end"
is "$(tr -d 'ABCU-' <"$T/gpus" | awk '{ print length }' | uniq)" "$(tr -d 'ABCU-' <"$T/gpus" | awk '{ print length }' | sort -rnu)" \
    "slices: they become fewer and fewer"
like "$(cat "$T/demo.out")" "job A had .* and nobody wanted .*the other slice made the last .*in all [0-9]* steps, to the last bit, those of one worker" \
    "slices: what each job had of the GPUs is told, and that the losses are those of one worker"
awk '/^GPU-seconds:/ { used = $12; back = $16 + 0; exit !(back > 0 && used + back >= $3 - 2 && used + back <= $3 + 2) }' "$T/demo.out"
ok $? "slices: what it used and what it gave back are all there is" || diag "$(grep -A1 ^GPU-seconds "$T/demo.out")"
is "$(folders | wc -l)" 2 "and both are there"
is "$(wc -l <"$T/kept")" 2 "and written down"
like "$(looks status -a -h)" "train .*completed" "the first one still answers"
out=$("$demo" --stop 2>&1)
is "$?" 0 "--stop"
is "$(grep -c "stopped and removed $T/t/dpdemo" <<<"$out")" 2 "stops both"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"

begin --lose-node
end
is $rc 0 "--lose-node: the demo ends well"
like "$(tr -s ' \n' ' ' <"$T/demo.out")" "lost at .*: worker 2 on n3 was lost .*; 2 workers go on from step [0-9]+ with .* from copies: no step is lost" \
    "and the run goes on from copies"
nothing_left
ok $? "and nothing is left" || diag "$(processes) $(folders)"

out=$("$demo" --stop 2>&1)
is "$?" 0 "--stop once more"
like "$out" "nothing is kept" "finds nothing"
done_testing
