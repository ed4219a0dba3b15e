# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # who sources it uses what is set, and sets kinds
# What a run of the campaign will do, drawn from seed and number alone: the same two give the same plan on every machine.
#
#   plan_draw SEED NUMBER    sets the array plan: lines "NAME=VALUE", then one line "fault=..." for each fault
#   plan_value NAME          prints the value of a line
#
# A fault is NAME[:TARGET]@MOMENT+DELAY/LENGTH, times in milliseconds: what is hurt (faults.sh), when (moments.sh), how long
# until it is mended. A kind of run (kinds/KIND.sh) says in kind_KIND_plan which faults and moments it has.
#
# The environment may ask for other plans (tests/campaign): of the kinds DP_KIND alone, with commas between them; with DP_FAULT as the
# first fault; with DP_SPARE_SLURM set, without what Slurm 22.05 itself does not survive in order (tests/campaign.d/README.md).
slurms_undoing='^(slurmctld-kill|slurmdbd-kill|slurm-clock-|slurmd-clock-|slurmdbd-clock-|node-lost|node-power)'

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
    [[ ${DP_FAULT:-} != slurmdbd-* ]] || drawn=0
    plan+=("dbd=$((drawn == 0))")
    draw 2
    plan+=("train=$((drawn + 1))")
    draw 3
    plan+=("waiting=$((drawn + $1))")
}

# plan_draw_kind SEED NUMBER: which kind of run, and what it may have. returns: 1 when it has not the fault that was asked for.
plan_draw_kind() {
    one_of "${kinds[@]}"
    kind=$drawn
    plan=("seed=$1" "run=$2" "kind=$kind")
    "kind_${kind}_plan"
    [ -z "${DP_SPARE_SLURM:-}" ] || mapfile -t plan_faults < <(printf '%s\n' "${plan_faults[@]}" | grep -Ev "$slurms_undoing")
    plan_first=()
    [ -n "${DP_FAULT:-}" ] || return 0
    mapfile -t plan_first < <(printf '%s\n' "${plan_faults[@]}" | grep "^$DP_FAULT ")
    [ ${#plan_first[@]} -gt 0 ]
}

# returns: 1 when no kind of run has the fault that was asked for.
plan_draw() { # SEED NUMBER
    local kind n i fault name targets min max used=" " moment delay target tries=100
    plan_seed "$1" "$2"
    until plan_draw_kind "$1" "$2"; do [ $((tries--)) -gt 0 ] || return 1; done
    draw 4
    n=$((drawn + 1))
    for ((i = 0; i < n;)); do
        if [ $i = 0 ] && [ ${#plan_first[@]} -gt 0 ]; then one_of "${plan_first[@]}"; else one_of "${plan_faults[@]}"; fi
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
