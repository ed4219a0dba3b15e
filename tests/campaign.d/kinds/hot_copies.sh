# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # who sources it uses what is set, and sets the rest
# A run of nodes or of slices, as kinds/node_shrink.sh and kinds/slices.sh have them, each of whose layers has a copy on another node
# (--dynpipe-copies=1): workers and nodes are lost during hand-overs, growth and releases, and often a second one before new copies are
# whole. $E/copies has what `status` says of the copies, several times a second: the judge asks whether a checkpoint had to be read.

kind_hot_copies_plan() {
    local as nodes i all="" some=home but_first
    one_of node_shrink slices slices
    as=$drawn
    plan+=("as=$as" "copies=1")
    "kind_${as}_plan"
    plan=("${plan[@]/#keep=*/keep=1}") # whoever is left goes on
    # In half of them nothing is packed: where layers are on three nodes, two losses are more than copies make good.
    draw 2
    [ "$drawn" = 0 ] || plan+=("policy=keep")
    nodes=$(plan_value nodes)
    for ((i = 1; i <= nodes; i++)); do all="$all,n$i"; done
    all=${all#,}
    but_first=${all#n1,}
    plan_moments=("start" training training intent intent commit commit "done" drain gone regroup regroup regroup)
    if [ "$as" = node_shrink ]; then
        plan_faults=(
            "worker-kill $all 0 0" "worker-kill $all 0 0" "worker-others $all 0 0" "worker-others $all 0 0" "worker-stop $all 500 4000"
            "node-lost $but_first 1000 8000" "node-lost $but_first 1000 8000" "node-power $but_first 1000 8000" "node-power $but_first 1000 8000"
            "daemon-kill $all 200 3000" "net-cut $all 1000 5000" "slurmctld-stop - 500 6000" "munged-stop - 500 4000"
        )
        return
    fi
    for ((i = 1; i <= $(plan_value slices); i++)); do some="$some,s$i"; done
    plan_moments+=(seat given)
    plan_faults=(
        "slice-kill $some 0 0" "slice-kill $some 0 0" "worker-others $all 0 0" "worker-others $all 0 0" "slice-cut $some 0 0" "slice-cut $some 0 0" "slice-stop $some 500 4000"
        "node-lost $all 1000 8000" "node-lost $all 1000 8000" "node-power $all 1000 8000" "node-power $all 1000 8000"
        "slice-requeue $some 0 0" "slice-preempt $all 1000 3000" "daemon-kill $all,home 200 3000" "net-cut $all 1000 5000"
    )
}

kind_hot_copies_begin() {
    export DP_PMIX=no # under PMIx Slurm ends the step of a lost worker
    run_options=(--dynpipe-copies=1)
    if [ "$(plan_value as)" = node_shrink ]; then
        run_options+=(--no-kill)
        [ -z "$(plan_value policy)" ] || run_options+=("--dynpipe-policy=$(plan_value policy)")
    fi
    as_kind begin
    sample_copies &
    sampler=$!
    at_end=(stop_sampler "${at_end[@]}")
}
# Of all nodes but one at once, among them those that have a layer and its copy: what is left goes back to a checkpoint.
fault_worker_others() { # NODE
    local f here="" pids=()
    for f in $(LC_ALL=C grep -lzxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2>/dev/null); do
        case $(readlink "${f%environ}exe" 2>/dev/null) in */dynpipe-worker) ;; *) continue ;; esac
        if LC_ALL=C grep -qzxF "SLURMD_NODENAME=$1" "$f" 2>/dev/null; then here=1; continue; fi
        note "hits $(tr '\0' '\n' <"$f" | sed -n 's/^SLURM_JOB_ID=//p') on another node than $1"
        f=${f#/proc/}
        pids+=("${f%/environ}")
    done
    [ -n "$here" ] && [ ${#pids[@]} -gt 0 ] && kill -KILL "${pids[@]}"
}
# "SECONDS STEP EPOCH LAYERS WHOLE TEXT": layers that are to have a copy, and those whose copy is no step behind.
sample_copies() {
    local line
    while sleep 0.15; do
        if [ "$(plan_value as)" = slices ]; then
            line=$(run_status "$copies_line")
        else
            line=$(status "$job" "$copies_line")
        fi
        [ -z "$line" ] || echo "$EPOCHREALTIME $line" >>"$E/copies"
    done
}
copies_line='select(.copies and .layout) | "\(.step) \(.layout.epoch) \(.copies.layers) \(.copies.whole) \(.copies.text)"'
sampler=
stop_sampler() { [ -z "$sampler" ] || { kill -TERM "$sampler" && wait "$sampler"; } 2>/dev/null; sampler=; }

kind_hot_copies_clash() { as_kind clash "$@"; }
kind_hot_copies_nudge() { as_kind nudge; }
kind_hot_copies_heals() { as_kind heals; }
kind_hot_copies_told() { as_kind told; }
kind_hot_copies_has_released() { as_kind has_released; }
kind_hot_copies_ends() { as_kind ends; }
kind_hot_copies_ended() { as_kind ended; }
