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
like "$out" "1  - +4-7 +not heard of yet" "and puts its worker on no other node"
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
done_testing
