#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What configure promises about programs that run as root or listen to a network: looked up in the files
# themselves. A flag that this compiler does not take is skipped, not passed.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
make=$DP_BUILDDIR/Makefile
[ -r "$make" ] || bail "no Makefile under $DP_BUILDDIR"
command -v readelf >/dev/null || skip_all "readelf is not installed"
flags=$(sed -n 's/^\(HARDEN\|PIE\)_\(CFLAGS\|LDFLAGS\) *=//p' "$make" | tr '\n' ' ')
if [ -z "${flags// /}" ]; then
    [ -z "$(sed -n 's/^SANITIZER_CFLAGS *= *//p' "$make")" ] || skip_all "a sanitizer takes its place"
    skip_all "built without hardening"
fi

has() { # FLAG TEXT REGEX NAME
    case $flags in
        *"$1"*) [[ $2 =~ $3 ]]; ok $? "$4" ;;
        *) skip "$4" "this compiler does not take $1" ;;
    esac
}

for file in daemon/dynpiped cli/dynpipe worker/dynpipe-worker lib/libdynpipe.so.1.0.0 spank_plugin/spank_dynpipe.so; do
    [ -e "$DP_BUILDDIR/$file" ] || bail "$file is not built"
    elf=$(LC_ALL=C readelf -hldW --dyn-syms "$DP_BUILDDIR/$file")
    has -pie "$elf" 'Type: +DYN' "$file can lie at any address"
    # The plugin's calls are Slurm's, and not every program of Slurm has all of them.
    [ "${file%.so}" != "$file" ] || has -z,now "$elf" 'BIND_NOW|Flags: [A-Z ]*NOW' "$file binds its calls before it runs"
    has -z,relro "$elf" 'GNU_RELRO' "$file cannot change them later"
    has -z,noexecstack "$elf" 'GNU_STACK +[0-9a-fx ]+ RW +' "$file has no code on its stack"
    has -fstack-protector "$elf" '__stack_chk_fail' "$file guards its return addresses"
    has -D_FORTIFY_SOURCE "$elf" '__[a-z]+_chk' "$file checks what it copies"
done
done_testing
