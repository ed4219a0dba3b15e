# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # who sources it uses what is set, and sets kinds
# What a run of the campaign will do, drawn from seed and number alone: the same two give the same plan on every machine.
#
#   plan_draw SEED NUMBER    sets the array plan: lines "NAME=VALUE", then one line "fault=..." for each fault
#   plan_value NAME          prints the value of a line
#
# A fault is NAME[:TARGET]@MOMENT+DELAY/LENGTH, times in milliseconds: what is hurt (faults.sh), when (moments.sh), how long
# until it is mended. A kind of run (kinds/KIND.sh) says in kind_KIND_plan which faults and moments it has.

# splitmix64 (Steele, Lea, Flood 2014). The shell's numbers have 64 bits and its shift keeps the sign: hence the masks.
plan_state=0
plan_step() {
    local z
    plan_state=$((plan_state + 0x9e3779b97f4a7c15))
    z=$plan_state
    z=$(((z ^ (z >> 30 & 0x3ffffffff)) * 0xbf58476d1ce4e5b9))
    z=$(((z ^ (z >> 27 & 0x1fffffffff)) * 0x94d049bb133111eb))
    plan_dice=$(((z ^ (z >> 31 & 0x1ffffffff)) & 0x7fffffff))
}
plan_seed() { plan_state=$(($1 * 1000003 + $2)); } # SEED NUMBER
# draw N: sets drawn to one of 0 ... N-1. one_of WORD...: to one of the words.
draw() {
    plan_step
    drawn=$((plan_dice % $1))
}
one_of() {
    draw $#
    shift "$drawn"
    drawn=$1
}

# plan_draw_rest LEAST: what runs of every kind have: with slurmdbd or without, which training, how many other jobs wait at LEAST.
plan_draw_rest() {
    draw 4
    plan+=("dbd=$((drawn == 0))")
    draw 2
    plan+=("train=$((drawn + 1))")
    draw 3
    plan+=("waiting=$((drawn + $1))")
}

plan_draw() { # SEED NUMBER
    local kind n i fault name targets min max used=" " moment delay target
    plan=("seed=$1" "run=$2")
    plan_seed "$1" "$2"
    one_of "${kinds[@]}"
    kind=$drawn
    plan+=("kind=$kind")
    "kind_${kind}_plan"
    draw 4
    n=$((drawn + 1))
    for ((i = 0; i < n;)); do
        one_of "${plan_faults[@]}"
        read -r name targets min max <<<"$drawn"
        fault=$name
        target=-
        if [ "$targets" != - ]; then
            # shellcheck disable=SC2086 # a list
            one_of ${targets//,/ }
            target=$drawn
            fault=$name:$target
        fi
        one_of "${plan_moments[@]}"
        moment=$drawn
        draw 400
        delay=$drawn
        draw $((max - min + 1))
        fault="$fault@$moment+$delay/$((drawn + min))"
        # Two of a kind, or two on one process, would mend each other.
        case $used in *" $name "* | *" ${name%-*}:$target "*) continue ;; esac
        ! "kind_${kind}_clash" "$name" "$used" || continue
        used="$used$name ${name%-*}:$target "
        plan+=("fault=$fault")
        i=$((i + 1))
    done
}

plan_value() { printf '%s\n' "${plan[@]}" | sed -n "s/^$1=//p"; }
