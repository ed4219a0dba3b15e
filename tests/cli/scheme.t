#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe simulate --scheme: the table of doc/simulator.md, other sorts of files, and what is wrong.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh
command -v jq >/dev/null || skip_all "jq is not installed"
example=$DP_SRCDIR/etc/examples/simulate-7b.json
ms() { "$dynpipe" simulate "$@" --json | jq .simulation.phases[-1].iteration_ms; }

# ---- frozen prefixes of the example: as the document has them ----
"$dynpipe" simulate "$example" --iterations 1 --json >"$tmp/start.json"
start=$(jq .simulation.phases[0].iteration_ms "$tmp/start.json")
layout=$(jq -c .simulation.phases[0].layout "$tmp/start.json")
jq --argjson layout "$layout" 'del(.balance) | .layout = $layout' "$example" >"$tmp/kept.json"
gain() { jq -n "$start / $1 * 100 | round / 100"; }
for frozen in 8 16 24 26; do
    scheme=freeze,schedule=prefix,most=$(jq -n "$frozen / 32")
    kept=$(gain "$(ms "$tmp/kept.json" --iterations 1 --scheme "$scheme")")
    balanced=$(gain "$(ms "$example" --iterations 1 --scheme "$scheme")")
    devices=8
    while jq -ne "$(ms "$example" --iterations 1 --scheme "$scheme" --devices $((devices - 1))) <= $start" >/dev/null; do devices=$((devices - 1)); done
    runs "$frozen of 32 frozen: $kept times as fast, balanced $balanced times, $devices devices" \
        grep -qE "^\| $frozen( of 32 blocks)? \| $kept \| $balanced \| $devices \|$" "$DP_SRCDIR/doc/simulator.md"
done

for scheme in drop mod; do
    gain=$(jq -n "$(ms "$example" --iterations 1 --scheme $scheme --balance uniform) / $(ms "$example" --iterations 1 --scheme $scheme --balance time) * 100 | round / 100")
    runs "$scheme: balanced $gain times as fast" grep -qE "$gain times (as fast )?with .$scheme." "$DP_SRCDIR/doc/simulator.md"
done

# ---- a whole run ----
"$dynpipe" simulate "$example" --scheme freeze,schedule=geometric --balance time --json >"$tmp/run.json"
is "$(jq -c '[.simulation.phases[].first]' "$tmp/run.json")" "[1,2001,4001,6001,8001]" "five phases"
is "$(jq '[.simulation.phases[].iteration_ms] | . == (sort | reverse)' "$tmp/run.json")" true "each of them is faster"
like "$(jq -r .simulation.source "$tmp/run.json")" 'Arithmetic.*; scheme freeze,schedule=geometric,most=0.75,.*: He et al. 2021' \
    "the source names the scheme, its values and theirs"
is "$(ms "$example" --scheme moe,spread=0,top=1,ranks=8,experts=8 --iterations 1)" "$start" "experts that cost what they replace change nothing"

# ---- files of other sorts ----
two_towers=$DP_SRCDIR/etc/examples/two-towers.txt
exit_is 0 "a graph" simulate "$two_towers" --devices 4 --scheme drop
is "$("$dynpipe" simulate "$two_towers" --devices 4 --scheme drop --json | jq '.simulation.phases[0].stage_devices')" null "has one device a stage"
exit_is 1 "freezing in one iteration" simulate "$two_towers" --devices 4 --scheme freeze
like "$err" "two-towers.txt: scheme freeze: a run of one iteration has no time to freeze in; give it more \(--iterations\)" "says what to do"
exit_is 0 "in a hundred" simulate "$two_towers" --devices 4 --scheme freeze --iterations 100
exit_is 0 "densities stay" simulate "$DP_SRCDIR/etc/examples/simulate-gpt24.json" --scheme freeze,begin=0.7 -h -o density
is "$(tr -d ' ' <<<"$out" | uniq | tr '\n' ' ')" "1.000 0.612 0.414 0.341 " "and fall as ever"

# ---- pictures: what is frozen goes back to nobody ----
exit_is 0 "drawn" simulate "$example" --scheme freeze,schedule=prefix,most=0.5 --chrome-trace "$tmp/t.json" --svg "$tmp/t.svg"
is "$(jq '[.traceEvents[] | select(.cat == "backward") | .tid] | unique | length < 8' "$tmp/t.json")" true "devices of frozen layers have no backward"
is "$(jq '[.traceEvents[] | select(.cat == "forward") | .tid] | unique | length' "$tmp/t.json")" 8 "all have forwards"

# ---- help, and what is wrong ----
exit_is 0 "help of a scheme" simulate --scheme=moe,help
like "$out" 'spread +standard deviation of a rank.s load, in means \(assumed\), 0 to 4 \(0.2\)' "has keys, bounds and defaults"
like "$out" 'costs: Gale et al' "and sources"
exit_is 2 "an unknown scheme" simulate "$example" --scheme freez
like "$err" "simulate: --scheme: unknown scheme 'freez'; known: $("$dynpipe" simulate --scheme=help | cut -d' ' -f1 | paste -sd, | sed 's/,/, /g')" "names those that there are"
exit_is 2 "help of an unknown one" simulate --scheme freez,help
like "$err" "unknown scheme 'freez'" "too"
exit_is 2 "an unknown key" simulate "$example" --scheme freeze,alpha=1
like "$err" "scheme freeze has no 'alpha'; known: schedule, most" "names those that it has"
exit_is 2 "a value out of bounds" simulate "$example" --scheme freeze,most=1.5
like "$err" "scheme freeze, most='1.5': expected a number from 0 to 1" "names them"
exit_is 1 "values that contradict each other" simulate "$example" --scheme freeze,begin=0.9,end=0.8
like "$err" "simulate-7b.json: scheme freeze: begin=0.9 is not before end=0.8" "says which"
exit_is 2 "with --cluster" simulate --cluster "$DP_SRCDIR/etc/examples/simulate-cluster.json" --scheme drop
like "$err" "--scheme cannot be combined with --cluster" "is an error"
done_testing
