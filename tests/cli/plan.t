#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe plan: small graphs of every format, what it says about bad files and bad questions, and that what it
# prints adds up.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, data, tmp come from lib.sh
export DYNPIPE_DATA=$DP_SRCDIR/etc
cp "$DP_SRCDIR/etc/examples/two-towers.txt" "$data/plan-costs.json" "$data/plan-piper.json" "$tmp" && cd "$tmp" || exit 1

golden plan plan two-towers.txt --devices=4 --bandwidth=1.25
golden plan-costs plan plan-costs.json
golden plan-piper plan plan-piper.json

is "$(sed -n '/dynpipe plan two-towers.txt --devices=4 --bandwidth=1.25/,/^- /{/^    [^$]/s/^    //p;/^$/p}' "$DP_SRCDIR/doc/policies.md" |
    sed '$d')" "$(cat "$data/plan.out")" "doc/policies.md shows what is printed"

# Answers do not depend on where the file comes from or on the order of its lines.
is "$("$dynpipe" plan - --devices=4 --bandwidth=1.25 <two-towers.txt | sed 1d)" \
    "$("$dynpipe" plan two-towers.txt --devices=4 --bandwidth=1.25 | sed 1d)" "stdin"
{ grep -P '^\t' two-towers.txt; grep -vP '^\t' two-towers.txt; } >turned.txt
is "$("$dynpipe" plan turned.txt --devices=4 --bandwidth=1.25 | sed 1d)" \
    "$("$dynpipe" plan two-towers.txt --devices=4 --bandwidth=1.25 | sed 1d)" "edges before nodes"

sed 's/^\t/    /' two-towers.txt >blanks.txt
is "$("$dynpipe" plan blanks.txt --devices=4 --bandwidth=1.25 | sed 1d)" \
    "$("$dynpipe" plan two-towers.txt --devices=4 --bandwidth=1.25 | sed 1d)" "edges behind blanks instead of a tab"

for a in exact line hierarchical 2bw alpa dapple piper; do
    exit_is 0 "--algorithm=$a" plan two-towers.txt --devices=3 --algorithm=$a
    unlike "$out" "$(printf '\t')" "$a: no tab in the output"
done
exit_is 0 "a bound by traffic" plan two-towers.txt --devices=8 --bandwidth=0.05 --algorithm=line
like "$out" "no stage with '[a-z0-9]+' does less, its traffic included" "says which node"
is "$("$dynpipe" plan two-towers.txt --devices=8 --bandwidth=0.05 --algorithm=line --json |
    jq -c '.plan | [.bound_by, (.bound_node as $n | any(.stages[].nodes[]; . == $n)), .bound_ns <= .load_ns]')" '["stage",true,true]' \
    "as JSON"
is "$("$dynpipe" plan two-towers.txt --devices=2 --bandwidth=1000 --algorithm=line --json | jq -c '.plan | [.bound_by, .bound_node]')" \
    '["work",null]' "a bound by compute"
for a in exact hierarchical; do
    exit_is 0 "--devices=1, $a" plan two-towers.txt --devices=1 --algorithm=$a
    like "$out" 'lower bound *201.0 ms, which this plan reaches' "reaches its bound"
    like "$out" 'why *there is one device only' "and says no more than is known"
done
# Four chains of 16 nodes have 17^4 ideals.
awk 'BEGIN { for (c = 0; c < 4; c++) for (i = 0; i < 16; i++) {
        printf "node%d -- L -- forward_compute_time=%d, backward_compute_time=1, ", c * 16 + i, 5 + (i * 7 + c) % 9
        printf "activation_size=%d, parameter_size=1\n", 3000000 + i * 100000
        if (i) edge = edge sprintf("\tnode%d -- node%d\n", c * 16 + i - 1, c * 16 + i) }
    printf "%s", edge }' >chains.txt
