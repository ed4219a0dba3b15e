#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe simulate --cluster: its table, its document, its pictures, workload files, and what it says about
# wrong ones.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh
example=$DP_SRCDIR/etc/examples/simulate-cluster.json

# Job 1 holds all four nodes for 100 s, and needs half of them from 50 s on; job 2 wants two for 10 s.
cat >"$tmp/worked.swf" <<'X'
; Computer: four nodes
; MaxNodes: 4
; MaxProcs: 4
1 0 -1 100 4 -1 -1 4 200 -1 1 7 -1 -1 -1 -1 -1 -1
2 10 -1 10 2 -1 -1 2 20 -1 1 8 -1 -1 -1 -1 -1 -1
X
cat >"$tmp/worked.json" <<'X'
{"name": "worked <example>", "source": "made up", "workload": {"swf": "worked.swf"},
 "dynpipe": [{"user": 7, "needs": [{"at": 0.5, "share": 0.5}]}]}
X
golden cluster simulate --cluster "$tmp/worked.json"
exit_is 0 "columns" simulate --cluster "$tmp/worked.json" --scheduler easy -h -o metric,without,with,difference
like "$out" 'waiting time, mean +45.0 s +21.0 s +-24.0 s' "half of the wait of job 2: 90 s, and 50 + 2 - 10 s"
like "$out" 'makespan +1:50 +1:40 +-10.0 s' "and the end of it all"
exit_is 0 "columns as squeue takes them" simulate --cluster "$tmp/worked.json" --scheduler fifo -h -o '%s|%.9W|%c'
like "$out" '^fifo +\|   21.0 s\|-53.3 %' "prints them"

exit_is 0 "the example" simulate --cluster "$example" --svg "$tmp/rows.svg"
like "$out" 'need of [0-9]+ DynPipe jobs: 50 % of the nodes from' "has its curve from a simulated run"
like "$out" 'Jobs wait [0-9:]+ less on average' "gains"
"$dynpipe" simulate --cluster "$example" --json >"$tmp/doc.json"
runs "--json is valid" valid_json "$tmp/doc.json"
cat >"$tmp/check.py" <<'X'
import json, sys
doc = json.load(open(sys.argv[1]))["cluster"]
assert [s["scheduler"] for s in doc["schedulers"]] == ["fifo", "easy", "slurm"]
assert doc["dynpipe_jobs"] == sum(g["jobs"] for g in doc["groups"]) > 100
for s in doc["schedulers"]:
    a, b = s["without"], s["with"]
    for key in a:
        assert abs(b[key] - a[key] - s["difference"][key]) < 1e-6, key
    assert 0 <= a["wait_median_s"] <= a["wait_p95_s"] <= a["wait_max_s"] and a["slowdown_mean"] >= 1
    assert a["held_node_h"] > b["held_node_h"] and abs(b["held_node_h"] - b["needed_node_h"]) < 1e-6
    assert abs(a["held_device_h"] - 4 * a["held_node_h"]) < 1e-6
    assert abs(a["held_percent"] / 100 * 16 * a["makespan_s"] / 3600 - a["held_node_h"]) < 1e-6
    assert s["started_earlier"] > s["started_later"] and s["verdict"]
X
runs "and agrees with itself" python3 "$tmp/check.py" "$tmp/doc.json"
"$dynpipe" simulate --cluster "$example" --json >"$tmp/again.json"
runs "and is the same again" cmp "$tmp/doc.json" "$tmp/again.json"

exit_is 0 "the example of doc/cluster.md" simulate --cluster "$example" --scheduler easy
missing=$(sed -n '/^METRIC/,$p' <<<"$out" | sed 's/^/    /' | grep -vxFf "$DP_SRCDIR/doc/cluster.md")
is "$missing" "" "is what the document shows"

