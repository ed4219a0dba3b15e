#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Module dynpipe of lib/python: what it says to libdynpipe, what it makes of the answers, and what it says where the library is not
# there or is another one. The library is a stand-in that plays a script (tests/python/scripted_dynpipe.c).
DP_SRCDIR=${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
DP_BUILDDIR=${DP_BUILDDIR:-$PWD}
. "$DP_SRCDIR/tests/lib/tap.sh"
python=$(find_python 'import ctypes, sys; sys.exit(sys.version_info < (3, 9))') || skip_all "no python3 (3.9 or newer) here"
export DP_SRCDIR DP_SCRIPTED=$DP_BUILDDIR/tests/python/scripted_dynpipe.so
[ -f "$DP_SCRIPTED" ] || bail "tests/python/scripted_dynpipe.so is not built"
export PYTHONPATH=$DP_SRCDIR/lib/python PYTHONDONTWRITEBYTECODE=1
exec "$python" "$DP_SRCDIR/tests/python/binding.py"