exit_is 0 "a search that the time limit ends" plan chains.txt --devices=16 --straight --bandwidth=0.05 --time-limit=3
like "$out" 'why *the time limit ended the search, and a better plan may lie in the gap' "answers with the best so far"
like "$out" 'lower bound *[0-9.]+ ms, [0-9.]+ % below' "and its bound"
like "$err" 'dynpipe plan: [0-9]+ % searched, best so far [0-9.]+ ms, none is below [0-9.]+ ms' "said how far it was"
for l in 0 -1 x 1e9 nan ''; do exit_is 2 "--time-limit=$l" plan two-towers.txt --devices=2 "--time-limit=$l"; done
# Cut anew by a policy: the same weights in the same order, so `time` finds what the search over one order found, and
# `uniform` what a uniform cut of it weighs.
lib=$DP_BUILDDIR/tests/lib
cuts() { jq -c '[.plan.stages[] | .nodes]'; }
straight=$("$dynpipe" plan two-towers.txt --devices=4 --straight --json)
for p in keep time "$lib/headroom.so"; do
    is "$("$dynpipe" plan two-towers.txt --devices=4 "--policy=$p" --json | cuts)" "$(cuts <<<"$straight")" "--policy=${p##*/}"
done
"$dynpipe" plan two-towers.txt --devices=4 --policy=uniform --json >plan.json
is "$(jq -c '[.plan.policy, .plan.is_optimal, [.plan.stages[].compute_ns / 1e6]]' plan.json)" '["uniform",false,[68,66,25,42]]' \
    "--policy=uniform weighs what its nodes take"
is "$(cuts <plan.json)" '[["in","embed","text1","image1"],["text2","image2","image3"],["join","block1"],["block2","head"]]' \
    "in the order that the plan had: embed, image1, text1, image2, ..."
is "$(jq .plan.prediction.iteration_ns plan.json)" \
    "$("$dynpipe" simulate two-towers.txt --devices=4 --balance uniform --json | jq '.simulation.phases[0].iteration_ms * 1e6 | round')" \
    "an iteration takes as long as dynpipe simulate --balance says"
like "$(jq -r .plan.why plan.json)" '^policy uniform cut the order of the best plan found, which takes [0-9.]* ms; stage 0 sets' "says so"
exit_is 1 "--policy, and nodes for a CPU only" plan plan-costs.json --policy=time --cpus=0
jq '.maxSizePerFPGA = 2e10 | .nodes[].supportedOnFpga = 1' plan-costs.json >plan-accelerators.json
exit_is 0 "--policy of a file of costs" plan plan-accelerators.json --policy=time --cpus=0
like "$out" 'why *policy time cut the order' "says so, too"
exit_is 0 "--policy and --trade" plan two-towers.txt --devices=4 --policy=uniform --trade
for how in none:"no idea" crash:"it crashed: signal 11" layers:"layout of "; do
    exit_is 1 "a policy's answer, ${how%%:*}" plan two-towers.txt --devices=3 "--policy=$lib/bad_policy.so" "--arguments=${how%%:*}"
    like "$err" "policy .*/bad_policy.so: ${how#*:}" "is refused, and who gave it is named"
done
exit_is 1 "a policy's answer that does not fit" plan two-towers.txt --devices=4 --memory=512MiB --policy=uniform
like "$err" 'policy uniform: ' "names who gave it"
exit_is 0 "a policy that looks at memory" plan two-towers.txt --devices=4 --memory=550MiB --policy=time
for wrong in "--policy=tmie:unknown policy .tmie.; known: keep" "--policy=./none.so:--policy: policy ./none.so: No such file" \
    "--policy=$lib/old_policy.so:it has policy interface 4711, this program has 1" "--policy=$lib/no_decide.so:it has no decide" \
    "--policy=$lib/no_symbol.so:it has no symbol dp_policy_v1" "--policy=time --devices=2x2:one level of devices" \
    "--policy=time --arguments=x:requires --policy=./FILE.so"; do
    # shellcheck disable=SC2086 # several words
    exit_is 2 "${wrong#*:}" plan two-towers.txt --devices=4 ${wrong%%:*}
    like "$err" "${wrong#*:}" "is an error"
