# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # who sources it uses what is set, and sets the rest
# A run of nodes or of slices, as kinds/node_shrink.sh and kinds/slices.sh have them, whose layers are larger and are copied before each
# hand-over while training goes on (handover.background), for about a second: most faults come when that has begun.

kind_copied_plan() {
    one_of node_shrink slices
    plan+=("as=$drawn" "large=1")
    "kind_${drawn}_plan"
    plan_moments=(intent intent intent "${plan_moments[@]}")
}
as_kind() { # FUNCTION ARGUMENT...: that of the kind that it is as
    local f=$1
    shift
    "kind_$(plan_value as)_$f" "$@"
}
kind_copied_clash() { as_kind clash "$@"; }
kind_copied_begin() { as_kind begin; }
kind_copied_nudge() { as_kind nudge; }
kind_copied_heals() { as_kind heals; }
kind_copied_told() { as_kind told; }
kind_copied_has_released() { as_kind has_released; }
kind_copied_ends() { as_kind ends; }
kind_copied_ended() { as_kind ended; }
