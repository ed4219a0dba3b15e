# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# How end-to-end tests that ./check starts at the same time share the cores: it names a folder in DP_CORES, with a lock for each
# core, by which they take turns.
#
#   take_core           waits until less tests train than there are cores
#   take_cores          waits until no other test trains: where a node's release or a promise depends on what a step takes
#   leave_cores         lets others go on; the test's end does that, too
#   idly COMMAND...     with what those who train leave, before what only builds (nice 19 in ./check)
#
# Without DP_CORES nobody else is there, and these do nothing. How long a test waited goes into $DP_WAITED (tests/lib/timed).
core_locks=()

# lock_core NUMBER [-n]: fails only with -n, where another test has it.
lock_core() {
    local fd
    exec {fd}>>"$DP_CORES/$1" || bail "no lock in $DP_CORES"
    if flock ${2:-} "$fd"; then core_locks+=("$fd"); return 0; fi
    exec {fd}>&-
    return 1
}
lock_any_core() {
    local c
    for ((c = 0; c < $(nproc); c++)); do lock_core $c -n && return 0; done
    return 1
}
# In one order, so that two who do this do not wait for each other.
lock_all_cores() {
    local c
    for ((c = 0; c < $(nproc); c++)); do lock_core $c; done
}

take() { # COMMAND...: until it succeeds
    { [ -n "${DP_CORES:-}" ] && [ ${#core_locks[@]} -eq 0 ]; } || return 0
    local t0=$EPOCHREALTIME
    until "$@"; do sleep 0.2; done
    [ -z "${DP_WAITED:-}" ] || awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }' >>"$DP_WAITED"
}
take_core() { take lock_any_core; }
take_cores() { take lock_all_cores; }

# Not only closed: a process in the background has it open, too.
leave_cores() {
    local fd
    for fd in "${core_locks[@]}"; do
        flock -u "$fd"
        exec {fd}>&-
    done
    core_locks=()
}

idly() { if [ -n "${DP_CORES:-}" ]; then nice -n 10 "$@"; else "$@"; fi; }
