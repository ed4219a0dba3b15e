#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What is in a list of the program is in the documents' tables, and behind TAB.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # dynpipe comes from lib.sh
# shellcheck source=etc/bash-completion/dynpipe
. "$DP_SRCDIR/etc/bash-completion/dynpipe"

names() { "$dynpipe" simulate "--$1=help" | cut -d' ' -f1; }
# First column of the table in FILE below the line HEADER; a row may hold several names.
rows() { awk -v header="$2" '$0 == header { on = 1; next } on && !/^\|/ { exit } on' "$DP_SRCDIR/$1" | cut -d'|' -f2 | grep -oE '`[^`]+`' | tr -d '`'; }
offers() {
    COMP_WORDS=("$dynpipe" "$@")
    COMP_CWORD=$#
    _dynpipe
    printf '%s\n' "${COMPREPLY[@]}"
}

while IFS=: read -r option file header; do
    known=$(names "$option")
    runs "simulate --$option=help lists names" test -n "$known"
    is "$(rows "$file" "$header" | LC_ALL=C sort)" "$(LC_ALL=C sort <<<"$known")" "$file has them all, and no other"
    is "$(offers simulate "--$option" =)" "$known" "TAB offers them"
done <<'EOF'
balance:doc/policies.md:| name | what it does | knows | source |
schedule:doc/simulator.md:| `schedule` | what a device does | source |
scheduler:doc/cluster.md:| name | who may start |
scheme:doc/simulator.md:| `scheme` | what it makes of the costs | its keys |
EOF
algorithms=$("$dynpipe" plan --algorithm=help | cut -d' ' -f1)
is "$(rows doc/policies.md '| algorithm | objective | source |' | LC_ALL=C sort)" "$(grep -vx auto <<<"$algorithms" | LC_ALL=C sort)" "doc/policies.md has all algorithms, and no other"
is "$(offers plan --algorithm =)" "$algorithms" "TAB offers them"
like "$("$dynpipe" plan --algorithm=magic "$DP_SRCDIR/tests/data/cli/plan-costs.json" 2>&1)" "unknown algorithm 'magic'; known: ${algorithms//$'\n'/, }" "an error lists them"
is "$(offers plan --policy =)" "$(names balance)" "and policies to plan"
done_testing
