#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_messages between real processes: its JSON is complete and its figures agree, its table says the same,
# and what is no option is refused.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
bench=$DP_BUILDDIR/worker/bench/bench_messages
[ -x "$bench" ] || bail "$bench is not built"

"$bench" --json --workers 3 --rounds 5 >"$dir/out.json" 2>"$dir/err"
ok $? "three workers" || bail "$(cat "$dir/err")"
is "$(cat "$dir/err")" "" "nothing to complain about"
holds "machine and versions are named" '(.machine.cpu, .dynpipe, .compiler | length > 0) and .rounds == 5'
holds "four sizes one way, there and back, the exchange after a step" '
    [.rows[] | .what] == ["one way", "one way", "one way", "one way", "and back", "step sync"] and
    [.rows[].bytes] == [8, 200000, 1048576, 4194304, 8, null]'
# A NaN has no JSON: its key would be missing.
holds "all times are there and in order" '[.rows[].ns | .min > 0 and .median >= .min and .max >= .median] | all'
holds "4 MB take longer than 8 bytes, and all have a checksum" '
    .rows[3].ns.min > .rows[0].ns.min and ([.rows[:4][].checksum_ns > 0] | all)'
holds "each of the three says what a step costs it" '.rows[5] | .workers == 3 and (.cpu_ns | length == 3 and all(. > 0))'

"$bench" --workers 2 --rounds 3 >"$dir/table" 2>&1
ok $? "as a table"
is "$(grep -cE '^(machine:|one way|and back|step sync) ' "$dir/table")" 7 "the machine and a line for each" || diag "$(cat "$dir/table")"

for bad in "--workers 1" "--workers 17" "--rounds 0" "--rounds many" "--nonsense" "more"; do
    # shellcheck disable=SC2086
    "$bench" $bad >"$dir/out" 2>"$dir/err"
    is $? 2 "$bad is refused"
    is "$(wc -l <"$dir/err") $(tail -n 1 "$dir/err")" "2 Try bench_messages --help." "$bad: with a reason"
done
if [ -c /dev/full ]; then
    "$bench" --workers 2 --rounds 3 >/dev/full 2>"$dir/err"
    is "$? $(cat "$dir/err")" "1 bench_messages: stdout: No space left on device" "a full disk is told"
else
    skip "a full disk is told" "no /dev/full"
fi
done_testing
