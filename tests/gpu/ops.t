#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The operations of the CUDA backend on the emulator, with several seeds: threads, blocks and streams in other orders must
# give the same bits. tests/gpu/ops says what is compared with what.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
plugin=$DP_BUILDDIR/kernels/cuda/emu/libdynpipe-cuda-emu.so
[ -x "$DP_BUILDDIR/tests/gpu/ops" ] && [ -e "$plugin" ] || skip_all "the emulator is not built"

first=
for seed in 1 2 3; do
    # the first one at two addresses, the others at one of them each, which is half of the work
    shift=() && [ $seed = 1 ] || shift=("--shift=$((seed == 2 ? 0 : 3))")
    log=$(DYNPIPE_EMU="seed=$seed" "$DP_BUILDDIR/tests/gpu/ops" "${shift[@]}" "$plugin" 2>&1)
    rc=$?
    ok $rc "every operation gives what the reference gives, seed $seed"
    [ $rc -eq 0 ] || diag "$(grep -v '^ok' <<<"$log")"
    bits=$(sed -n 's/^# bits //p' <<<"$log")
    is "$bits" "${first:-$bits}" "the same bits as with seed 1, seed $seed"
    first=${first:-$bits}
done

# What is asked for of cuBLASLt and cannot be had is said when the backend is opened.
for value in cublaslt fast; do
    log=$(DYNPIPE_CUDA_PRODUCTS=$value "$DP_BUILDDIR/tests/gpu/ops" "$plugin" adamw 2>&1)
    isnt $? 0 "DYNPIPE_CUDA_PRODUCTS=$value does not open on the emulator"
    like "$log" "DYNPIPE_CUDA_PRODUCTS=$value" "and says why ($value)"
done
DYNPIPE_CUDA_PRODUCTS=own "$DP_BUILDDIR/tests/gpu/ops" "$plugin" adamw >/dev/null
ok $? "DYNPIPE_CUDA_PRODUCTS=own opens"
done_testing
