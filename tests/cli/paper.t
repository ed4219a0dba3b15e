#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# policies/sim/paper/paper: the papers' setting, small enough for a test: its tables agree with its results, the results
# with arithmetic, and what is wrong is said.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # tmp, dynpipe come from lib.sh
command -v jq >/dev/null || skip_all "jq is not installed"
paper() { "$DP_SRCDIR/policies/sim/paper/paper" --dynpipe "$dynpipe" --out "$tmp/out" "$@"; }
holds() { # NAME JQ_EXPRESSION
    jq -e "$2" "$tmp/out/results.json" >/dev/null 2>"$tmp/jq.err"
    ok $? "$1" || diag "not true: $2 $(cat "$tmp/jq.err")"
}

paper --layers 8 --policies keep,time >"$tmp/text" 2>"$tmp/err"
ok $? "8 layers, two policies" || diag "$(cat "$tmp/err")"
like "$(cat "$tmp/text")" "720 devices, 8 layers" "8 and 720 devices"
like "$(cat "$tmp/text")" "up to 3.18x +pruning +DynMo, SC'25" "published numbers have their versions"
holds "every run is there: two scales, two policies beside static, and nine bandwidths of two" \
    '(.results | map(select(.kind == "layers") | "\(.devices) \(.policy)")) == ["8 static", "8 keep", "8 time", "720 static", "720 keep", "720 time"]
     and (.results | map(select(.kind == "bandwidth")) | length) == 36'
holds "the levels are the papers'" '.sparsity | . == [0, 0.5203, 0.7875, 0.8859, 0.9]'
holds "tokens per second are those of an iteration" \
    '[.results[] | .devices as $d | .balanced | .iteration_ms as $ms | .tokens_per_s | to_entries[]
      | .value * $ms[.key] / (2 * 1024 * 32 * $d / 8 * 1000) - 1 | fabs < 1e-9] | all'
holds "a run has every overhead inside" \
    '[.results[] | select(.policy == "time") | .balanced
      | (([.iteration_ms, [3999, 1000, 1000, 1000, 3001]] | transpose | map(.[0] * .[1]) | add) + (.pause_ms | add)) / 1e3 / .time_s - 1
      | fabs < 1e-9] | all'
holds "decisions and hand-overs cost" '[.results[] | select(.policy == "time") | .balanced.pause_ms[1:][] > 200] | all'
holds "what is never moved never pauses" '[.results[] | select(.policy == "static") | .balanced.pause_s == 0] | all'
holds "time is not slower than static, at any level" \
    '[.results | group_by([.kind, .devices, .between_gb_per_s])[] | (map(select(.policy == "static"))[0].balanced.iteration_ms) as $s
      | .[] | select(.policy == "time") | [.balanced.iteration_ms, $s] | transpose[] | .[0] <= .[1] * 1.001] | all'
holds "packed runs are no slower than their start, and give devices back" \
    '[.results[] | select(.policy == "time") | .packed | (.iteration_ms[0] as $start | .iteration_ms[1:] | all(. <= $start * 1.000002))
      and .held[-1] < .held[0] and (.held | . == (sort | reverse))] | all'
holds "more bandwidth is never slower" \
    '[.results[] | select(.kind == "bandwidth")] | group_by([.devices, .policy])
     | map(sort_by(.between_gb_per_s) | map(.balanced.iteration_ms[4]) | . == (sort | reverse)) | all'
if command -v gnuplot >/dev/null; then
    runs "the picture is XML" python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$tmp/out/paper.svg"
else
    like "$(cat "$tmp/text")" "no picture: gnuplot is not installed" "without gnuplot that is said"
fi
cp "$tmp/out/results.json" "$tmp/first.json"
paper --layers 8 --policies keep,time --json >"$tmp/again.json" 2>"$tmp/err"
is "$(cmp "$tmp/first.json" "$tmp/again.json" 2>&1)" "" "twice the same, and --json prints it"