sed 's/"nodes": 16/"nodes": 100/' "$example" >"$tmp/large.json"
cp "$DP_SRCDIR/etc/examples/simulate-gpt24.json" "$tmp"
exit_is 0 "an empty cluster" simulate --cluster "$tmp/large.json" --scheduler easy --svg "$tmp/areas.svg"
sed 's/"load": 0.8/"load": 0.05/' "$tmp/large.json" >"$tmp/empty.json"
exit_is 0 "an almost empty one" simulate --cluster "$tmp/empty.json" --scheduler slurm
like "$out" 'Nothing to gain: no job waits here.* node-hours come back that no job asks for' "says that nothing is gained"
sed 's/"run": "[^"]*"/"share": 0, "needs": [{"at": 0.5, "share": 0.5}]/' "$example" >"$tmp/none.json"
exit_is 0 "no DynPipe job" simulate --cluster "$tmp/none.json" --scheduler easy
like "$out" 'Nothing changes: no job of this mix is a DynPipe job' "says so"
for f in rows areas; do
    runs "$f.svg is XML" python3 -c 'import sys, xml.dom.minidom as d; assert d.parse(sys.argv[1]).documentElement.tagName == "svg"' "$tmp/$f.svg"
done
like "$(cat "$tmp/rows.svg")" '<title>job 600, ' "a small cluster has its jobs in it"
like "$(cat "$tmp/areas.svg")" 'held by DynPipe jobs, not needed' "a large one areas"
exit_is 0 "a picture of the worked example" simulate --cluster "$tmp/worked.json" --scheduler fifo --svg "$tmp/worked.svg"
[ -z "${DP_UPDATE:-}" ] || cp "$tmp/worked.svg" "$data/cluster.svg"
runs "is as recorded" diff "$data/cluster.svg" "$tmp/worked.svg"

exit_is 0 "another seed" simulate --cluster "$example" --seed 2 --scheduler easy -h -o without
second=$out
exit_is 0 "and that of the file" simulate --cluster "$example" --seed 1 --scheduler easy -h -o without
runs "give different mixes" test "$out" != "$second"
exit_is 1 "a seed for a workload file" simulate --cluster "$tmp/worked.json" --seed 2
like "$err" 'no model that a seed would change' "is refused"

# What is written as a workload file is the same mix.
exit_is 0 "writes the jobs" simulate --cluster "$example" --save-swf "$tmp/jobs.swf" --scheduler easy -o metric,without
first=$out
is "$(grep -vc '^;' "$tmp/jobs.swf")" 600 "each in a line"
like "$first" "waiting time, mean +$(awk '!/^;/ { s += $3; n++ } END { s = s / n; printf "%d:%02d:%02d", s / 3600, s % 3600 / 60, s % 60 }' \
    "$tmp/jobs.swf")" "with the time that it waited"
sed 's/{"class": "train", "run": [^}]*}/{"needs": [{"at": 0.5, "share": 0.5}]}/' "$example" >"$tmp/any.json"
exit_is 0 "and reads them" simulate --cluster "$tmp/any.json" "$tmp/jobs.swf" --scheduler easy -o metric,without
is "$(grep -v -e needed -e DynPipe -e other <<<"$out")" "$(grep -v -e needed -e DynPipe -e other <<<"$first")" "with the same waiting times"

cat >"$tmp/columns.swf" <<'X'
; Computer: four nodes
; Installation: ours
; MaxNodes: 4
; MaxProcs: 16
1 0 3 100 16 91.5 2048 16 200 4096 0 7 2 3 4 5 -1 -1
2 10 4 10 7 9 1024 8 -1 2048 -1 8 2 3 4 5 1 6.5
3 12 -1 -1 1 -1 -1 1 -1 -1 5 8 2 3 4 5 -1 -1
X
exit_is 0 "writes the jobs of a workload file" simulate --cluster "$tmp/worked.json" "$tmp/columns.swf" --scheduler easy --save-swf "$tmp/kept.swf"
is "$(cat "$tmp/kept.swf")" "; Version: 2.2
; Computer: four nodes
; Installation: ours
; MaxJobs: 2
; MaxRecords: 2
; MaxNodes: 4
; MaxProcs: 16
; Note: waiting times simulated by dynpipe, scheduler easy
1 0 0 100 16 91.5 2048 16 200 4096 0 7 2 3 4 5 -1 -1
2 10 90 10 7 9 1024 8 -1 2048 -1 8 2 3 4 5 1 6.5" "with all columns and comments, but for waiting times of its own"
sed 's/"swf": "[^"]*"/"swf": "columns.swf", "load": 21/' "$tmp/worked.json" >"$tmp/stretched.json"
exit_is 0 "and with times between arrivals that were changed" simulate --cluster "$tmp/stretched.json" --scheduler easy --save-swf "$tmp/kept.swf"
is "$(tail -n 1 "$tmp/kept.swf")" "2 5 95 10 7 9 1024 8 -1 2048 -1 8 2 3 4 5 1 6.5" "these are those written"

