#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The bash completion knows every command, and every option that a command's --help names.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"

# shellcheck disable=SC2154 # tmp comes from lib.sh
# shellcheck source=etc/bash-completion/dynpipe
. "$DP_SRCDIR/etc/bash-completion/dynpipe"

# What TAB offers behind these words, one a line.
offers() {
    COMP_WORDS=("$dynpipe" "$@")
    COMP_CWORD=$#
    _dynpipe
    printf '%s\n' "${COMPREPLY[@]}"
}

is "$(offers sta)" status "a command"
for c in status watch explain layout pause resume save report plan learn check simulate; do
    like " $(offers '' | tr '\n' ' ')" " $c " "offers $c"
    missing=
    for o in $("$dynpipe" $c --help | grep -oE '^  [-, a-z]{4}--[a-z-]+' | grep -oE -e '--[a-z-]+$'); do
        offers $c "$o" | grep -qx -e "$o=\{0,1\}" || missing="$missing $o"
    done
    is "$missing" "" "$c: every option that its help names"
done
is "$(offers watch --inter)" "--interval=" "an option with a value ends with ="
is "$(offers status --color = al)" always "--color=al"
is "$(offers status --color n)" never "--color n"
is "$(offers status -o jo)" jobid "a column"
is "$(offers help exp)" explain "help COMMAND"
is "$(offers plan --objective it)" iteration "an objective"
is "$(offers plan --algorithm hi)" hierarchical "an algorithm"
touch "$tmp/graph.txt"
is "$(offers plan "$tmp/gra")" "$tmp/graph.txt" "a graph"
is "$(offers frobnicate --j)" "" "nothing for a command that does not exist"
touch "$tmp/some-run.json"
is "$(offers status --from "$tmp/some")" "$tmp/some-run.json" "a file"
is "$(offers simulate "$tmp/some")" "$tmp/some-run.json" "the file of simulate"
is "$(offers simulate --schedule = zb)" zb-h1 "a schedule"
is "$(offers simulate --scheduler = ea)" easy "a scheduler"
is "$(offers simulate --balance = iter)" iteration "a policy"
is "$(offers simulate --balance = "$tmp/some")" "$tmp/some-run.json" "the file of one"
is "$(offers plan --policy nic)" nicol "the policy of a plan"
is "$(offers simulate --cluster "$tmp/some")" "$tmp/some-run.json" "the description of a cluster"
done_testing
