# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # the caller sets: parts, seconds (in all), log, and work, a folder
# The parts of tests/gpu/run and tests/gpu/workers: each has a limit of its own and fails alone, and the table comes last.
failed=0 rows=()

# row PART RESULT SECONDS WHAT
row() { rows+=("| $1 | $2 | $3 | $4 |"); echo "$2: $1 ($3 s) $4"; }
skip() { [[ ! $1 =~ $parts ]] || row "$1" "not run" 0 "$2"; }

# Of the output of something that failed, the line that says most.
why() {
    local line
    line=$(grep -m 1 -E '^(not ok|Bail out)|[Ee]rror' "$1") || line=$(grep -v '^ok' "$1" | tail -n 1)
    echo "${line//|/ }"
}
# Of a test that did not fail: how many checks there were, or why there were none.
passed() { sed -n 's/^1\.\.0 # \(.*\)/\1/p; s/^1\.\.\([1-9][0-9]*\)$/\1 ok/p' "$1" | tail -n 1; }

# part NAME SECONDS COMMAND...: its output goes to the log, the last line that begins with "result: " into the table. A command may be
# a function that is exported.
part() {
    local name=$1 limit=$2 from=$SECONDS rc said
    shift 2
    [[ $name =~ $parts ]] || return 0
    [ $((seconds - SECONDS)) -ge "$limit" ] || limit=$((seconds - SECONDS))
    if [ "$limit" -lt 2 ]; then
        row "$name" "NOT RUN" 0 "the $seconds seconds are over"
        failed=$((failed + 1))
        return 1
    fi
    printf '\n==== %s\n' "$name" >>"$log"
    timeout -k 5 "$limit" bash -c 'set -u; "$@"' part "$@" >"$work/part" 2>&1 </dev/null
    rc=$?
    cat "$work/part" >>"$log"
    said=$(sed -n 's/^result: //p' "$work/part" | tail -n 1)
    case $rc in
        0) row "$name" ok $((SECONDS - from)) "${said:-$(passed "$work/part")}" ;;
        124 | 137) row "$name" FAILED $((SECONDS - from)) "longer than $limit s ${said:+($said)}" ;;
        *) row "$name" FAILED $((SECONDS - from)) "${said:-$(why "$work/part")}" ;;
    esac
    [ $rc -eq 0 ] || failed=$((failed + 1))
    return $rc
}

# parts_end FILE: the table, there too. returns 0 when no part failed.
parts_end() {
    {
        echo "| part | result | s | |"
        echo "|---|---|---|---|"
        printf '%s\n' "${rows[@]}"
        echo
        echo "$failed of ${#rows[@]} parts failed; $SECONDS s; $(cd "$(dirname "${BASH_SOURCE[0]}")" && git rev-parse --short HEAD 2>/dev/null || echo "no checkout")"
    } | tee "$1"
    [ "$failed" -eq 0 ]
}