# iteration over uniform: as the results say, and the more the later the dense blocks come, which is where the head is
model() { jq -n -L "$DP_SRCDIR/policies/sim/paper" "include \"model\"; $1"; }
is "$(model '[0.25, 4, 1] | fill(1.5) | map(. * 1e6 | round / 1e6) | tostring')" '"[0.1,1,0.4]"' "what a full block cannot hold the others get"
runs "densities of every spread make up the level" jq -ne -L "$DP_SRCDIR/policies/sim/paper" --slurpfile d "$DP_SRCDIR/policies/sim/paper/densities.json" '
    include "model"; [$d[0].levels[] as $l | (null, 1e-9, 0.1, 1, 16, 1e9) as $s | (8, 56) as $n | densities_of($l; $n; $s)
        | (add / $n - (1 - $l.sparsity) | fabs < 1e-9), (all(. >= 0 and . <= 1))] | all'
paper --layers 16 --policies uniform,iteration >"$tmp/text" 2>"$tmp/err"
ok $? "16 layers, uniform and iteration" || diag "$(cat "$tmp/err")"
row() { # KIND, DEVICES: the row that jq makes of the results
    jq -r --argjson devices "$1" 'def x: . * 100 | round / 100; .results | map(select(.kind == "layers" and .devices == $devices) | {(.policy): .}) | add
        | [(.iteration, .uniform) | .balanced.tokens_per_s + [.balanced.run_tokens_per_s, .packed.run_tokens_per_s, .packed.run_tokens_per_device_s]]
        | transpose | map(.[0] / .[1] | x) | "iteration / uniform \(.[0]) \(.[1]) \(.[2]) \(.[4]) - \(.[5]) - - - \(.[6]) \(.[7]) -"' "$tmp/out/results.json"
}
is "$(grep "iteration / uniform" "$tmp/text" | tr -s ' ' | sed 's/^ //')" "$(row 8; row 720)" "what iteration gains over uniform is a row of each table"
holds "and is a gain at every level" '[.results[] | select(.kind != "bandwidth" and .policy != "static")] | group_by([.kind, .devices, .spread])
    | map(map({(.policy): .balanced.iteration_ms}) | add | [.iteration, .uniform] | transpose[] | .[0] <= .[1] * 1.000001) | length == 30 and all'
is "$(sed -n '/by how density spreads/,/^$/p' "$tmp/text" | sed -n 's/^  \([a-z0-9 /]*[a-z0-9]\)   .*/\1/p' | tr '\n' ';')" \
    "falls to 1/16;the same;measured;rises to 16 times;all in the last blocks;" "a row for every spread"
holds "the more the denser the last blocks are" '[.results[] | select(.kind == "spread")] | group_by(.spread)
    | map(map({(.policy): .balanced.tokens_per_s[4]}) | add | .iteration / .uniform) | length == 4 and . == sort'
unlike "$(paper --layers 8 --policies iteration)" "iteration / uniform|by how density" "neither without uniform"

mkdir "$tmp/a folder"
TMPDIR="$tmp/a folder" paper --policies deepspeed-param >"$tmp/text" 2>"$tmp/err"
ok $? "a policy whose layouts do not fit" || diag "$(cat "$tmp/err")"
like "$(cat "$tmp/text")" "  deepspeed-param  *event 2: policy deepspeed-param: worker 1 would need" "it is said in its row"
is "$(grep -rlF "a folder" "$tmp/text" "$tmp/out")" "" "without the name of a temporary file"
is "$(grep -o '^[0-9]* devices, [0-9]* layers: ' "$tmp/text" | tr -d '\n')" \
    "$(printf '%s layers: ' "8 devices, "{24,32,40,48,56} "720 devices, "{24,32,40,48,56})" "the papers' numbers of layers, 56 too"
if command -v gnuplot >/dev/null; then
    like "$(cat "$tmp/out/paper.svg")" "3\.18 DynMo, pruning" "DynMo's 3.18 is in the picture"
fi
refused() { # CODE NAME REGEX ARGUMENTS...
    like "$(paper "${@:4}" 2>&1; echo "rc=$?")" "$3.*rc=$1" "$2"
}
refused 2 "12 layers are refused" "12 blocks are no equal share for 8 devices" --layers 12
refused 2 "an unknown policy is named" "there is no 'tmie'; known: keep, uniform" --policies tmie
refused 2 "an unknown option is named" "unknown option '--what'" --what
refused 2 "so is one without its value" "--layers needs a value" --layers
refused 2 "and an argument too many" "unknown option 'extra'" extra
refused 1 "a file that is not there" "$tmp/none" --densities "$tmp/none"
done_testing
