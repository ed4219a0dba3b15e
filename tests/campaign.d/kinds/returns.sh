# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # who sources it uses what is set, and sets the rest
# A run of slices (kinds/slices.sh) that Slurm takes apart and puts together again: one slice after the other is requeued, hands its layers
# over, is given back, other jobs have its GPU for two seconds, and it joins again. So one run has dozens of releases, each of which
# the witness counts and searches. What else is done to it is as to any run of slices, but for what ends or requeues all of them, and
# for a slurmctld that is killed, which would forget requeues.

kind_returns_plan() {
    local slices i some=""
    plan+=("nodes=3")
    draw 2
    slices=$((drawn + 7))
    for ((i = 1; i <= slices; i++)); do some="$some,s$i"; done
    # By policy keep nothing is packed, so that all of them come again.
    plan+=("slices=$slices" "made=array" "mode=release" "policy=keep" "keep=1" "most=0" "late=0")
    draw 51
    plan+=("returns=$((drawn + 40))")
    plan_draw_rest 1
    slices_faults n1,n2,n3 "home$some"
    mapfile -t plan_faults < <(printf '%s\n' "${plan_faults[@]}" | grep -v -e ^run- -e ^slurmctld-kill)
}
kind_returns_clash() { kind_slices_clash "$@"; }

kind_returns_begin() {
    kind_slices_begin
    returns_until=$((SECONDS + 100)) # a slow machine has fewer
    heal_s=220
}

# Which slice was sent away how often. The next ones go when the run has made steps since, a third of those that train at a time, and never
# the run's home, which would not come again.
declare -A sent=()
n_sent=0 sent_at=0
are_all_sent() { [ "$n_sent" -ge "$(plan_value returns)" ] || [ $SECONDS -ge "$returns_until" ]; }
send_some() {
    local now home active many j name
    now=$(last_step)
    [ -n "$now" ] && { [ "$now" -gt $((sent_at + 10)) ] || [ "$now" -lt "$sent_at" ]; } || return 0
    home=$(home_now)
    active=" $(run_status '[.slots[] | select(.state == "active") | .job] | join(" ")') "
    many=$(($(wc -w <<<"$active") / 3))
    while [ "$many" -gt 0 ] && read -r _ j name; do
        scontrol requeue "$name" 2>/dev/null || continue
        sent[$j]=$((${sent[$j]:-0} + 1)) n_sent=$((n_sent + 1)) sent_at=$now many=$((many - 1))
        note "returns $j"
    done < <(slices_now R | while read -r j name _; do
        [[ $j = "$home" || $active != *" $j "* ]] || echo "${sent[$j]:-0} $j $name"
    done | sort -n)
}
kind_returns_nudge() {
    kind_slices_nudge
    [ -e "$D/ending" ] || are_all_sent || send_some
}

kind_returns_heals() {
    nudge
    none_is_left || are_all_sent || return 1
    kind_slices_heals
}
kind_returns_told() { kind_slices_told; }
kind_returns_has_released() { kind_slices_has_released; }
kind_returns_ends() { kind_slices_ends; }
kind_returns_ended() { kind_slices_ended; }
