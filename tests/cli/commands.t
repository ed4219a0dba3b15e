#!/bin/bash
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

# Documents with nothing in them, and documents with the wrong things in them.
echo '{}' >"$tmp/empty.json"
echo '{"job_id":"x","workers":7,"cuts":[null,"a"],"slots":[1],"devices_held":[[]],"last_decision":5,"loss":true,"decisions":[3],"handovers":{}}' >"$tmp/odd.json"
for c in status explain report layout watch; do
    for f in empty odd; do exit_is 0 "$c: $f document" "$c" --from "$tmp/$f.json"; done
done
done_testing
