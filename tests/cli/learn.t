#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe learn: a short training, whose file does not depend on threads; plans by what it wrote; what it refuses.
# shellcheck source=tests/cli/lib.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/cli/lib.sh"
# shellcheck disable=SC2154 # out, err, tmp come from lib.sh

exit_is 0 "learns with one thread" learn -o "$tmp/one.dpw" --iterations=10 --threads=1 --seed=5
like "$out" "^$tmp/one.dpw: [0-9]+ networks, after 10 iterations of ppo with seed 5; CRC [0-9a-f]{8}$" "says what it wrote"
like "$err" "10 of 10 iterations, orders [+-][0-9.]+ % above the few orders" "and how far it is"
like "$err" "of [0-9]+ networks [0-9]+ were trained, the others are random rules" "and what of it was learned"
exit_is 0 "learns with two" learn -o "$tmp/two.dpw" --iterations=10 --threads=2 --seed=5 --method=ppo
runs "the same file" cmp "$tmp/one.dpw" "$tmp/two.dpw"
is "$(head -c 7 "$tmp/one.dpw")" DPORDER "which begins as it should"
exit_is 0 "learns by evolution" learn -o "$tmp/es.dpw" --iterations=2 --threads=2 --seed=6 --method=es
like "$out" "after 2 iterations of es with seed 6" "says so"
exit_is 0 "learns from exact plans" learn -o "$tmp/imitation.dpw" --iterations=2 --threads=1 --seed=6 --method=imitation
like "$out" "after 2 iterations of imitation with seed 6" "says so, too"
exit_is 0 "and with two threads" learn -o "$tmp/imitation2.dpw" --iterations=2 --threads=2 --seed=6 --method=imitation
runs "the same file" cmp "$tmp/imitation.dpw" "$tmp/imitation2.dpw"

# Plans by orders of these networks. Six chains of 12 nodes have 13^6 ideals.
awk 'BEGIN { for (c = 0; c < 6; c++) for (i = 0; i < 12; i++) {
        printf "node%d -- L -- forward_compute_time=%d, backward_compute_time=1, ", c * 12 + i, 5 + (i * 7 + c) % 9
        printf "activation_size=%d, parameter_size=1\n", 3000000 + (i * 5 + c * 3) % 7 * 1000000
        if (i) edge = edge sprintf("\tnode%d -- node%d\n", c * 12 + i - 1, c * 12 + i) }
    printf "%s", edge }' >"$tmp/chains.txt"
plan=(plan "$tmp/chains.txt" --devices=5 --bandwidth=1.25)
exit_is 0 "--algorithm=learned" "${plan[@]}" --algorithm=learned --weights="$tmp/one.dpw"
like "$(tr -s ' \n' ' ' <<<"$out")" "networks [^ ]*/one.dpw: [0-9]+ orders" "says what they are worth"
exit_is 0 "as JSON" "${plan[@]}" --algorithm=learned --weights="$tmp/one.dpw" --json
crc=$(od -An -tx4 -j "$(($(stat -c %s "$tmp/one.dpw") - 4))" --endian=little "$tmp/one.dpw" | tr -d ' ')
is "$(jq -c '.plan | [.algorithm, (.networks | .error, .crc, .seed, .orders > 0), .orders > .networks.orders]' <<<"$out")" \
    "[\"learned\",null,\"$crc\",5,true,true]" "which networks, and how many orders"
is "$(jq '.plan | .load_ns <= .line_ns' <<<"$out")" true "never worse than the few orders"
is "$("$dynpipe" "${plan[@]}" --algorithm=learned --weights="$tmp/two.dpw" --json | jq -c .plan.stages)" "$(jq -c .plan.stages <<<"$out")" \
    "the same networks give the same plan"
exit_is 0 "line takes their orders beside its own" "${plan[@]}" --algorithm=line --weights="$tmp/one.dpw" --json
is "$(jq -c '.plan | [.algorithm, .networks.orders > 0, .networks.orders <= .networks.networks]' <<<"$out")" '["line",true,true]' \
    "one of each network at most"