printf '; MaxProcs: 4\n1 0 -1 100 4\n' >"$tmp/bad.swf"
exit_is 1 "a truncated line" simulate --cluster "$tmp/worked.json" "$tmp/bad.swf"
like "$err" 'bad.swf:2: 5 fields; a job has 18' "names file and line"
printf '; MaxProcs: 4\n1 0 -1 nan 4 -1 -1 4 200 -1 1 7 -1 -1 -1 -1 -1 -1\n' >"$tmp/bad.swf"
exit_is 1 "no number" simulate --cluster "$tmp/worked.json" "$tmp/bad.swf"
like "$err" "bad.swf:2: field 4 \(run time\) is 'nan'" "names the field"
cat "$tmp/worked.swf" >"$tmp/large.swf"
printf '3 5 -1 9 5 -1 -1 5 9 -1 1 7 -1 -1 -1 -1 -1 -1\n4 5 -1 9 5 -1 -1 5 9 -1 3 7 -1 -1 -1 -1 -1 -1\n' >>"$tmp/large.swf"
exit_is 0 "a job that is larger than the cluster" simulate --cluster "$tmp/worked.json" "$tmp/large.swf"
like "$out" 'left out: parts of jobs \(1\), larger than the cluster \(1\)' "is counted"
printf '; Computer: caf\351 \033[2J\n' | cat - "$tmp/worked.swf" >"$tmp/latin.swf"
"$dynpipe" simulate --cluster "$tmp/worked.json" "$tmp/latin.swf" --scheduler fifo --json >"$tmp/latin.json"
runs "text that is not UTF-8" python3 -c 'import json, sys; assert "caf" in json.load(open(sys.argv[1]))["cluster"]["workload"]' "$tmp/latin.json"
exit_is 1 "no such file" simulate --cluster "$tmp/none.swf"
like "$err" 'none.swf: No such file' "names it"
sed 's/"share": 0.5/"share": 1.5/' "$tmp/worked.json" >"$tmp/bad.json"
exit_is 1 "a wrong description" simulate --cluster "$tmp/bad.json"
like "$err" 'bad.json: dynpipe\[0\].needs\[0\].share: expected a number from 0 to 1' "names the member"
exit_is 1 "--json of it" simulate --json --cluster "$tmp/bad.json"
like "$out" '"errors": \[' "has the error in its document"
exit_is 1 "an unknown scheduler" simulate --cluster "$tmp/worked.json" --scheduler esay
like "$err" "unknown scheduler 'esay'; known: fifo, easy, slurm" "lists them"
exit_is 1 "a picture that cannot be written" simulate --cluster "$tmp/worked.json" --svg "$tmp/none/x.svg"
like "$err" 'none/x.svg: No such file' "names it"
exit_is 1 "a workload file that cannot be written" simulate --cluster "$tmp/worked.json" --save-swf "$tmp/none/x.swf"
exit_is 2 "options of a training run" simulate --cluster "$tmp/worked.json" --microbatches 3
like "$err" '--microbatches cannot be combined with --cluster' "are refused"
exit_is 2 "and the other way round" simulate "$tmp/worked.json" --scheduler easy
like "$err" '--scheduler requires --cluster' "likewise"
exit_is 2 "two workload files" simulate --cluster "$tmp/worked.json" a b
exit_is 2 "an unknown column" simulate --cluster "$tmp/worked.json" -o waiting
done_testing