done
exit_is 2 "a policy and CPUs" plan plan-costs.json --policy=time --cpus=1
like "$err" '--policy: a policy cuts for accelerators only: --cpus=0' "do not go together"
exit_is 0 "two levels" plan two-towers.txt --devices=2x2
like "$out" '2 machines of 2, 12 GB/s inside of a machine, 1.25 GB/s between machines' "tells the network"
exit_is 0 "--straight" plan two-towers.txt --devices=4 --straight
exit_is 0 "memory that is enough" plan plan-costs.json --memory=1.3GB
# Two stages and one microbatch's way there and back more. (jq 1.7 writes a number as it was read until it is counted with.)
for l in 0 5 1000.5; do
    "$dynpipe" plan two-towers.txt --devices=2 --straight --latency=$l --json >latency.json
    is "$(jq -c '.plan | [.load_ns, (.devices.latency_us | map(. + 0))]' latency.json)" \
        "$("$dynpipe" plan two-towers.txt --devices=2 --straight --json | jq -c "[.plan.load_ns, [$l]]")" "--latency=$l leaves the pace"
    jq .plan.prediction.iteration_ns latency.json >"latency$l"
done
runs "a latency lengthens the iteration" test "$(($(cat latency5) - $(cat latency0)))" -ge 10000
runs "a longer one more" test "$(($(cat latency1000.5) - $(cat latency0)))" -ge 2001000
is "$("$dynpipe" plan two-towers.txt --devices=4 --bandwidth=1.25 --latency=20000 --json | jq -c '[.plan.stages[].replicas]')" "[4]" \
    "messages of 20 ms are not worth a cut"
is "$("$dynpipe" plan two-towers.txt --devices=4 --bandwidth=1.25 --latency=5 --json | jq -c '[.plan.stages[].replicas]')" "[2,2]" \
    "messages of 5 us are"
exit_is 0 "latencies of two levels" plan two-towers.txt --devices=2x2 --latency=5,30
like "$(tr -s ' \n' ' ' <<<"$out")" '1.25 GB/s between machines.*, latency 5 and 30 us' "are told"
for l in -1 x 1e9 nan '' 1,2; do exit_is 2 "--latency=$l" plan two-towers.txt --devices=2 "--latency=$l"; done
exit_is 2 "one latency for machines" plan two-towers.txt --devices=2x2 --latency=5
like "$err" 'expected 5,30 \(inside of a machine, between machines\)' "says what is wanted"
exit_is 0 "unequal devices" plan two-towers.txt --speed=1,1,0.5 --bandwidth=12
like "$out" '3 accelerators of unequal speed, 12 GB/s' "are as many as have a speed"
like "$out" '#2 x0.5 +84.00 ms +2.00 ms +0 s +86.00 ms +100 %' "a slow one takes its time"
"$dynpipe" plan two-towers.txt --devices=4 --speed=1,0.001,1,1 --json >speed.json
is "$(jq -c '[.plan.stages[].accelerator], (.plan.devices.speed | map(. + 0))' speed.json)" "[0,2,3]
[1,0.001,1,1]" "and stays idle where that is better"
is "$("$dynpipe" plan two-towers.txt --speed=1,1,1 --json | jq .plan.load_ns)" \
    "$("$dynpipe" plan two-towers.txt --devices=3 --algorithm=exact --json | jq .plan.load_ns)" "equal ones are what they were"