exit_is 0 "auto, too, with replicas" "${plan[@]}" --weights="$tmp/one.dpw" --json
is "$(jq -c '.plan | [.algorithm, .networks.error]' <<<"$out")" '["hierarchical",null]' "has read them"

# DRL-PP's way: another kind of file, and no dynamic program.
exit_is 0 "learns to place" learn -o "$tmp/parts.dpw" --iterations=2 --threads=1 --seed=6 --method=drl-pp
like "$out" "^$tmp/parts.dpw: 1 network, after 2 iterations of drl-pp with seed 6" "says so"
like "$err" "2 of 2 iterations, placements [+-][0-9.]+ % above the few orders" "and what they are worth"
exit_is 0 "with two threads" learn -o "$tmp/parts2.dpw" --iterations=2 --threads=2 --seed=6 --method=drl-pp
runs "the same file" cmp "$tmp/parts.dpw" "$tmp/parts2.dpw"
is "$(head -c 7 "$tmp/parts.dpw")" DPPARTS "which says what kind it is"
exit_is 0 "--algorithm=drl-pp" "${plan[@]}" --algorithm=drl-pp --weights="$tmp/parts.dpw"
like "$(tr -s ' \n' ' ' <<<"$out")" "networks [^ ]*/parts.dpw: it placed the units itself" "says which network"
like "$(tr -s ' \n' ' ' <<<"$out")" "why a network placed the units [0-9]+ times, and nothing else was tried" "and how"
drawn=$("$dynpipe" "${plan[@]}" --algorithm=drl-pp --weights="$tmp/parts.dpw" --json)
is "$(jq -c --argjson exact "$("$dynpipe" "${plan[@]}" --json --algorithm=line | jq .plan.load_ns)" \
    '.plan | [.algorithm, .networks.orders, .orders > 1, .load_ns >= $exact, (.stages | length) <= 5]' <<<"$drawn")" \
    '["drl-pp",null,true,true,true]' "as JSON"
is "$("$dynpipe" "${plan[@]}" --algorithm=drl-pp --weights="$tmp/parts2.dpw" --json | jq -c .plan.stages)" \
    "$(jq -c .plan.stages <<<"$drawn")" "the same each time"
exit_is 1 "orders are no placements" "${plan[@]}" --algorithm=drl-pp --weights="$tmp/one.dpw"
like "$err" "--algorithm=drl-pp: $tmp/one.dpw: its networks make orders" "says so"
exit_is 1 "and the other way round" "${plan[@]}" --algorithm=learned --weights="$tmp/parts.dpw"
like "$err" "--algorithm=learned: $tmp/parts.dpw: its network makes no orders" "says so, too"
exit_is 1 "--evaluate compares orders" learn --evaluate="$tmp/parts.dpw" "$tmp/chains.txt"
exit_is 1 "more devices than it knows" plan "$tmp/chains.txt" --devices=17 --bandwidth=1.25 --algorithm=drl-pp --weights="$tmp/parts.dpw"
like "$err" "its network knows 16 devices at most, not 17" "says so"
exit_is 1 "unequal devices" "${plan[@]}" --speed=1,1,2,1,1 --algorithm=drl-pp --weights="$tmp/parts.dpw"
like "$err" "drl-pp knows equal accelerators alone" "are refused"
exit_is 1 "too little memory" "${plan[@]}" --memory=0.000000001 --algorithm=drl-pp --weights="$tmp/parts.dpw"
head -c 1000 "$tmp/parts.dpw" >"$tmp/shortparts.dpw"
exit_is 1 "a damaged file" "${plan[@]}" --algorithm=drl-pp --weights="$tmp/shortparts.dpw"
like "$err" "shortparts.dpw: 1000 bytes, but 1 networks take [0-9]+" "with the reason"
DYNPIPE_DATA=$tmp/none exit_is 1 "no file anywhere" "${plan[@]}" --algorithm=drl-pp
like "$err" "parts.dpw: .*; use --weights=FILE of .dynpipe learn --method=drl-pp -o FILE" "says how to make one"

