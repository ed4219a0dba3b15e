#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# dynpipe learn: a short training, whose file does not depend on threads; what it refuses.
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

exit_is 0 "--method=help" learn --method=help
is "$(cut -d' ' -f1 <<<"$out")" $'ppo\nes' "lists the methods"
exit_is 2 "no file" learn --iterations=1
like "$err" "no file to write; use .dynpipe learn -o FILE" "says what to do"
exit_is 2 "a method that is none" learn -o "$tmp/x.dpw" --method=sarsa
like "$err" "--method=sarsa: unknown method 'sarsa'; expected one of ppo, es" "names those that there are"
for n in 0 65 1.5 x; do exit_is 2 "--threads=$n" learn -o "$tmp/x.dpw" --threads="$n"; done
exit_is 1 "a folder that is not there" learn -o "$tmp/nowhere/x.dpw" --iterations=1
runs "nothing is left behind" test ! -e "$tmp/x.dpw"
done_testing
