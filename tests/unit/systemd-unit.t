#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The shipped unit: what systemd itself thinks of it, and that its pieces fit together.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
unit=$DP_BUILDDIR/etc/dynpiped.service
[ -r "$unit" ] || bail "etc/dynpiped.service is not made"

if systemd-analyze security --offline=true "$unit" >/dev/null 2>&1; then
    runs "systemd-analyze security: exposure at most 2.0" systemd-analyze security --offline=true --threshold=20 "$unit"
    diag "$(systemd-analyze security --offline=true "$unit" 2>/dev/null | tail -n 1)"
else
    skip "systemd-analyze security: exposure at most 2.0" "no systemd-analyze that reads files (systemd 250)"
fi
user=$(sed -n 's/^User=//p' "$unit")
is "$("$DP_BUILDDIR/daemon/dynpiped" --print-config | sed -n 's/.*run_user = "\(.*\)";/\1/p')" "$user" \
    "the unit and run_user name the same user"
like "$(cat "$DP_SRCDIR/etc/dynpipe.sysusers")" "(^|
)u $user " "and systemd-sysusers makes it"
is "$(sed -n 's/^CapabilityBoundingSet=//p' "$unit")" "$(sed -n 's/^AmbientCapabilities=//p' "$unit")" \
    "what it starts with is all that it can ever have"
for folder in Runtime:/run State:/var/lib; do
    name=$(sed -n "s/^${folder%%:*}Directory=//p" "$unit")
    like "$("$DP_BUILDDIR/daemon/dynpiped" --print-config)" "\"${folder#*:}/$name/" "systemd makes ${folder#*:}/$name, which the defaults use"
done

# A child may fail for want of memory, and takes nobody with it.
largest=$(sed -n 's/^#define [A-Z]*_SPACE (UINT64_C(\([0-9]*\)) << 30).*/\1/p' "$DP_SRCDIR"/daemon/*.c "$DP_SRCDIR"/daemon/*/*.c | sort -n | tail -n 1)
memory=$(sed -n 's/^MemoryMax=\([0-9]*\)G$/\1/p' "$unit")
ok $((${largest:-99} + 1 > ${memory:-0})) "MemoryMax holds the largest child ($largest GiB) and the daemon"
is "$(sed -n 's/^OOMPolicy=//p' "$unit")" continue "a child that runs out of memory does not end the service"
done_testing