# A file that is damaged, or not there.
head -c 1000 "$tmp/one.dpw" >"$tmp/short.dpw"
exit_is 1 "learned, of a damaged file" "${plan[@]}" --algorithm=learned --weights="$tmp/short.dpw"
like "$err" "--algorithm=learned: $tmp/short.dpw: 1000 bytes, but [0-9]+ networks take [0-9]+" "fails, with file and reason"
exit_is 0 "auto goes on without" "${plan[@]}" --weights="$tmp/short.dpw"
like "$(tr -s ' \n' ' ' <<<"$out")" "networks not used: [^ ]*/short.dpw: 1000 bytes" "and says why"
is "$("$dynpipe" "${plan[@]}" --weights="$tmp/none.dpw" --json | jq -c '.plan | [(.networks.error | length > 0), .load_ns]')" \
    "[true,$("$dynpipe" "${plan[@]}" --json | jq .plan.load_ns)]" "a file that is not there changes nothing"
DYNPIPE_DATA=$tmp exit_is 1 "learned, and no file anywhere" "${plan[@]}" --algorithm=learned
like "$err" "$tmp/order.dpw: .*; use --weights=FILE of .dynpipe learn -o FILE" "says how to make one"
cp "$tmp/es.dpw" "$tmp/order.dpw"
DYNPIPE_DATA=$tmp exit_is 0 "learned, with an installed file" "${plan[@]}" --algorithm=learned
exit_is 2 "--weights for an algorithm that has its own orders" "${plan[@]}" --algorithm=random --weights="$tmp/one.dpw"
like "$err" "--weights: --algorithm=random makes its own orders" "is refused"

# What they are worth. All cuts of this one are searched, so the best known load is exact.
cp "$DP_SRCDIR/etc/examples/two-towers.txt" "$tmp"
exit_is 0 "--evaluate" learn --evaluate="$tmp/one.dpw" "$tmp/two-towers.txt"
is "$(grep -c '^two-towers.txt  *[0-9]* *[0-9.]*\( *[0-9.]*\)\{6\}$' <<<"$out")" 9 "three numbers of devices, three bandwidths"
like "$out" "learned against rules +[0-9]+ better, +[0-9]+ worse of 9: p = [0-9.e-]+, " "counts who was better"
like "$out" "On these graphs (learning added nothing that is proved|what was learned is better)" "and has a verdict"
for wrong in "--evaluate=$tmp/one.dpw" "--evaluate=$tmp/one.dpw -o $tmp/x.dpw $tmp/two-towers.txt" "-o $tmp/x.dpw $tmp/two-towers.txt"; do
    read -ra words <<<"$wrong"
    exit_is 2 "${wrong//$tmp\//}" learn "${words[@]}"
done
exit_is 1 "a file that is no graph" learn --evaluate="$tmp/one.dpw" "$tmp/one.dpw"
exit_is 1 "a damaged file of networks" learn --evaluate="$tmp/short.dpw" "$tmp/two-towers.txt"
like "$err" "short.dpw: 1000 bytes" "names it"

exit_is 0 "--method=help" learn --method=help
is "$(cut -d' ' -f1 <<<"$out")" $'ppo\nes\nimitation\ndrl-pp' "lists the methods"
exit_is 2 "no file" learn --iterations=1
like "$err" "no file to write; use .dynpipe learn -o FILE" "says what to do"
exit_is 2 "a method that is none" learn -o "$tmp/x.dpw" --method=sarsa
like "$err" "--method=sarsa: unknown method 'sarsa'; expected one of ppo, es, imitation, drl-pp" "names those that there are"
for n in 0 65 1.5 x; do exit_is 2 "--threads=$n" learn -o "$tmp/x.dpw" --threads="$n"; done
exit_is 1 "a folder that is not there" learn -o "$tmp/nowhere/x.dpw" --iterations=1
runs "nothing is left behind" test ! -e "$tmp/x.dpw"
done_testing
