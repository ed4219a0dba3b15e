# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # the rest is lib.sh's
# What the tests of trainers that are not ours share. Source it behind lib.sh.

export PYTHONPATH=$DP_SRCDIR/lib/python PYTHONDONTWRITEBYTECODE=1 DYNPIPE_LIBRARY=$DP_BUILDDIR/lib/libdynpipe.so.1
[ -e "$DYNPIPE_LIBRARY" ] || bail "$DYNPIPE_LIBRARY is not built"

# What a trainer printed: "STEP LOSS", hexadecimal.
foreign_losses() { grep -aE '^[0-9]+ -?0x[0-9a-f.]+p[+-][0-9]+$' "$1"; }
foreign_steps_done() { [ "$(foreign_losses "$1" 2>/dev/null | tail -n 1 | cut -d' ' -f1)" -ge "$2" ] 2>/dev/null; } # OUT STEPS
