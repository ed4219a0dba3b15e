#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The one list of Debian packages, and their installation.
#
#   deps.sh [GROUP...]    as root: install what is missing; else: name what is missing and end with 1
#   deps.sh --list GROUP...    print the packages
#
#   build   what configure and make need          slurm   what a private Slurm needs
#   demo    build, slurm, and the text that the demo trains on
#   bench   build, and PyTorch with what it is fastest with, for make bench-peers; what make paper and
#           make bench-simulator want
#   quick   demo, and what most of the quick tests use
#   test    all of that, and what only some tests use (the default)
#   distros what tests/distros/run makes another Debian with
#   packages build, and what `make deb`, `make rpm` and their test want
#
# A package that another release of Debian calls otherwise has several names, with a | between them.
#
# Debian starts a service when its package is installed. The machine's own slurmctld, slurmd, munged
# or slurmdbd are none of our business, so a policy-rc.d says no to that while we install; one that
# was there before is left as it is.
set -u

build="autoconf automake gcc libc6-dev make pkg-config libslurm-dev libmunge-dev libpmix-dev
    libconfig-dev libjansson-dev libevent-dev libssl-dev libdnnl-dev libucx-dev"
slurm="slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmix2|libpmix2t64 perl-base util-linux
    procps hostname"
demo="bible-kjv bible-kjv-text"
bench="gnuplot-nox jq openmpi-bin python3 python3-torch libopenblas0-openmp libblis4-openmp"
quick="g++ libcmocka-dev jq binutils gnuplot-nox shellcheck strace openmpi-bin python3"
test="runc clang libclang-rt-dev spin valgrind iproute2 python3-numpy python3-torch slurmdbd slurm-wlm-mysql-plugin mariadb-server-core"
distros="debootstrap util-linux"
packaging="cpio debhelper dpkg-dev lintian rpm rpmlint"

packages_of() {
    local g
    for g; do
        case $g in
            build) echo "$build" ;;
            slurm) echo "$slurm" ;;
            demo) echo "$build $slurm $demo" ;;
            bench) echo "$build $bench" ;;
            quick) echo "$build $slurm $demo $quick" ;;
            test) echo "$build $slurm $demo $quick $test" ;;
            distros) echo "$distros" ;;
            packages) echo "$build $packaging" ;;
            *) echo "deps.sh: no group '$g'; there are build, slurm, demo, bench, quick, test, distros, packages" >&2; return 2 ;;
        esac
    done | tr -s ' ' '\n' | sed '/^$/d' | sort -u
}

list=0
[ "${1:-}" = --list ] && { list=1; shift; }
[ $# -gt 0 ] || set -- test
packages=$(packages_of "$@") || exit 2
[ "$list" = 0 ] || { echo "$packages"; exit 0; }

if ! command -v apt-get >/dev/null; then
    echo "deps.sh: no Debian here; you need what these packages hold: ${packages//$'\n'/ }" >&2
    exit 0
fi

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | head -n 1)" = installed ]; }
can_be_had() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

# one_of TEST NAME...: the first name that passes.
one_of() {
    local test=$1 p
    shift
    for p; do "$test" "$p" && echo "$p" && return 0; done
    return 1
}

missing=()
for p in $packages; do
    # shellcheck disable=SC2086 # names
    one_of is_installed ${p//|/ } >/dev/null || missing+=("$(one_of can_be_had ${p//|/ } || echo "${p%%|*}")")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "deps.sh: missing packages (root installs them with: apt-get install --no-install-recommends ${missing[*]})" >&2
    exit 1
fi

guard=/usr/sbin/policy-rc.d
made_guard=0
# shellcheck disable=SC2317 # the trap calls it
remove_guard() { [ "$made_guard" = 0 ] || rm -f "$guard"; }
trap 'case $BASHPID in $$) remove_guard ;; esac' EXIT
trap 'exit 130' INT TERM
if [ ! -e "$guard" ]; then
    printf '#!/bin/sh\n# written by DynPipe for the time of one installation\nexit 101\n' >"$guard" &&
        chmod 755 "$guard" && made_guard=1
fi

echo "deps.sh: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq "$@" </dev/null; }
# Lists that are there may do; when they are too old, fetch them and try once more. An installation
# that was interrupted before (a ^C) is finished first.
log=$(mktemp)
apt install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
    { dpkg --configure -a && apt update && apt install -y --no-install-recommends "${missing[@]}"; } >>"$log" 2>&1
rc=$?
[ $rc -eq 0 ] || { tail -n 30 "$log" >&2; echo "deps.sh: installation failed" >&2; }
rm -f "$log"
exit $rc
