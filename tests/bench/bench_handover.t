#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_handover between real processes: its JSON is complete and its figures agree, its table says the same,
# and what is no option is refused.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
bench=$DP_BUILDDIR/worker/bench/bench_handover
[ -x "$bench" ] || bail "$bench is not built"

"$bench" --json --mib 1,4 --rounds 3 >"$dir/out.json" 2>"$dir/err"
ok $? "layers of 1 and 4 MiB" || bail "$(cat "$dir/err")"
is "$(cat "$dir/err")" "" "nothing to complain about"
holds "machine and versions are named" '(.machine.cpu, .dynpipe, .compiler | length > 0) and .rounds == 3'
holds "dense and sparse, small and large" '[.rows[] | [.channels, .sparsity]] == [[48, 0], [96, 0], [48, 0.9], [96, 0.9]]'
holds "what moves is what was asked for, and a fraction of it where it is sparse" '
    (.rows[0].bytes - 1048576 | fabs) < 100000 and (.rows[1].bytes - 4194304 | fabs) < 400000 and
    .rows[2].bytes < .rows[0].bytes / 2 and .rows[3].bytes < .rows[1].bytes / 4'
# A NaN has no JSON: its key would be missing.
holds "all times are there and in order" '
    [.rows[] | .handover_ns, .ready_ns, .messages_ns, .checksum_ns, .memory_ns, .plans_ns |
        .min >= 0 and .median >= .min and .max >= .median] | length == 24 and all'
holds "nobody could train before all was checked" '[.rows[] | .ready_ns.median > .handover_ns.median] | all'
holds "rates and shares follow from bytes and times" '
    [.rows[] | (.handover_gb_s * .handover_ns.median / .bytes - 1 | fabs) < 1e-6 and
        (.messages_gb_s * .messages_ns.median / .bytes - 1 | fabs) < 1e-6 and
        (.share * .messages_gb_s / .handover_gb_s - 1 | fabs) < 1e-6] | all'
holds "only sparse layers have plans" '[.rows[].plans_ns.min > 0] == [false, false, true, true]'

"$bench" --mib 1 --sparsity 0 --rounds 1 --no-stock >"$dir/table" 2>&1
ok $? "as a table, without memory that was made ready"
is "$(grep -cE '^(machine:|channels| +48 )' "$dir/table")" 3 "the machine, names and a line" || diag "$(cat "$dir/table")"

for bad in "--mib 0" "--mib 4097" "--mib 1,x" "--sparsity 1" "--rounds 0" "--rounds 102" "--nonsense" "more"; do
    # shellcheck disable=SC2086
    "$bench" $bad >"$dir/out" 2>"$dir/err"
    is $? 2 "$bad is refused"
    is "$(wc -l <"$dir/err") $(tail -n 1 "$dir/err")" "2 Try bench_handover --help." "$bad: with a reason"
done
done_testing
