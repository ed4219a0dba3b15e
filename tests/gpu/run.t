#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/gpu/run, as far as it goes without a card: it builds what it needs with make and a C compiler alone, the model trains
# on the emulator with one worker and with two, the same losses; a part that fails leaves the others alone, and time limits
# hold. The operations themselves are in tests/gpu/ops.t.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
[ -e "$DP_BUILDDIR/kernels/cuda/emu/libdynpipe-cuda-emu.so" ] || skip_all "the emulator is not built"
work=$(mktemp -d) || bail "no folder"
trap 'case $BASHPID in $$) rm -rf "$work" ;; esac' EXIT
run() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL "$DP_SRCDIR/tests/gpu/run" --emulator --out="$work" --work="$work/build" "$@" 2>&1; }
mkdir -p "$work/build/emu"
for f in "$DP_BUILDDIR"/kernels/cuda/*.emu; do # they take longest, and are here
    f=${f##*/}
    cp "$DP_BUILDDIR/kernels/cuda/$f" "$work/build/emu/${f%.emu}.o"
done

log=$(run --parts='^build|^training$|recorded')
ok $? "builds with make and a C compiler, and trains"
on_failure=
like "$log" "\\| build: emulator \\| ok " "the table has the build"
like "$log" "\\| training \\| ok .*the same losses, bit for bit" "two workers have the losses of one"
like "$log" "\\| recorded segments \\| ok .*the same losses, bit for bit" "and so has one whose segments are recorded"
like "$(cat "$work/results.md")" "0 of 3 parts failed" "the table is kept"
like "$(cat "$work/log")" "# losses 2 0x1\\." "the log has the losses"
grep -q "FAILED" <<<"$log" && diag "$(tail -n 40 "$work/log")"

log=$(DYNPIPE_EMU=fail=300 run --parts='^training$|^build')
isnt $? 0 "a part that fails is a failure of all"
like "$log" "\\| training \\| FAILED " "its row says so"
like "$log" "\\| build: emulator \\| ok" "and the others have run"
log=$(run --seconds=1 --parts='^training$')
isnt $? 0 "a part without time is a failure"
like "$log" "\\| training \\| NOT RUN \\| 0 \\| the 1 seconds are over" "and says that the time is over"
runs "its help is there" "$DP_SRCDIR/tests/gpu/run" --help
done_testing
