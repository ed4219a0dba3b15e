#!/bin/bash
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
