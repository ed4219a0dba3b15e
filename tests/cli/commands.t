#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What each subcommand prints for a recorded run, as text and as JSON.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, data, tmp come from lib.sh

golden status-table status --from "$data/runs.json"
golden status-one status --from "$data/status.json"
golden status-ascii status --ascii --from "$data/status.json"
golden status-color status --color always --from "$data/status.json"
golden status-format status -h -o '%.8i|%T|%.6D' --from "$data/runs.json"
golden status-names status -o jobid,state:4,user --from "$data/runs.json"
COLUMNS=60 golden status-narrow status --from "$data/status.json"
golden explain explain --from "$data/explain.json"
golden explain-one explain -n 1 --from "$data/explain.json"
golden report report --from "$data/report.json"
# A run that may grow: what it asked for, why, and what became of it; else why it asks for nothing.
grown() { jq "(.run // .) |= (.growth = $1)" "$data/$2.json" >"$tmp/grown.json"; "$dynpipe" "$2" --from "$tmp/grown.json" | tr -s ' \n' ' '; }
for c in status explain report; do
    like "$(grown '{max_gpus: 8, wanted: 4, requests: 2, state: "withdrawn", why: "speed", held: 4, asked: 6, reason: "6 instead of 4, for speed",
        text: "not all of them have come in 600 s", decision: "stay: for another 100 s nothing is asked for"}' $c)" \
        "growth asked for 2 slices more, withdrawn: not all of them have come in 600 s; 6 instead of 4, for speed stay: for another 100 s" \
        "$c says what a run asked for"
    like "$(grown '{max_gpus: 8, wanted: 4, requests: 0, state: "none", decision: "stay: the reference is met"}' $c)" \
        "growth up to 8 slices; stay: the reference is met" "$c says why it asks for nothing"
    unlike "$(grown null $c)" "growth" "$c says nothing of others"
done
# Copies of layers: how many, what they cost, and who holds them.
copied() { jq "(.run // .) |= (.copies = $2 | .workers[0].copies = $3)" "$data/$1.json" >"$tmp/copied.json"; "$dynpipe" "$1" --from "$tmp/copied.json" | tr -s ' \n' ' '; }
one='{layers: 4, whole: 3, holder: 1, held_layers: 2, held_bytes: 2097152, step_bytes: 1048576, lag_steps: null}'
some='{of_each: 1, layers: 14, whole: 13, bytes: 3145728, step_bytes: 1048576, text: "1 being copied; where its worker is lost now, the newest checkpoint is taken"}'
for c in status report; do
    like "$(copied $c "$some" "$one")" "copies 13 of 14 layers; 3.0 MiB held, 1.0 MiB sent a step 1 being copied; where" "$c says which layers have copies"
    like "$(copied $c "${some/13/14}" "$one")" "copies 14 of 14 layers, no step behind;" "$c says that all have"
    unlike "$(copied $c null null)" "copies" "$c says nothing of others"
done
like "$(copied status "$some" "$one")" "worker 0: 3 of 4 layers on worker 1, the others are being copied; holds 2 of others, 2.0 MiB" "status says who holds whose"
# Layers that only go forward are said to, and what they save is not called pruning.
frozen() {
    jq "(.run // .) |= (.frozen_layers = $1 | .saving.cheaper_by = \"$3\")" "$data/$2.json" >"$tmp/frozen.json"
    "$dynpipe" "$2" --from "$tmp/frozen.json" | tr -s ' \n' ' '
}
like "$(frozen 4 status freezing)" "sparsity 18.0 % frozen layers 0-3 of 14" "status says which layers are frozen"
like "$(frozen 1 report freezing)" "frozen layer 0 of" "report says which layer is"
like "$(frozen 1 report freezing)" "with equally cheap layers: .21.6 % by packing and balancing; by freezing alone: .38.0 %" "and by what layers are cheaper"
like "$(frozen 4 report 'pruning and freezing')" "by pruning and freezing alone: .38.0 %" "also where it is both"
unlike "$(frozen 0 report pruning)" "frozen" "and nothing of others"
golden layout layout --from "$data/status.json"
is "$("$dynpipe" layout --megatron --from "$data/status.json")" "Et*3|t*3|t*3|t*3L" "the same as Megatron writes it"

DYNPIPE_FORMAT=jobid exit_is 0 "DYNPIPE_FORMAT chooses columns" status -h --from "$data/runs.json"
is "$(echo "$out" | head -n1 | tr -d ' ')" 4711 "and only those"