is "$("$dynpipe" plan two-towers.txt --speed=2,2,2 --bandwidth=1000000 --json | jq '.plan | .load_ns, .prediction.iteration_ns | . * 2 / 1e6 | round')" \
    "$("$dynpipe" plan two-towers.txt --speed=1,1,1 --bandwidth=1000000 --json | jq '.plan | .load_ns, .prediction.iteration_ns | . / 1e6 | round')" \
    "twice the speed takes half of the time, simulated, too"
for s in 0 ',' '1,' ',1' '1,,1' nan -1 1e9 ''; do exit_is 2 "--speed=$s" plan two-towers.txt "--speed=$s"; done
exit_is 2 "as many speeds as devices" plan two-towers.txt --devices=4 --speed=1,1
like "$err" '2 numbers for 4 devices' "are wanted"
exit_is 2 "speeds of machines" plan two-towers.txt --devices=2x2 --speed=1,1,1,1
exit_is 2 "speeds of replicas" plan two-towers.txt --speed=1,1,0.5 --algorithm=hierarchical
like "$err" 'exact and line know speeds' "says which algorithm knows them"
exit_is 2 "speeds for a policy" plan two-towers.txt --speed=1,1,0.5 --policy=time
exit_is 0 "a Piper file at another bandwidth" plan plan-piper.json --devices=2 --bandwidth=1 --memory=16GiB
like "$out" 'devices +2 accelerators, 16 GiB each, 1 GB/s' "goes by what is asked for"
exit_is 1 "and too little memory" plan plan-piper.json --memory=2GB
like "$err" 'no plan that fits 3 devices of 2 GB' "says so"
exit_is 2 "and machines" plan plan-piper.json --devices=2x2
like "$err" 'this file limits the memory of devices' "is refused"
exit_is 2 "and CPUs" plan plan-piper.json --cpus=1
exit_is 0 "it can be simulated" simulate plan-piper.json
like "$out" '1 +1.000 +3 +1949.000 +11.3 %.* 2.8 GiB +2 3x2' "as plan says"
like "$out" 'costs: a file of Piper: a third of a layer.s time is forward' "and says what it assumes"
exit_is 0 "--cpus" plan plan-costs.json --cpus=2 --devices=1
COLUMNS=40 exit_is 0 "a narrow screen" plan two-towers.txt --devices=4
is "$(awk 'length > 40' <<<"$out")" "" "nothing passes its edge"

cat >adds-up.py <<'X'
import json
p = json.load(open("plan.json"))["plan"]
names = [n for s in p["stages"] for n in s["nodes"]]
assert len(names) == p["nodes"] == len(set(names)), "every node once"
assert p["load_ns"] == max(s["load_ns"] for s in p["stages"])
assert p["bound_ns"] <= p["load_ns"] and 0 <= p["gap_percent"] <= 100
assert abs(p["speedup"] - p["single_device_ns"] / p["load_ns"]) < 1e-9
assert p["devices_used"] == sum(s["replicas"] for s in p["stages"])
assert p["devices_used"] <= p["devices"]["accelerators"] + p["devices"]["cpus"]
assert p["why"] and p["algorithm"] in ("exact", "line", "hierarchical", "2bw", "alpa", "dapple", "piper", "classes")
X
if command -v python3 >/dev/null; then
    for args in 'two-towers.txt --devices=4' 'two-towers.txt --devices=2x2' 'two-towers.txt --devices=4 --algorithm=exact' \
        plan-costs.json 'plan-costs.json --algorithm=line' plan-piper.json 'plan-piper.json --straight' \
        'two-towers.txt --devices=4 --algorithm=2bw' 'two-towers.txt --devices=2x2 --algorithm=alpa' 'two-towers.txt --devices=4 --algorithm=dapple' 'plan-piper.json --algorithm=piper --memory=2.5GB --trade' \
        'two-towers.txt --devices=4 --policy=uniform' 'two-towers.txt --devices=2xa100,2xt4' 'plan-accelerators.json --cpus=0 --policy=uniform'; do
        # shellcheck disable=SC2086 # several words
        "$dynpipe" plan $args --json >plan.json
        runs "$args: JSON with meta, errors and warnings" valid_json plan.json
        runs "$args: adds up" python3 adds-up.py
    done
