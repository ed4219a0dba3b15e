#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_demo: what it makes of two lines of ./demo, which a stand-in prints here.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
# shellcheck disable=SC2154 # dir comes from lib.sh
bench=$DP_SRCDIR/worker/bench/bench_demo
mkdir -p "$dir/build/worker" && : >"$dir/build/worker/dynpipe-worker" && chmod +x "$dir/build/worker/dynpipe-worker"

# Step after packing: 80, 100, 90 ms when pruned, 200 without; each call is written down.
cat >"$dir/demo" <<'X'
#!/bin/bash
echo "$*" >>"$CALLS"
while [ $# -gt 0 ]; do case $1 in --without-pruning) control=1 ;; --out) out=$2; shift ;; esac; shift; done
mkdir -p "$out" && echo '{}' | tee "$out/report.json" >"$out/losses.jsonl"
n=$(grep -vc without "$CALLS")
case ${MISS:-} in fails) exit 3 ;; stays) exit 0 ;; esac
after=(0 80 100 90)
[ -n "${control:-}" ] && ms=200 || ms=${after[n]}
echo "Cores:           the four nodes share 2 here. On 1 instead of 4 a step took $ms instead of 50 ms, $(awk "BEGIN { print $ms / 50 }") times as long;"
echo "                 with cores of its own for each worker: 2.00 times, by their CPU time (100 and 50 ms)"
X
chmod +x "$dir/demo"
export DEMO=$dir/demo CALLS=$dir/calls
: >"$CALLS"
"$bench" --build "$dir/build" --rounds 3 --keep "$dir/kept" >"$dir/out" 2>"$dir/err"
is $? 0 "three rounds" || diag "$(cat "$dir/err" "$dir/out")"
is "$(sed 's/ --out.*//' "$CALLS" | tr '\n' ';')" "$(printf -- '--nodes --fast;--nodes --fast --without-pruning;%.0s' 1 2 3)" \
    "in turns"
like "$(cat "$dir/out")" "^.*pruned: a step 1.80 times as long, with own cores 2.00; tokens for each device-s times 2.22, with own cores 2.00" "medians of the pruned runs"
like "$(cat "$dir/out")" "control: a step 4.00 times as long, with own cores 2.00; tokens for each device-s times 1.00, with own cores 2.00" "and of the control"
is "$(find "$dir/kept" -name report.json | wc -l)" 6 "and what they left is kept"
: >"$CALLS"
like "$(MISS=stays "$bench" --build "$dir/build" --rounds 1 2>&1; echo "rc=$?")" "round 1: pruned packed nothing.*rc=1" "a run that packed nothing is told"
like "$(MISS=fails "$bench" --build "$dir/build" --rounds 1 2>&1; echo "rc=$?")" "bench_demo: the demo failed.*rc=2" "and one that failed"
: >"$CALLS"
"$bench" --build "$dir/build" --rounds 1 --full >/dev/null
unlike "$(cat "$CALLS")" "--fast" "--full leaves out --fast"
like "$("$bench" --build "$dir" 2>&1)" "no programs there" "a folder without programs is named"
like "$("$bench" --rounds 0 2>&1)" "'0' is not a number from 1 to 99" "a wrong number is refused"
like "$("$bench" --what 2>&1)" "unknown option '--what'" "an unknown option is named"
done_testing