# A job's name is the user's text: nothing in it reaches the terminal as it is.
out=$("$dynpipe" status --from "$data/runs.json" | LC_ALL=C tr -d '\n -~\200-\377')
is "$out" "" "no control byte of a job's name is printed"
out=$("$dynpipe" status -o name:60 --from "$data/runs.json")
like "$out" 'we\\x1b\[31mird\\xe2\\x80\\xaename' "an escape sequence and a change of direction are spelled out"

if command -v python3 >/dev/null; then
    for c in status explain report layout watch; do
        from=$data/$c.json
        [ "$c" = layout ] && from=$data/status.json
        [ "$c" = watch ] && from=$data/watch.jsonl
        "$dynpipe" "$c" --json --from "$from" >"$tmp/$c.json"
        runs "$c --json is JSON with meta, errors and warnings" valid_json "$tmp/$c.json"
    done
    "$dynpipe" status --json --from "$data/runs.json" >"$tmp/runs.json"
    runs "status --json of several runs" valid_json "$tmp/runs.json"
    # What the command wrote it can read again.
    is "$("$dynpipe" status --from "$tmp/status.json")" "$("$dynpipe" status --from "$data/status.json")" \
        "a document of --json can be given to --from"
    is "$("$dynpipe" watch --from "$tmp/watch.json")" "$("$dynpipe" watch --from "$data/watch.jsonl")" \
        "a recorded watch can be watched again"
else
    skip "--json" "python3 is not installed"
fi

# A node that is not there is named, in the table of runs, too; and a proof is not cut off.
cat >"$tmp/missing.json" <<X
{"job_id": 7, "state": "waiting", "state_text": "waiting for workers (1 of 2 are there): nothing from n2 for 12 s: Connection refused",
 "step": 30, "steps_total": 100, "missing": [{"node": "n2", "ranks": [], "for_s": 12.0, "text": "Connection refused"}],
 "workers": [{"rank": 0, "node": "n1", "state": "connected", "first_layer": 0, "layers": 4, "load": null, "step": 30},
  {"rank": 1, "node": null, "state": "unknown", "first_layer": 4, "layers": 4, "load": null}],
 "slots": [{"node": "n1", "state": "active"}, {"node": "n2", "state": "held", "drained_at_s": 5.0,
  "text": "node=n2 job=7 empty twice 200 ms apart: processes=0 (first seen 0, TERM 0, KILL 0) device_lock=free boot_id=e82d8493-26b1-44cc-9f4c-0123456789ab"}]}
X
out=$("$dynpipe" status --from "$tmp/missing.json")
like "$out" "missing n2 for 12.* s: Connection refused" "status names the missing node and why"
like "$out" "1  - +4-7 +not heard from yet" "and puts its worker on no other node"
like "$out" "step 30 of 100" "and shows how far the others are"
is "$("$dynpipe" status -a --from "$tmp/missing.json" -h -o jobid | grep -c .)" 1 "a table for programs has no such line"
echo "{\"runs\": [$(cat "$tmp/missing.json")]}" >"$tmp/runs.json"
like "$("$dynpipe" status --from "$tmp/runs.json")" "job 7: waiting for workers \(1 of 2 are there\): nothing from n2" "status of all runs says so below its table"
out=$("$dynpipe" explain --from "$tmp/missing.json")
like "$out" "0123456789ab" "explain shows a proof to its end"
like "$out" "missing n2 for 12.* s: Connection refused" "and the missing node"

# Documents with nothing in them, and documents with the wrong things in them.
echo '{}' >"$tmp/empty.json"
echo '{"job_id":"x","workers":7,"cuts":[null,"a"],"slots":[1],"devices_held":[[]],"last_decision":5,"loss":true,"decisions":[3],"handovers":{}}' >"$tmp/odd.json"
for c in status explain report layout watch; do
    for f in empty odd; do exit_is 0 "$c: $f document" "$c" --from "$tmp/$f.json"; done
done

