#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Checks tests/model/handover.pml: every property holds, and every wrong protocol (-DM1 ...) is caught.
. "$DP_SRCDIR/tests/lib/tap.sh"

command -v spin >/dev/null || skip_all "spin is not installed"
command -v "${CC:-cc}" >/dev/null || skip_all "no C compiler for spin's verifier"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || bail "cannot use $tmp"

build() { # FLAGS...: the verifier of one protocol in $tmp
    spin -a "$@" "$DP_SRCDIR/tests/model/handover.pml" >spin.log 2>&1 &&
        "${CC:-cc}" -O1 -w -DNFAIR=3 -o pan pan.c >>spin.log 2>&1
}

check() { # PROPERTY: prints the number of errors, or what kept the search from its end
    local fair=
    [ "$1" = live ] && fair=-f
    timeout 300 ./pan -a $fair -N "$1" -m1000000 >pan.log 2>&1
    if grep -qE "^error|pan: error|max search depth too small|out of memory" pan.log; then
        echo "incomplete: $(grep -m1 -E "error|depth|memory" pan.log)"
    else
        sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log | grep . || echo "incomplete"
    fi
}

properties="own1 atom copy fenced other nouse relst wal live"
build || bail "spin: $(cat spin.log)"
for p in $properties; do
    is "$(check "$p")" 0 "$p holds ($(sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' pan.log) states)"
done

for mutant in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do
    build -DM$mutant || bail "spin -DM$mutant: $(cat spin.log)"
    caught=
    for p in $properties; do
        case $(check "$p") in
        0 | incomplete*) ;;
        *) caught=$p; break ;;
        esac
    done
    isnt "$caught" "" "wrong protocol M$mutant is caught${caught:+ by $caught}"
done
done_testing
