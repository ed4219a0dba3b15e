#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe simulate: its tables, its document, its drawings, and what it says about wrong files.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh
example=$DP_SRCDIR/etc/examples/simulate-gpt24.json

cat >"$tmp/worked.json" <<'X'
{"name": "worked example", "source": "made up", "devices": 3, "microbatches": 2,
 "kinds": {"s": {"forward_ms": 1, "backward_input_ms": 1, "backward_weight_ms": 1},
           "l": {"forward_ms": 2, "backward_input_ms": 2, "backward_weight_ms": 2}},
 "layers": ["s", "s", "l"]}
X
golden simulate simulate "$example"
exit_is 0 "the worked example of doc/simulator.md" simulate "$tmp/worked.json" -h -o ms,bound,bubbles
is "$out" "18.000    18.000  67 67 33" "18 ms, the lower bound"
exit_is 0 "columns as squeue takes them" simulate "$tmp/worked.json" -h -o '%2i|%t|%l'
is "$out" "1 |18.000|1 1 1" "prints them"
exit_is 0 "from stdin" simulate - -h -o ms <"$tmp/worked.json"
is "$out" "18.000" "the same"
exit_is 0 "another schedule" simulate "$tmp/worked.json" --schedule gpipe --microbatches 3 -h -o ms
is "$out" "$((1 + 1 + 2 + 2 * 2 + 2 + 2 + 4 + 2 * 4)).000" "GPipe's closed form"

"$dynpipe" simulate --json "$example" >"$tmp/doc.json"
runs "--json is valid" valid_json "$tmp/doc.json"
exit_is 0 "draws" simulate "$example" --draw 4000 --svg "$tmp/t.svg" --chrome-trace "$tmp/t.json"
exit_is 0 "draws all-reduces and chunks, too" simulate "$example" --schedule interleaved --devices 4 --chunks 3 --replicas 2 \
    --balance uniform --iterations 1 --svg "$tmp/i.svg" --chrome-trace "$tmp/i.json"
exit_is 0 "draws weight gradients" simulate "$example" --schedule zb-h1 --draw 1 --svg "$tmp/z.svg" --chrome-trace "$tmp/z.json"

