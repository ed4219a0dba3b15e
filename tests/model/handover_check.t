#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Checks the protocol's five models: every property holds, whatever happens, and every wrong protocol (-DM1 ...) is caught.
#   handover.pml  one hand-over, its decision, and what becomes of the slot that was left
#   growth.pml    slices that a run asks for while it trains
#   copies.pml    layers that other workers follow, and what goes on after a loss
#   shadow.pml    layers that are copied while training goes on, and change meanwhile
#   layouts.pml   who is in the run and who leads it: leaving, joining, losses, several hand-overs
. "$DP_SRCDIR/tests/lib/tap.sh"

command -v spin >/dev/null || skip_all "spin is not installed"
command -v "${CC:-cc}" >/dev/null || skip_all "no C compiler for spin's verifier"

tmp=$(mktemp -d)
trap 'case $BASHPID in $$) rm -rf "$tmp" ;; esac' EXIT
cd "$tmp" || bail "cannot use $tmp"

# build MODEL LEVEL FLAGS...: the verifier of one protocol in $tmp. A small search is over before a compiler has optimized.
build() {
    local model=$DP_SRCDIR/tests/model/$1.pml level=$2 safety=
    shift 2
    [[ $model == *handover.pml ]] || safety=-DSAFETY # its properties are assertions and the state at the end
    { spin -a "$@" "$model" &&
        "${CC:-cc}" "$level" -w $safety -DNFAIR=3 -DMEMLIM=1800 -o pan pan.c; } >spin.log 2>&1 || bail "spin $*: $(cat spin.log)"
}

# search ARGUMENTS...: prints the number of errors, or what kept the search from its end.
search() {
    timeout 500 ./pan -m1000000 "$@" >pan.log 2>&1
    if grep -qE "^error|pan: error|max search depth too small|out of memory|MEMLIM" pan.log; then
        echo "incomplete: $(grep -m1 -E "error|depth|memory|MEMLIM" pan.log)"
    else
        sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log | grep . || echo "incomplete"
    fi
}

states() { sed -n 's/ *\([0-9]*\) states, stored.*/\1/p' pan.log; }

# check PROPERTY of handover.pml: as search()
check() {
    local fair=
    [ "$1" = live ] && fair=-f
    search -a $fair -N "$1"
}

mutants() { sed -n 's/^#ifdef M\([0-9]*\).*/\1/p' "$DP_SRCDIR/tests/model/$1.pml" | sort -nu; }
about() { sed -n "s|^#ifdef M$2 /\* \(.*\) \*/|: \1|p" "$DP_SRCDIR/tests/model/$1.pml" | head -n 1; }

# catch_mutants MODEL [FLAGS]: of a small one, which a search with the bounds of the model goes through at once; FLAGS: or with these.
catch_mutants() {
    local mutant caught bounds
    for mutant in $(mutants "$1"); do
        caught=
        for bounds in "" "${@:2}"; do
            # shellcheck disable=SC2086 # several flags
            build "$1" -O0 -DM"$mutant" $bounds
            case $(search -w20) in
            0 | incomplete*) ;;
            *) caught=yes; break ;;
            esac
        done
        isnt "$caught" "" "wrong protocol M$mutant of $1 is caught$(about "$1" "$mutant")"
    done
}

properties="own1 atom copy fenced other nouse relst wal live"
build handover -O1
for p in $properties; do
    is "$(check "$p")" 0 "$p holds ($(states) states)"
done

for mutant in $(mutants handover); do
    build handover -O0 -DM"$mutant"
    caught=
    for p in $properties; do
        case $(check "$p") in
        0 | incomplete*) ;;
        *) caught=$p; break ;;
        esac
    done
    isnt "$caught" "" "wrong protocol M$mutant is caught${caught:+ by $caught}$(about handover "$mutant")"
done

for bounds in "-DK=2 -DR=2 -DCC=2" "-DK=2 -DR=3 -DCC=3" "-DK=3 -DR=2 -DCC=2"; do
    # shellcheck disable=SC2086 # several flags
    build growth -O1 $bounds
    is "$(search -w22)" 0 "growth, $bounds: nothing is asked for twice, forgotten or left behind ($(states) states)"
done
catch_mutants growth

for bounds in "-DS=3 -DDD=3" "-DS=4 -DDD=2" "-DS=2 -DDD=2 -DMM=1"; do
    # shellcheck disable=SC2086 # several flags
    build copies -O1 $bounds
    is "$(search -w22)" 0 "copies, $bounds: no whole copy is of no use, and all go on from one step ($(states) states)"
done
catch_mutants copies "-DS=2 -DMM=1"

# Without a loss, which ends all waiting, nobody waits for ever.
for bounds in "-DN=7 -DEE=2" "-DL=2" "-DL=2 -DN=7 -DEE=2 -DDD=0"; do
    # shellcheck disable=SC2086 # several flags
    build shadow -O1 $bounds
    is "$(search -w22)" 0 "shadow, $bounds: what is handed over is the layer, and nothing is left under way ($(states) states)"
done
catch_mutants shadow "-DL=2 -DDD=0"

# Bounds: hand-overs, newcomers, deaths, crashes of the coordinator, appends in doubt and losses of the coordinator: all of them at once are too many.
while read -r ch cn cd cc cj ct b what; do
    build layouts -O1 -DCH="$ch" -DCN="$cn" -DCD="$cd" -DCC="$cc" -DCJ="$cj" -DCT="$ct" -DB="$b"
    is "$(search -w23)" 0 "$what: at every end all is well ($(states) states)"
done <<'END'
2 1 1 1 1 0 2 two hand-overs, a newcomer, a death, a crash, an append in doubt
2 2 1 1 0 0 2 two hand-overs, two newcomers, a death, a crash
2 1 2 0 0 0 2 two hand-overs, a newcomer, two deaths
1 2 2 1 1 0 2 one hand-over, two newcomers, two deaths, a crash, an append in doubt
1 1 1 2 1 0 2 one hand-over, a newcomer, a death, two crashes, an append in doubt
3 1 0 0 0 0 3 three hand-overs, a newcomer
1 1 1 1 1 1 2 one hand-over, a newcomer, a death, a crash, an append in doubt, a coordinator lost
2 0 1 0 0 1 2 two hand-overs, a death, a coordinator lost
END
# What forget() takes away has to change nothing.
build layouts -O1 -DCH=1 -DCJ=1 -DKEEP
is "$(search -w20)" 0 "nor does anything depend on what the model forgets ($(states) states)"

for mutant in $(mutants layouts); do
    caught=
    for bounds in "-DCH=1 -DCJ=1" "-DCH=2 -DCD=0" "-DCH=1 -DCT=1"; do
        # shellcheck disable=SC2086 # several flags
        build layouts -O0 -DM"$mutant" -DKEEP $bounds
        case $(search -w18) in
        0 | incomplete*) ;;
        *) caught=yes; break ;;
        esac
    done
    isnt "$caught" "" "wrong protocol M$mutant of layouts is caught$(about layouts "$mutant")"
done
done_testing
