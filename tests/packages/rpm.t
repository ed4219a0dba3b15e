#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The rpm packages: made from a tarball, looked at by rpmlint, installed into an empty folder and removed again; they have
# the files of the Debian packages. Debian's rpm cannot install them on this machine, and nothing here tries to.
: "${DP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${DP_BUILDDIR:=$PWD}"
export DP_SRCDIR DP_BUILDDIR
# shellcheck source=tests/packages/lib.sh
. "$DP_SRCDIR/tests/packages/lib.sh"
need_programs rpmbuild rpm rpmlint
make_packages rpm
D=$(mktemp -d "${TMPDIR:-/tmp}/dprpmXXXXXX") || bail "no temporary folder"
trap 'case $BASHPID in $$) rm -rf "$D" ;; esac' EXIT

binary=()
for f in "$packages"/*.rpm; do case $f in *.src.rpm) ;; *) binary+=("$f") ;; esac; done
is "${#binary[@]}" 9 "there are nine packages"
rpmlint -c "$DP_SRCDIR/packaging/rpmlint.toml" "$packages"/*.rpm "$DP_SRCDIR/packaging/dynpipe.spec.in" >"$D/rpmlint" 2>&1
like "$(tail -n 1 "$D/rpmlint")" " 0 errors" "rpmlint finds no error" || diag "$(cat "$D/rpmlint")"
version=$("$DP_BUILDDIR/cli/dynpipe" --version)
is "$(rpm -qp --qf '%{VERSION}\n' "${binary[@]}" | sort -u)" "${version#dynpipe }" "they have the version of the programs"

# The names of the files are those of the Debian packages.
names="dynpipe dynpiped dynpipe-worker spank-dynpipe libdynpipe1 libdynpipe-dev python3-dynpipe libdynpipe-policy-dev dynpipe-doc"
for p in $names; do
    deb=$(ls "$DP_BUILDDIR/build-packages/deb/${p}"_[0-9]*.deb 2>/dev/null)
    rpm=${p%1}
    rpm=$(printf '%s\n' "${binary[@]}" | grep -E "/${rpm/%-dev/-devel}-[0-9][^/]*\$")
    if [ -n "$deb" ]; then
        is "$(diff <(dpkg-deb --fsys-tarfile "$deb" | tar -t | same_names) \
            <(rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$rpm" | sed -n '/^d/!s/^[^ ]* //p' | same_names))" "" "$p has the files of its Debian package"
    else
        skip "$p has the files of its Debian package" "make deb was not run"
    fi
done
is "$(rpm -qpc "${binary[@]}" | LC_ALL=C sort | xargs)" "/etc/dynpipe/dynpipe.conf /etc/slurm/plugstack.conf.d/dynpipe.conf" "configurations are marked as such"

# rpm changes its root to the folder, which only root may.
if [ "$(id -u)" = 0 ]; then
    # Scripts would want a shell in there, and a systemd.
    rpm_in() { rpm --root "$D/root" "$@"; }
    mkdir "$D/root"
    runs "they can be installed into an empty folder" rpm_in -i --noscripts --nodeps "${binary[@]}"
    is "$("$D/root/usr/bin/dynpipe" --version)" "$version" "the command runs"
    is "$("$D/root/usr/bin/dynpipe-worker" --version)" "dynpipe-worker ${version#dynpipe }" "the worker runs"
    is "$("$D/root/usr/sbin/dynpiped" --version)" "dynpiped ${version#dynpipe }" "the daemon runs"
    runs "nothing was changed since" rpm_in -V --nodeps --noscripts -a
    # shellcheck disable=SC2046 # names
    runs "they can be removed" rpm_in -e --noscripts $(rpm_in -qa 2>/dev/null)
    is "$(find "$D/root" -name '*dynpipe*')" "" "nothing is left"
else
    skip "they can be installed into an empty folder" "only root may change its root folder"
fi
done_testing
