# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # for who sources it; D and the rest are lib.sh's
# The release before this one (0.1.0, commit 60dffd6), built beside it, and what upgrades under a run look at. Source it
# after lib.sh. The old release is kept in the build folder: building it costs as long as this one's daemon and worker, once.

release_before=60dffd6
old=$DP_BUILDDIR/build-$release_before

case $(slurmctld -V) in
    *" 22.05"*) ;;
    *) skip_all "release 0.1.0 builds with Slurm 22.05 only" ;;
esac
top=$(git -c safe.directory='*' -C "$DP_SRCDIR" rev-parse --show-toplevel 2>/dev/null) &&
    git -c safe.directory='*' -C "$top" cat-file -e "$release_before^{commit}" 2>/dev/null ||
    skip_all "the history of git is not here: release 0.1.0 cannot be built"
exec 8<"$DP_BUILDDIR" && flock 8
if [ ! -e "$old/built" ]; then
    t0=$SECONDS
    rm -rf "$old"
    mkdir "$old" && git -c safe.directory='*' -C "$top" archive "$release_before" | tar -x -C "$old" || bail "no source of $release_before"
    (cd "$old" && ./bootstrap && ./configure --quiet CC="${CC:-gcc}" CFLAGS="-O2 -g" && make -j2 \
        daemon/dynpiped worker/dynpipe-worker cli/dynpipe spank_plugin/spank_dynpipe.so) >"$D/old.log" 2>&1 8>&- &&
        touch "$old/built" || { tail -n 20 "$D/old.log" >&2; bail "release 0.1.0 does not build"; }
    diag "release 0.1.0 was built in $((SECONDS - t0)) s"
fi
exec 8>&-
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