# The Trace Event Format: X has ts and dur, M a name, C numbers; nothing overlaps in a row, and the
# rows' times are those of the document.
cat >"$tmp/check.py" <<'X'
import json, sys
from collections import defaultdict
trace, n_ops = json.load(open(sys.argv[1])), int(sys.argv[2])
rows, kinds, held = defaultdict(list), defaultdict(int), set()
assert trace["displayTimeUnit"] in ("ms", "ns")
for e in trace["traceEvents"]:
    assert isinstance(e["pid"], int) and isinstance(e["name"], str), e
    if e["ph"] == "X":
        assert isinstance(e["tid"], int) and e["ts"] >= 0 and e["dur"] >= 0, e
        rows[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
        kinds[e["cat"]] += 1
    elif e["ph"] == "M":
        assert e["name"] in ("process_name", "thread_name") and e["args"]["name"], e
    elif e["ph"] == "C":
        assert e["args"]["bytes"] >= 0 and e["ts"] >= 0, e
        held.add(e["name"])
    else:
        raise AssertionError(e)
for row in rows.values():
    row.sort()
    for a, b in zip(row, row[1:]):
        assert b[0] >= a[1] - 0.002, (a, b)
assert kinds["forward"] + kinds["backward"] + kinds["weight gradient"] == n_ops, kinds
assert len(held) == kinds["optimizer"] and kinds["forward"] == kinds["backward"], kinds
if len(sys.argv) > 3:
    phase = [p for p in json.load(open(sys.argv[3]))["simulation"]["phases"] if p["first"] == 4000][0]
    for s in phase["stages"]:
        busy = sum(b - a for a, b in rows[0, s["device"]]) / 1000
        assert abs(busy - s["busy_ms"]) < 0.01, (busy, s)
    assert abs(max(r[-1][1] for r in rows.values()) / 1000 - phase["iteration_ms"]) < 0.01
X
runs "the Chrome trace follows its format and agrees with the document" python3 "$tmp/check.py" "$tmp/t.json" $((2 * 8 * 16)) "$tmp/doc.json"
runs "so does one with all-reduces" python3 "$tmp/check.py" "$tmp/i.json" $((2 * 4 * 3 * 16))
like "$(cat "$tmp/i.json")" '"name":"all-reduce"' "which has them"
runs "and one with weight gradients" python3 "$tmp/check.py" "$tmp/z.json" $((3 * 8 * 16))
for f in t i z; do
    runs "$f.svg is XML" python3 -c 'import sys, xml.dom.minidom as d; assert d.parse(sys.argv[1]).documentElement.tagName == "svg"' "$tmp/$f.svg"
done
"$dynpipe" simulate "$tmp/worked.json" --svg "$tmp/worked.svg" >/dev/null
[ -z "${DP_UPDATE:-}" ] || cp "$tmp/worked.svg" "$data/simulate.svg"
runs "the picture of the worked example: as recorded" diff "$data/simulate.svg" "$tmp/worked.svg"

exit_is 1 "no such file" simulate "$tmp/none.json"
like "$err" 'none.json: No such file' "names it"
printf '{"source": "x",\n "devices": nan}\n' >"$tmp/bad.json"
exit_is 1 "no JSON" simulate "$tmp/bad.json"
like "$err" 'bad.json:2: ' "names file and line"
sed 's/"forward_ms": 2/"forward_ms": -2/' "$tmp/worked.json" >"$tmp/bad.json"
exit_is 1 "a negative time" simulate "$tmp/bad.json"
like "$err" 'bad.json: kinds.l.forward_ms: expected a number from 0' "names the member"
exit_is 1 "--json of a bad file" simulate --json "$tmp/bad.json"
like "$out" '"errors": \[' "has the error in its document"
head -c 100 "$tmp/worked.json" >"$tmp/bad.json"
exit_is 1 "a truncated file" simulate "$tmp/bad.json"
like "$err" 'bad.json:2: ' "says where it ends"
exit_is 2 "an unknown schedule" simulate "$tmp/worked.json" --schedule zb
like "$err" "simulate: --schedule=zb: unknown schedule 'zb'; known: 1f1b" "lists them, and blames no file"
two_towers=$DP_SRCDIR/etc/examples/two-towers.txt
for options in "--devices=3 --straight" "--devices=4"; do
    # shellcheck disable=SC2086
    is "$("$dynpipe" simulate "$two_towers" $options --bandwidth 1.25 --json | jq '.simulation.phases[0].iteration_ms * 1e6 | round')" \
        "$("$dynpipe" plan "$two_towers" $options --bandwidth 1.25 --json | jq .plan.prediction.iteration_ns)" \
        "a graph, $options: takes as long as dynpipe plan says"
done
is "$("$dynpipe" simulate "$two_towers" --devices=2x2 --bandwidth 1.25 --json | jq '.simulation.phases[0].iteration_ms * 1e6 | round')" \
    "$("$dynpipe" plan "$two_towers" --devices=2x2 --bandwidth 1.25,1.25 --json | jq .plan.prediction.iteration_ns)" \
    "a graph on two machines: takes as long as dynpipe plan says"
exit_is 0 "a description on nodes" simulate "$tmp/worked.json" --devices 2x2 --balance uniform
for d in 4x 2x2x2 0x2 300x300 x2; do exit_is 2 "--devices=$d" simulate "$tmp/worked.json" "--devices=$d"; done
exit_is 0 "stages with replicas" simulate "$two_towers" --devices 4 --bandwidth 1.25 --svg "$tmp/wide.svg" --chrome-trace "$tmp/wide.json"
like "$out" $' 5x2 5x2\n' "shows how many layers on how many devices"
like "$out" '[0-9] s, 0 s of it pauses; [0-9.]+ device-s' "knows no tokens"
is "$(jq '[.traceEvents[] | select(.name == "all-reduce") | .args.stage] | tostring' "$tmp/wide.json")" '"[0,0,1,1]"' \
    "they exchange gradients"
is "$(jq '[.traceEvents[] | select(.name == "forward 3") | .tid] | tostring' "$tmp/wide.json")" '"[1,3]"' \
    "microbatch 3 is on the second replica of each"
is "$(jq -r '[.traceEvents[] | select(.ph == "X") | .ts + .dur] | max' "$tmp/wide.json")" \
    "$("$dynpipe" simulate "$two_towers" --devices 4 --bandwidth 1.25 --json | jq '.simulation.phases[0].iteration_ms * 1000')" \
    "the trace ends with the iteration"
for options in "--balance time" "--replicas 2" "--schedule zb-h1"; do
    # shellcheck disable=SC2086
    is "$("$dynpipe" simulate "$two_towers" --devices 4 $options --json | jq '.simulation.phases[0].stage_devices')" null \
        "$options: one device a stage"
done
exit_is 1 "a graph without devices" simulate "$two_towers"
like "$err" "two-towers.txt: the graph does not say how many devices there are; use --devices=N" "is told what is missing"
head -c 500 "$two_towers" >"$tmp/torn.txt"
exit_is 1 "a torn graph" simulate "$tmp/torn.txt" --devices 2
like "$err" "torn.txt:[0-9]+: " "names file and line"
exit_is 2 "a bandwidth that is none" simulate "$two_towers" --devices 2 --bandwidth=fast
exit_is 0 "the policies are listed" simulate --balance=help
is "$(cut -d' ' -f1 <<<"$out" | head -n 4 | tr '\n' ' ')" "keep uniform param time " "by their names"
exit_is 2 "an unknown policy" simulate "$tmp/worked.json" --balance tmie
like "$err" "simulate: --balance=tmie: unknown policy 'tmie'; known: keep" "says so, and blames no file"
# A layout leaves the document as a description takes it in: device 2 is slow, and on another node than device 1.
cat >"$tmp/gap.json" <<'X'
{"name": "gap", "source": "made up", "devices": 4, "microbatches": 2, "device": {"speed": [1, 1, 0.5, 1]}, "iterations": 2,
 "network": {"devices_per_node": 2, "inside": {"latency_us": 1, "gb_per_s": 1}, "between": {"latency_us": 1000, "gb_per_s": 1}},
 "kinds": {"s": {"forward_ms": 1, "backward_input_ms": 1, "backward_weight_ms": 1, "output_bytes": 8}},
 "layers": ["s", "s", "s", "s"], "layout": [0, 1, 0, 3], "events": [{"iteration": 2, "layout": [2, 0, 2]}]}
X
stands() { jq -c '[.simulation.phases[] | [.layout, [.stages[] | [.device, .layers]], .iteration_ms]]'; }
first=$("$dynpipe" simulate "$tmp/gap.json" --json | stands)
is "$(jq -c 'map(.[:2])' <<<"$first")" '[[[0,1,0,3],[[1,1],[3,3]]],[[2,0,2],[[0,2],[2,2]]]]' "each stage is on its device"
for options in "" "--chunks 2 --schedule interleaved --devices 2"; do
    jq 'if $o == "" then . else del(.layout, .events, .device, .network) | .balance = "time" end' --arg o "$options" \
        "$tmp/gap.json" >"$tmp/from.json"
    # shellcheck disable=SC2086
    "$dynpipe" simulate "$tmp/from.json" $options --json >"$tmp/doc.json"
    jq 'del(.balance) | .layout = $d[0].simulation.phases[0].layout
        | if .events then .events[0].layout = $d[0].simulation.phases[1].layout else . end' \
        --slurpfile d "$tmp/doc.json" "$tmp/from.json" | jq --arg o "$options" \
        'if $o == "" then . else .devices = 2 | .chunks = 2 | .schedule = "interleaved" end' >"$tmp/back.json"
    is "$("$dynpipe" simulate "$tmp/back.json" --json | stands)" "$(stands <"$tmp/doc.json")" "read back, it is the same${options:+ with $options}"
done
exit_is 0 "a layout with a gap" simulate "$tmp/gap.json" -h -o layout
is "$out" "$(printf '%s\n' "0 1 0 3" "2 0 2")" "is printed with it"
# A policy of one's own: a file, loaded with the rights of whoever runs the command.
lib=$DP_BUILDDIR/tests/lib
exit_is 0 "a policy of a file" simulate "$example" --balance "$lib/headroom.so"
"$dynpipe" simulate "$example" --balance time >"$tmp/time.txt"
is "$out" "$(cat "$tmp/time.txt")" "the example finds what time finds, where memory is no limit"
cat >"$tmp/tight.json" <<'X'
{"name": "tight", "source": "made up", "devices": 3, "device": {"memory_bytes": 100}, "microbatches": 2,
 "kinds": {"s": {"forward_ms": 1, "backward_input_ms": 1, "backward_weight_ms": 1, "state_bytes": 25},
           "l": {"forward_ms": 4, "backward_input_ms": 4, "backward_weight_ms": 4, "state_bytes": 25}},
 "layers": ["s", "s", "s", "s", "l", "l"]}
X
exit_is 0 "with all of the memory" simulate "$tmp/tight.json" --balance "$lib/headroom.so" --arguments "free=0" -h -o layout
is "$out" "4 1 1" "a stage of four layers fits"
cp "$lib/headroom.so" "$tmp/mine.so"
ln -s mine.so "$tmp/link.so"
chmod 777 "$tmp/mine.so"
(cd "$tmp" && "$dynpipe" simulate tight.json --balance ./link.so --arguments "  free=20 " -h -o layout) >"$tmp/out" 2>&1
is "$(cat "$tmp/out")" "3 2 1" "with a fifth of it left free not, and a file that a daemon would not take will do"
for how in "none:no idea" "crash:it crashed: signal 11" "exit:it ended its process .status 3. instead" \
    "garbage:layout: " "layers:layout of 5 layers on 3 workers, asked for 6 on 3" "gone:layout: gives layers"; do
    exit_is 1 "a policy's answer, ${how%%:*}" simulate "$tmp/tight.json" --balance "$lib/bad_policy.so" --arguments "${how%%:*}"
    like "$err" "tight.json: policy .*/bad_policy.so: ${how#*:}" "is refused, and who gave it is named"
    is "$out" "" "nothing else is printed"
done
many=$(printf 'x %.0s' {1..33}) long=$(printf '%256s' x)
for how in "open:does not want to" ":wants one argument, got 0" "a b:wants one argument, got 2" \
    "$many:more than 32 arguments" "$long:the arguments are longer than 255 bytes"; do
    exit_is 2 "arguments: ${how#*:}" simulate "$tmp/tight.json" --balance "$lib/bad_policy.so" --arguments "${how%%:*}"
    like "$err" "simulate: --balance: policy .*/bad_policy.so: ${how#*:}" "are refused, and the policy is named"
done
exit_is 2 "another interface" simulate "$tmp/tight.json" --balance "$lib/old_policy.so"
like "$err" '/old_policy.so: it has policy interface 4711, this program has 1' "has both numbers"
exit_is 2 "an object without decide" simulate "$tmp/tight.json" --balance "$lib/no_decide.so"
like "$err" '/no_decide.so: it has no decide' "is named"
exit_is 2 "an object that is no policy" simulate "$tmp/tight.json" --balance "$lib/no_symbol.so"
like "$err" '/no_symbol.so: it has no symbol dp_policy_v1' "is told what is missing"
exit_is 2 "no shared object" simulate "$tmp/tight.json" --balance "$tmp/tight.json"
like "$err" 'policy .*/tight.json: cannot be loaded: ' "is named"
exit_is 2 "no such policy file" simulate "$tmp/tight.json" --balance "$tmp/none.so"
like "$err" 'policy .*/none.so: No such file or directory' "is named"
exit_is 2 "a file without a slash" simulate "$tmp/tight.json" --balance mine.so
like "$err" "unknown policy 'mine.so'.*a slash in its name" "is told to have one"
exit_is 2 "arguments for a policy that has none" simulate "$tmp/tight.json" --balance time --arguments x
like "$err" '--arguments requires --balance=./FILE.so' "says so"
sed 's/"devices"/"balance": ".\/", &/' "$tmp/tight.json" >"$tmp/bad.json"
exit_is 1 "a description that wants one" simulate "$tmp/bad.json"
like "$err" "unknown policy './'" "loads none"
for size in 513 1025; do
    jq --argjson n $size '.devices = $n | .device = {} | .layers = [{kind: "s", count: $n}]' "$tmp/tight.json" >"$tmp/large.json"
    exit_is 1 "a policy of a file, asked about $size layers" simulate "$tmp/large.json" --balance "$lib/headroom.so"
    like "$err" "$size layers in $size stages; such a policy can be asked about 1024 in 512 at most" "says how many it can"
done
exit_is 1 "an iteration that is not there" simulate "$tmp/worked.json" --draw 2
like "$err" 'the run has 1 iterations' "says so"
exit_is 1 "a picture that cannot be written" simulate "$tmp/worked.json" --svg "$tmp/none/x.svg"
like "$err" 'none/x.svg: No such file' "names it"
exit_is 1 "a picture with too much on it" simulate "$tmp/worked.json" --microbatches 60000 --svg "$tmp/x.svg"
like "$err" '360000 operations on 3 devices; a picture holds at most' "says so"
runs "and writes none" test ! -e "$tmp/x.svg"
# A recorded run whose workers had half a core each: why its steps take so much longer than predicted.
shared() { # RANK LOST-NS
    local layer='{"forward_ns":20000,"backward_input_ns":20000,"backward_weight_ns":20000,"state_bytes":100,"activation_bytes":1,"parameters":5,"nonzeros":5}'
    echo "{\"trace\":1,\"source\":\"a test\",\"rank\":$1,\"workers\":2,\"layers\":2,\"schedule\":\"1f1b\",\"microbatches\":2,\"tokens_per_microbatch\":10,\"boundary_bytes\":8}"
    echo "{\"step\":10,\"steps\":10,\"layout\":[1,1],\"held\":2,\"step_ns\":360000,\"wait_ns\":120000,\"busy_ns\":120000,\"optimizer_ns\":0,\"overhead_ns\":1,\"message_ns\":0,\"rest_ns\":0,\"lost_ns\":$2,\"boundary_ns\":0,\"mem_bytes\":1,\"first_layer\":$1,\"layers\":[$layer]}"
}
for lost in 120000 0; do
    for rank in 0 1; do shared $rank $lost >"$tmp/shared.$rank"; done
    exit_is 0 "a trace, $lost ns lost" simulate "$tmp/shared.0" "$tmp/shared.1"
    like "$out" 'PREDICTED MS +MEASURED MS' "both clocks have a heading"
    like "$out" 'predicted is device time, .*; measured is wall time' "and are named"
    if [ $lost = 0 ]; then
        unlike "$out" 'Workers shared cores' "nothing is said of cores that were not shared"
    else
        like "$out" 'Workers shared cores: others had one for up to 33 % of' "that cores were shared is said"
    fi
done
exit_is 2 "no file at all" simulate
like "$err" 'no file given' "asks for it"
exit_is 2 "a wrong number" simulate "$tmp/worked.json" --devices 0
like "$err" '--devices=0: expected a number from 1' "says what is wanted"
exit_is 2 "an unknown column" simulate "$tmp/worked.json" -o tokenz
done_testing