# The picture of a report.
exit_is 0 "report --svg" report --from "$data/report.json" --svg "$tmp/report.svg"
is "$out" "$("$dynpipe" report --from "$data/report.json")" "prints the report, too"
[ -z "${DP_UPDATE:-}" ] || cp "$tmp/report.svg" "$data/report.svg"
runs "the picture is as recorded" diff "$data/report.svg" "$tmp/report.svg"
exit_is 0 "with --json" report --json --from "$data/report.json" --svg "$tmp/again.svg"
runs "it is the same" cmp "$tmp/report.svg" "$tmp/again.svg"
exit_is 1 "a report without nodes" report --from "$tmp/empty.json" --svg "$tmp/none.svg"
like "$err" "none.svg: nothing to draw: the report names no node, or no time" "is none to draw"
runs "and leaves no file" test ! -e "$tmp/none.svg"
exit_is 1 "a picture that cannot be written" report --from "$data/report.json" --svg "$tmp/none/x.svg"
like "$err" "none/x.svg: No such file" "names it"
# A disk that is full after a kilobyte.
echo "the one before" >"$tmp/kept.svg"
chmod 640 "$tmp/kept.svg"
(trap '' XFSZ; ulimit -f 1; "$dynpipe" report --from "$data/report.json" --svg "$tmp/kept.svg") >/dev/null 2>"$tmp/full.err"
is "$?" 1 "a picture that does not fit on the disk"
like "$(cat "$tmp/full.err")" "kept.svg: File too large" "names it"
is "$(cat "$tmp/kept.svg")" "the one before" "and leaves the one before"
is "$(find "$tmp" -name 'kept.svg?*')" "" "and nothing else"
exit_is 0 "a picture in the place of another" report --from "$data/report.json" --svg "$tmp/kept.svg"
runs "takes it" cmp "$tmp/report.svg" "$tmp/kept.svg"
is "$(stat -c %a "$tmp/kept.svg")" 640 "with its rights"
is "$(umask 027; "$dynpipe" report --from "$data/report.json" --svg "$tmp/fresh.svg" >/dev/null; stat -c %a "$tmp/fresh.svg")" 640 "a new one has those of the umask"
exit_is 2 "status --svg" status --svg x --from "$data/status.json"
if command -v python3 >/dev/null; then
    # 300 nodes, two workers each, with names that are no XML, one that left and never was given back, and holes.
    python3 - "$tmp" <<'P'
import json, sys
slots = [{"slot": i, "node": "a<b&%d\"" % i, "batch_host": i == 0, "freed_at_s": 30 + i if 0 < i < 299 else None} for i in range(300)]
workers = [{"rank": r, "slot": r // 2} for r in range(600)]
start = "|".join("%d-%d" % (r, r) for r in range(600))
doc = {"job": {"id": 7, "name": "<x> & \u0007y"}, "now_s": 1e5, "slots": slots, "workers": workers, "start_layout": {"text": start},
       "handovers": [{"outcome": "committed", "done_at_s": None, "decided_at_s": 10, "layout": "0-599" + "|-" * 599},
                     {"outcome": "aborted", "done_at_s": 11, "layout": "x"}, {"outcome": "committed", "layout": None},
                     {"outcome": "committed", "done_at_s": 20, "layout": "0-599" + "|x" * 599}],
       "samples": [{"at_s": 1, "loss": None, "tokens_per_s": 5}, {"at_s": 2, "loss": 3, "sparsity": 0.5}, 4, {}],
       "slots_held_over_time": [[0, 300], [30]]}
json.dump(doc, open(sys.argv[1] + "/wide.json", "w"))
P
    # The same run with layers that froze on the way, and one in which they were frozen before its first sample.
    python3 - "$data/report.json" "$tmp" <<'P'
import json, sys
doc = json.load(open(sys.argv[1]))
for name, since in ("froze", 20), ("static", -1):
    body = doc["report"] if "report" in doc else doc
    for s in body["samples"]:
        s["frozen_layers"] = 3 if s["step"] > since else 0
    body["frozen_layers"] = 3
    json.dump(doc, open("%s/%s.json" % (sys.argv[2], name), "w"))
P
    exit_is 0 "layers that froze" report --from "$tmp/froze.json" --svg "$tmp/froze.svg"
    like "$out" "frozen layers 0-2 of [0-9]+: these only go forward, the first one since step [3-9][0-9] or shortly before" \
        "the report says since when"
    is "$(grep -c '>frozen layers<' "$tmp/froze.svg") $(grep -c '<path class="c"' "$tmp/froze.svg")" "1 4" "the picture has a curve of them"
    is "$(grep -c '>frozen layers<' "$tmp/report.svg") $(grep -c '<path class="c"' "$tmp/report.svg")" "0 3" "where none froze it has none"
    exit_is 0 "layers that were frozen from the start" report --from "$tmp/static.json" --svg "$tmp/static.svg"
    like "$out" "the first one since step 0 or" "the report says it"
    exit_is 0 "300 nodes, odd names, holes" report --from "$tmp/wide.json" --svg "$tmp/wide.svg"
    for f in report froze static wide; do
        runs "$f.svg is XML" python3 -c 'import sys, xml.dom.minidom as d; assert d.parse(sys.argv[1]).documentElement.tagName == "svg"' "$tmp/$f.svg"
    done
    unlike "$(cat "$tmp/wide.svg")" '(nan|inf|="-[0-9])' "all that is drawn has a place"
    like "$(cat "$tmp/wide.svg")" 'layers 0-0, 1-1' "two workers of a node share its row"
else
    skip "pictures are XML" "python3 is not installed"
fi
done_testing
