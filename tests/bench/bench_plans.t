#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench_plans (make graphs): its short form, that it goes on where it was, and what it says about bad options. How long planners take
# is no test: it hangs on the machine.
# shellcheck source=tests/bench/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/bench/lib.sh"
[ -x /usr/bin/python3 ] || skip_all "no /usr/bin/python3"
# shellcheck disable=SC2154 # dir comes from lib.sh
bench=$DP_SRCDIR/policies/graph/bench/bench_plans
families=$DP_BUILDDIR/policies/graph/bench/print_family
programs=(--dynpipe "$DP_BUILDDIR/cli/dynpipe" --families "$families")
# Limits so late that no machine meets them; a graph of the source stands for what is published.
"$DP_BUILDDIR/cli/dynpipe" learn --method=drl-pp --iterations=1 --seed=1 --threads=1 -o "$dir/parts.dpw" >/dev/null 2>"$dir/stderr"
is $? 0 "a network for drl-pp" || diag "$(cat "$dir/stderr")"
short=("${programs[@]}" --graphs "$dir/published" --out "$dir/out" --short --limit 1000 --long 0 --weights "drl-pp=$dir/parts.dpw")
mkdir -p "$dir/published/pipedream"
cp "$DP_SRCDIR/etc/examples/two-towers.txt" "$dir/published/pipedream/towers.txt"

"$bench" "${short[@]}" >"$dir/stdout" 2>"$dir/stderr"
is $? 0 "the short form" || diag "$(cat "$dir/stderr")"
report=$(cat "$dir/out/report.md")
is "$report" "$(cat "$dir/stdout")" "the report is printed and kept"
planners=$("$DP_BUILDDIR/cli/dynpipe" plan --algorithm=help | awk '$1 != "auto" && NF { print $1 }')
# shellcheck disable=SC2086 # words
is "$(sed 's/^[^ ]* [^ ]* [^ ]* \([^:]*\):.*/\1/' "$dir/stderr" | sort -u | tr '\n' ' ')" "$(printf '%s\n' $planners | sort -u | tr '\n' ' ')" "every planner was asked" ||
    diag "$(cat "$dir/stderr")"
is "$(awk '{ print $1 }' "$dir/stderr" | sort -u | wc -l)" 3 "one published graph, two generated ones"
like "$report" "## One device a stage.*## Stages with replicas" "both kinds of plans have a table"
like "$report" "\| \`exact\` \| [1-9][0-9]* \| 0 \| [1-9][0-9]* \| [1-9][0-9]* \| 0\.00, 0\.00 \| 0\.00, 0\.00 \|" "exact is the best known"
like "$report" "\| \`drl-pp\` \| [1-9][0-9]* \| 0 \| [1-9]" "drl-pp has its network"
like "$report" "\`learned\`, [1-9][0-9]* times: .*--weights=FILE" "and learned has none"
like "$report" "[1-9] times: --algorithm=exact supports one level of devices" "what has no plan is told with the reason"
unlike "$report" "Not all of it" "and nothing is missing"
if command -v gnuplot >/dev/null; then
    like "$(cat "$dir/out/graphs.svg")" "</svg>" "a picture"
else
    skip "a picture" "gnuplot is not installed"
fi

# Two answers are lost, one of them halfway.
all=$(wc -l <"$dir/out/rows.jsonl")
head -n $((all - 1)) "$dir/out/rows.jsonl" | head -c -5 >"$dir/torn"
cp "$dir/torn" "$dir/out/rows.jsonl"
"$bench" "${short[@]}" --report-only >"$dir/stdout" 2>"$dir/stderr"
is "$(wc -l <"$dir/stderr")" 0 "--report-only asks nothing" || diag "$(cat "$dir/stderr")"
like "$(cat "$dir/stdout")" "Not all of it.*2 answers are missing" "and says what is missing"
"$bench" "${short[@]}" >"$dir/stdout" 2>"$dir/stderr"
is "$(wc -l <"$dir/stderr")" 2 "only what is missing is asked for" || diag "$(cat "$dir/stderr")"
is "$(wc -l <"$dir/out/rows.jsonl")" "$all" "and kept"

"$bench" "${short[@]}" --out "$dir/only" --only graph=towers --only algorithm=line --only algorithm=alpa --only devices=4 >"$dir/stdout" 2>"$dir/stderr"
is "$(cut -d : -f 1 <"$dir/stderr" | sort | tr '\n' ',')" "towers 4 1.25 alpa,towers 4 1.25 line," "--only"
like "$(cat "$dir/stdout")" "Not all of it.*only graph=towers, algorithm=line, algorithm=alpa, devices=4" "and the report says so"

# A generated network is the same when it is read again.
"$families" u-net 40 3 >"$dir/u-net.txt"
is "$("$families" u-net 40 3 | cmp - "$dir/u-net.txt" 2>&1)" "" "the same seed, the same network"
like "$("$DP_BUILDDIR/cli/dynpipe" plan "$dir/u-net.txt" --devices=2)" "graph +[0-9]+ nodes" "dynpipe plan reads it"
like "$("$families" no 40 3 2>&1; echo "rc=$?")" "no family 'no'; --list names them.*rc=1" "an unknown family is refused"
like "$("$families" u-net 4 3 2>&1; echo "rc=$?")" "'4' is not a number from 16 to 100000.*rc=1" "and a wrong number"

# A planner that does not come to an end, and one that dies.
# shellcheck disable=SC2016 # the scripts' own
printf '#!/bin/sh\ncase "$*" in *help) echo "line  x" ;; *version) echo fake ;; *) while :; do :; done ;; esac\n' >"$dir/endless"
# shellcheck disable=SC2016
printf '#!/bin/sh\ncase "$*" in *help) echo "line  x" ;; *version) echo fake ;; *) kill -KILL $$ ;; esac\n' >"$dir/dies"
chmod +x "$dir/endless" "$dir/dies"
fake=(--families "$families" --graphs "$dir/published" --short --only graph=towers --only devices=4)
like "$("$bench" "${fake[@]}" --dynpipe "$dir/endless" --out "$dir/late" --limit 1 2>&1; echo "rc=$?")" "no answer within 1 s.*rc=0" "who is too late is told"
like "$("$bench" "${fake[@]}" --dynpipe "$dir/dies" --out "$dir/died" 2>&1; echo "rc=$?")" "towers.txt .*: ended by signal 9.*rc=2" "who dies is no answer"

refused() { # MESSAGE NAME OPTION...
    local message=$1 name=$2
    shift 2
    like "$("$bench" "${programs[@]}" --out "$dir/none" "$@" 2>&1; echo "rc=$?")" "bench_plans: .*$message.*rc=2" "$name"
}
refused "unrecognized arguments: --what" "an unknown option is named" --what
refused "'0' is not a number from 1 to 100000" "a wrong number is refused" --limit 0
refused "'nasnet': expected KEY=PATTERN; keys: graph, source" "a wrong --only is refused" --only nasnet
refused "--weights 'parts.dpw': expected ALGORITHM=FILE" "a wrong --weights is refused" --weights parts.dpw
refused "has no algorithm 'drl'" "and one for nobody" --weights "drl=$dir/parts.dpw"
refused "No such file or directory: '$dir/nothing'" "and one that is not there" --weights "drl-pp=$dir/nothing"
refused "no program '$dir/nothing'" "a program that is not there is named" --dynpipe "$dir/nothing"
refused "rows have limit 1000, not 999: take another --out" "answers of other settings are not mixed" "${short[@]}" --limit 999
like "$("$bench" --help)" "\[--dynpipe PROGRAM\]" "--help"
done_testing