else
    skip "--json" "python3 is not installed"
fi

exit_is 2 "no file" plan
like "$err" 'no graph given' "asks for one"
exit_is 1 "no such file" plan none.txt --devices=2
like "$err" 'none.txt: No such file' "names it"
exit_is 2 "no devices" plan two-towers.txt
like "$err" '--devices=N' "asks for them"
for d in 0 x 4x 4x4x4 -1 65536 4.5 ''; do exit_is 2 "--devices=$d" plan two-towers.txt "--devices=$d"; done
for b in 0 -1 nan x 1,2 1e9 ''; do exit_is 2 "--bandwidth=$b" plan two-towers.txt --devices=2 "--bandwidth=$b"; done
exit_is 2 "--bandwidth=12 for two levels" plan two-towers.txt --devices=2x2 --bandwidth=12
for m in 0 -1 x 16Q 16GBB nan 1e30; do exit_is 2 "--memory=$m" plan two-towers.txt --devices=2 "--memory=$m"; done
for c in -1 x 1001 1.5; do exit_is 2 "--cpus=$c" plan plan-costs.json "--cpus=$c"; done
exit_is 2 "unknown algorithm" plan two-towers.txt --devices=2 --algorithm=magic
exit_is 2 "hierarchical without parameter sizes" plan plan-costs.json --algorithm=hierarchical
for a in 2bw alpa dapple piper; do
    exit_is 2 "$a without parameter sizes" plan plan-costs.json --algorithm=$a
    exit_is 2 "$a, cut anew by a policy" plan two-towers.txt --devices=2 --algorithm=$a --policy=time
    exit_is 2 "speeds for $a" plan two-towers.txt --speed=1,1,0.5 --algorithm=$a
    exit_is 2 "--straight for $a" plan two-towers.txt --devices=2 --algorithm=$a --straight
    exit_is 1 "memory that nothing fits, $a" plan two-towers.txt --devices=2 --memory=10MB --algorithm=$a
    like "$err" "algorithm $a found no plan that fits 2 devices of 0.01 GB" "says so"
done
for o in '' x loads; do exit_is 2 "--objective=$o" plan two-towers.txt --devices=2 "--objective=$o"; done
exit_is 2 "--objective of a paper" plan two-towers.txt --devices=2 --algorithm=alpa --objective=iteration
exit_is 2 "--objective of a policy" plan two-towers.txt --devices=2 --policy=time --objective=load
# Sixteen devices fill and drain for long. A latency that is next to nothing gives both the same number of microbatches.
for o in load iteration; do "$dynpipe" plan two-towers.txt --devices=16 --bandwidth=1.25 --latency=0.001 --objective=$o --json >$o.json; done
is "$(jq -s -c 'map(.plan.objective)' load.json iteration.json)" '["load","iteration"]' "--objective is told"
is "$(jq -s '.[0].plan.prediction.microbatches == .[1].plan.prediction.microbatches' load.json iteration.json)" true "as many microbatches"
runs "the load is the least" jq -s -e '.[0].plan.load_ns <= .[1].plan.load_ns' load.json iteration.json
runs "the iteration is shorter" jq -s -e '.[1].plan.prediction.iteration_ns < .[0].plan.prediction.iteration_ns' load.json iteration.json
is "$("$dynpipe" plan two-towers.txt --devices=4 --latency=5 --objective=load --json | jq -r .plan.objective)" load "with a latency, too"
# Devices of several classes: 6 s of compute, of which a device of half the speed does a part.
cat >classes.json <<'X'
{"format": "dynpipe classes", "version": 1, "between_bytes_per_s": 1e9, "classes": [
  {"name": "fast", "devices": 2, "speed": 1, "bytes_per_s": 1e9, "memory_bytes": 80e9},
  {"name": "slow", "devices": 2, "speed": 0.5, "bytes_per_s": 1e9}]}
