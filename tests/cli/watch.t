#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe watch: lines where there is no terminal, the live view in a pseudo terminal.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # data, tmp come from lib.sh

golden watch-plain watch --from "$data/watch.jsonl"
is "$("$dynpipe" watch --from - <"$data/watch.jsonl")" "$(cat "$data/watch-plain.out")" "the same from stdin"
is "$(cat "$data/watch.jsonl" "$data/watch.jsonl" | head -n1 | "$dynpipe" watch --json --from - | wc -l)" 1 \
    "--json: one document a line"
TERM=dumb "$dynpipe" watch --from "$data/watch.jsonl" >"$tmp/dumb"
is "$(grep -c $'\033' "$tmp/dumb")" 0 "no escape sequence without a terminal"

# Who comes late sees what was in the order in which it was, and a proof to its end.
proof="n3 is gone: node=n3 job=1 empty twice 200 ms apart: processes=0 (first seen 0, TERM 0, KILL 0) device_lock=free took_ms=225 boot_id=e82d8493-26b1-44cc-9f4c-0123456789ab"
cat >"$tmp/late.json" <<X
{"job_id": 7, "state": "training", "step": 50, "now_s": 20.0, "events": [
 {"at_s": 1.0, "step": 1, "text": "4 workers train 8 layers"}, {"at_s": 9.0, "step": 30, "text": "$proof"}],
 "last_decision": {"first_at_s": 6.0, "at_s": 19.0, "step": 20, "verdict": "stay", "applied": false, "reason": "stay: it is best"}}
X
is "$("$dynpipe" watch --from "$tmp/late.json" | head -n 3)" "0:00:01 4 workers train 8 layers
0:00:06 decision at step 20: stay: it is best
0:00:09 $proof" "a late viewer sees events and decision in order"

command -v python3 >/dev/null || { skip "the live view" "python3 is not installed"; done_testing; exit; }
python3 "$DP_SRCDIR/tests/cli/live_view.py" "$dynpipe" "$data/watch.jsonl" >"$tmp/pty" 2>&1
while read -r verdict name; do
    case $verdict in
        pass) ok 0 "$name" ;;
        fail) ok 1 "$name" ;;
        *) diag "$verdict $name" ;;
    esac
done <"$tmp/pty"
is "$(tail -n1 "$tmp/pty")" end "the test of the live view came to its end"
done_testing
