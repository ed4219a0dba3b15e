# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # for who sources it; D and the rest are lib.sh's
# The release before this one (0.1.0, commit 60dffd6), built beside it, and what upgrades under a run look at. Source it
# after lib.sh. The old release is kept in the build folder (build_release_before).

t0=$SECONDS
"$DP_SRCDIR/tests/e2e/build_release_before" "$DP_BUILDDIR" >"$D/old.log" 2>&1
case $? in
    0) diag "release 0.1.0 was there after $((SECONDS - t0)) s" ;;
    77) skip_all "$(tail -n 1 "$D/old.log")" ;;
    *) tail -n 20 "$D/old.log" >&2; bail "release 0.1.0 does not build" ;;
esac
old=$(tail -n 1 "$D/old.log")
new_worker=$worker
old_dynpipe=$old/cli/dynpipe
train_conf=$old/etc/gpt-prune.conf
ln -s "$old/spank_plugin/spank_dynpipe.so" "$D/spank_dynpipe.so"
run="$endless prune.begin=20 prune.end=120 prune.every=20"

# What release 0.1.0 knows of a configuration. It gives nodes back within a second of the start, so its coordinator
# decides nothing by itself here; this release's does.
old_limits='run: { hysteresis = 1.0; cooldown_s = 1.0; warmup_reports = 1000; confirm_s = 2.0; };'
decides() { sed -i "s/warmup_reports = [0-9]*/warmup_reports = $1/" "$D/etc/dynpipe.conf"; } # after so many reports
start_old() { DP_DYNPIPED=$old/daemon/dynpiped cluster start "daemon:$1"; }
start_new() { DP_DYNPIPED=$DP_BUILDDIR/daemon/dynpiped cluster start "daemon:$1"; }
upgrade() { cluster stop "daemon:$1" && start_new "$1"; }

connected() { [ "$(status "$1" '[.workers[] | select(.connected)] | length')" = 4 ]; }
layout_is() { [ "$(status "$1" .layout.text)" = "$2" ]; }
# The coordinator's own decisions wait meanwhile, so that this layout is not gone before it was seen. A restart of its
# daemon forgets that.
moves() { # JOB LAYOUT WHAT
    runs "$3: all four workers are heard" wait_for 60 connected "$1"
    runs "$3: pause" dynpipe pause -j "$1"
    wait_for 60 eval "dynpipe layout -j $1 --set '$2' >>'$D/layout.out' 2>&1; layout_is $1 '$2'"
    ok $? "$3: layers move"
}