X
awk 'BEGIN { for (i = 0; i < 6; i++) {
        printf "node%d -- L -- forward_compute_time=500, backward_compute_time=500, activation_size=1000, parameter_size=8\n", i
        if (i) edge = edge sprintf("\tnode%d -- node%d\n", i - 1, i) }
    printf "%s", edge }' >six.txt
is "$("$dynpipe" plan six.txt --devices=./classes.json --straight --json |
    jq -c '.plan | [.algorithm, .objective, .is_optimal, .load_ns, ([.stages[].class] | sort), .prediction]')" \
    '["classes","load",true,2000000000,["fast","fast","slow","slow"],null]' "classes: two nodes on fast devices, one on slow ones"
is "$("$dynpipe" plan six.txt --devices=1xa100,2xt4 --json | jq -c '.plan.devices | [.accelerators, (.classes | map(.name)), (.classes[0].speed == 1)]')" \
    '[3,["a100","t4"],true]' "classes by name"
"$dynpipe" plan six.txt --devices=./classes.json >out
like "$(cat out)" 'devices       2 fast of speed 1, 2 slow of speed 0.5, 1 GB/s between classes' "for people"
# Two virtual workers of a fast and a slow device: 4 and 2 nodes, so 4 s for one, 2 s for two.
is "$("$dynpipe" plan six.txt --devices=./classes.json --algorithm=hetpipe --virtual-workers=ed --json |
    jq -c '.plan | [.load_ns, .virtual_workers.rule, .virtual_workers.number, .virtual_workers.kinds[0].workers, .virtual_workers.kinds[0].load_ns]')" \
    '[2000000000,"ed",2,2,4000000000]' "hetpipe"
# By node partition the slow ones take 6 s, three nodes each.
is "$("$dynpipe" plan six.txt --devices=./classes.json --algorithm=hetpipe --virtual-workers=np:2 --json | jq -c '[.plan.virtual_workers.kinds[].load_ns]')" \
    '[3000000000,6000000000]' "each worker's own time"
for w in x ed:0; do exit_is 2 "--virtual-workers=$w" plan six.txt --devices=./classes.json --algorithm=hetpipe "--virtual-workers=$w"; done
for w in ed:3 7; do exit_is 1 "$w workers of four devices" plan six.txt --devices=./classes.json --algorithm=hetpipe "--virtual-workers=$w"; done
exit_is 2 "--virtual-workers without hetpipe" plan six.txt --devices=./classes.json --virtual-workers=ed
exit_is 2 "hetpipe without classes" plan six.txt --devices=4 --algorithm=hetpipe
for d in 2xnone 2xa100,2xa100 '2xa100,' ./none.json ./six.txt; do exit_is 2 "--devices=$d" plan six.txt "--devices=$d"; done
exit_is 2 "classes for a file of costs" plan plan-costs.json --devices=2xa100
exit_is 2 "classes without any" plan six.txt --devices=4 --algorithm=classes
exit_is 2 "classes for others" plan six.txt --devices=2xa100 --algorithm=hierarchical
exit_is 2 "one bandwidth for classes" plan six.txt --devices=2xa100 --bandwidth=12
exit_is 2 "memory for a file of classes" plan six.txt --devices=./classes.json --memory=1GB
for o in --speed=1,1 --cpus=1 --latency=5 --objective=load --trade --policy=time; do
    exit_is 2 "classes and $o" plan six.txt --devices=2xa100 $o
