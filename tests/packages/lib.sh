# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
# What the tests of packages share. make_packages KIND: `make deb` or `make rpm`, unless DP_PACKAGES_MADE says that
# ./check has done that just now; sets packages to the folder, and log to what was said.
# shellcheck source=tests/lib/tap.sh
. "$DP_SRCDIR/tests/lib/tap.sh"

need_programs() {
    local p
    for p; do command -v "$p" >/dev/null || skip_all "$p is not installed (tests/lib/deps.sh packages)"; done
}

make_packages() {
    packages=$DP_BUILDDIR/build-packages/$1
    [ -z "${DP_PACKAGES_MADE:-}" ] || return 0
    local log t0=$SECONDS
    log=$(mktemp) || bail "no temporary file"
    # One make dist at a time: both tests may be run together.
    mkdir -p "${packages%/*}" || bail "no folder ${packages%/*}"
    (
        flock 9
        cd "$DP_BUILDDIR" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u DESTDIR make "$1"
    ) 9>"${packages%/*}/lock" >"$log" 2>&1 || { tail -n 40 "$log" | sed 's/^/# /'; rm -f "$log"; bail "make $1 fails"; }
    rm -f "$log"
    diag "make $1: $((SECONDS - t0)) s"
}

# What a package has, without folders and what only one kind of package brings; libraries' folders have one name.
same_names() {
    sed -E '\|/$|d; s|^\.||; s|/usr/lib/[^/]*-linux-gnu[^/]*/|/usr/lib64/|; s|^/lib/|/usr/lib/|; s|^/usr/lib64/slurm-wlm/|/usr/lib64/slurm/|' |
        grep -vE '^/usr/share/doc/[^/]*/(changelog(\.Debian)?\.gz|copyright|README\.Debian)$|^/usr/share/licenses/|^/usr/lib/\.build-id/' | LC_ALL=C sort
}