done
for a in 2bw dapple piper; do exit_is 2 "machines for $a" plan two-towers.txt --devices=2x2 --algorithm=$a; done
exit_is 1 "more devices than dapple plans for" plan two-towers.txt --devices=65 --algorithm=dapple
like "$err" 'algorithm dapple plans for 64 devices at most' "says so"
# Every second output is large: with recomputation a stage of two nodes keeps one of them, and small inputs.
awk 'BEGIN { for (i = 0; i < 8; i++) {
        printf "node%d -- L -- forward_compute_time=5, backward_compute_time=10, activation_size=%d, parameter_size=8\n", i, i % 2 ? 1e6 : 1e8
        if (i) edge = edge sprintf("\tnode%d -- node%d\n", i - 1, i) }
    printf "%s", edge }' >large.txt
is "$("$dynpipe" plan two-towers.txt --devices=4 --algorithm=2bw --json | jq -c '.plan | [.recomputes, .weight_versions, .microbatch, (.stages | length)]')" \
    '[false,2,1,1]' "2bw: everything on each of four devices"
is "$("$dynpipe" plan large.txt --devices=4 --algorithm=2bw --memory=200MB --json | jq -c '.plan | [.recomputes, ([.stages[].replicas] | unique)]')" \
    '[true,[1]]' "2bw: recomputation where memory is short"
exit_is 0 "prediction with recomputation" plan large.txt --devices=4 --algorithm=2bw --memory=200MB
like "$out" 'iteration .* simulated' "is simulated"
is "$("$dynpipe" plan two-towers.txt --devices=4 --algorithm=2bw --latency=50000 --json | jq '.plan.microbatch > 1')" false "no message, no larger microbatches"
like "$("$dynpipe" plan two-towers.txt --devices=2x2 --algorithm=alpa)" 'why *Alpa: 16 microbatches take [0-9.]+ ms, stages that add up to [0-9.]+ ms' "alpa says what it minimised"
# Six nodes of 1 s and next to nothing to move: 8 microbatches of 6 s on two replicas.
is "$("$dynpipe" plan six.txt --devices=2 --algorithm=dapple --bandwidth=1000 --json | jq -c '.plan | [.objective, (.objective_ns / 1e9 | round), (.prediction.iteration_ns >= .objective_ns)]')" \
    '["paper",24,true]' "dapple: an iteration on two replicas"
# A block that keeps 600 MB of a microbatch, or 50 with recomputation, 10 ms longer: only so do three devices of 2.5 GB do.
is "$("$dynpipe" plan plan-piper.json --algorithm=piper --json | jq -c '.plan | [.objective, (.stages[0].compute_ns / 1e6 | round)]')" '["paper",36]' "piper: the fastest ways"
is "$("$dynpipe" plan plan-piper.json --algorithm=piper --memory=2.5GB --json | jq -c '.plan | [(.stages[0].compute_ns / 1e6 | round), .stages[0].memory_bytes < 2.5e9]')" \
    '[46,true]' "piper: recomputation where memory is short"
like "$("$dynpipe" plan plan-piper.json --algorithm=piper --memory=2.5GB)" '1 of 1 layers with a choice run slower' "and says so"
exit_is 2 "CPUs of a profile" plan two-towers.txt --devices=2 --cpus=1
exit_is 2 "machines for exact" plan two-towers.txt --devices=2x2 --algorithm=exact
exit_is 2 "--straight for exact" plan two-towers.txt --devices=2 --algorithm=exact --straight
exit_is 2 "two files" plan two-towers.txt plan-costs.json
exit_is 1 "memory that nothing fits" plan two-towers.txt --devices=2 --algorithm=exact --memory=10MB
like "$err" 'found no plan that fits 2 accelerators of 0.01 GB' "says so"
exit_is 1 "nodes that need a CPU" plan plan-costs.json --cpus=0
like "$err" 'need a CPU' "says so"
exit_is 1 "memory that no replica fits" plan two-towers.txt --devices=2 --memory=1MB

# Bad files: one line with file and line (or the place in the document), exit code 1.
bad() { # NAME WANTED FILE
    exit_is 1 "$1" plan "$3" --devices=2
    like "$err" "$2" "$1: says where"
    is "$(wc -l <<<"$err")" 1 "$1: in one line"
}
head -c 300 two-towers.txt >torn.txt
bad "torn profile" 'torn.txt:3: ' torn.txt
sed '$a\	head -- embed' two-towers.txt >cycle.txt
bad "cycle" 'cycle.txt:[0-9]*: .* closes a cycle' cycle.txt
sed 's/forward_compute_time=9,/forward_compute_time=nan,/' two-towers.txt >nan.txt
bad "nan" "nan.txt:3: forward_compute_time='nan'" nan.txt
sed 's/"timePerSample": 0.03,/"timePerSample": -0.03,/' plan-piper.json >negative.json
bad "negative time of a Piper file" 'negative.json: nodes\[2\].TMPCs.1\[1\]: timePerSample = -0.03' negative.json
head -c 900 plan-costs.json >torn.json
bad "torn JSON" 'torn.json:[0-9]*:[0-9]*: not valid JSON' torn.json
sed 's/"fpgaLatency": 5/"fpgaLatency": -5/' plan-costs.json >negative.json
bad "negative time" 'negative.json: nodes\[1\]: fpgaLatency = -5' negative.json
printf '{"a": "%s"' "$(printf '\033[31m')" >escape.json
bad "control bytes" 'escape.json:1' escape.json
printf 'x\033[31m\n' >escape.txt
exit_is 1 "an escape sequence in a file" plan escape.txt --devices=2
unlike "$err" "$(printf '\033')" "does not reach the terminal"
sed 's/compute_time=[0-9.]*/compute_time=0/g' two-towers.txt >idle.txt
bad "no work" 'idle.txt: no node takes any time' idle.txt
bad "a directory" 'tmp' "$tmp"
head -c 100000 /dev/urandom >noise
exit_is 1 "noise" plan noise --devices=2

# What fewer devices would give and cost.
exit_is 0 "--trade" plan two-towers.txt --devices=4 --bandwidth=1.25 --trade
like "$out" '1000 iterations of 16 microbatches.* 1 +3\.2 s .* 4 .*fastest' "a row for each number of devices"
"$dynpipe" plan two-towers.txt --devices=4 --bandwidth=1.25 --trade --json >trade.json
is "$(jq -c '[.plan.trade[].devices]' trade.json)" "[1,2,3,4]" "every number of them"
is "$(jq '.plan | (.trade[3].step_ms * 1e6 | round) == .prediction.iteration_ns and .trade[3].later_percent == 0' trade.json)" true \
    "all of them: the plan itself"
is "$(jq '.plan.trade[0] | .step_ms == 16 * 201' trade.json)" true "one device: all the work, no waiting"
is "$(jq '.plan.trade | all(.device_s == .time_s * .devices and (.time_s * 1000 | round) == (.step_ms * 1000 | round))' trade.json)" true \
    "device-seconds of 1000 iterations"
exit_is 0 "--trade of machines" plan two-towers.txt --devices=2x2 --trade --json
is "$(jq -c '[.plan.trade[].devices]' <<<"$out")" "[2,4]" "by machines"
exit_is 0 "--trade of a file of costs" plan plan-costs.json --devices=3 --trade
like "$out" "DEVICES +STEP +TIME" "has rows"
is "$("$dynpipe" plan two-towers.txt --devices=4 --json | jq .plan.trade)" null "not asked for: none"

# Node names are foreign text, too.
sed 's/^text1 --/te\x1b[31mxt1 --/; s/embed -- text1/embed -- te\x1b[31mxt1/; s/text1 -- text2/te\x1b[31mxt1 -- text2/' \
    two-towers.txt >evil.txt
exit_is 0 "an escape sequence in a name" plan evil.txt --devices=2
unlike "$out" "$(printf '\033')" "does not reach the terminal"
like "$out" 'te\\x1b\[31mxt1' "is spelled out"
done_testing
