#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The compiler as a witness: no kernel got worse than kernels/cuda/resources.txt says (registers, shared memory, blocks on a
# multiprocessor, wanted instructions), and none has a stack frame. tests/gpu/resources.c looks into the objects of the
# build. Then the same program on kernels with planted faults, tests/gpu/planted.cu. `make kernel-table` updates the table.
# shellcheck source=tests/lib/tap.sh
. "${DP_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}/tests/lib/tap.sh"
resources=$DP_BUILDDIR/tests/gpu/resources planted=$DP_BUILDDIR/tests/gpu/planted.o
[ -x "$resources" ] && [ -e "$planted" ] || skip_all "there is no nvcc: ./configure did not find NVIDIA's compiler"
work=$(mktemp -d) || bail "no folder"
trap 'case $BASHPID in $$) rm -rf "$work" ;; esac' EXIT
in_build() { env -u MAKEFLAGS -u MFLAGS make -s -C "$DP_BUILDDIR" "$@"; }

log=$(in_build check-kernel-table 2>&1)
ok $? "all kernels are what kernels/cuda/resources.txt says, or better"
diag "$(grep -v '^ok' <<<"$log")"
unlike "$log" "# SKIP" "the table is of this nvcc"

# A table of the planted kernels; what no table excuses is said.
archs=$(in_build print-cuda-archs)
arch=${archs%% *} arch=${arch//[!0-9]/}
log=$("$resources" --update "$archs" "$work/made" "$planted")
isnt $? 0 "planted faults are found"
like "$log" "frame_kernel, sm_$arch: a stack frame of [1-9][0-9]* bytes" "an array with an index is a stack frame"
like "$log" "spill_kernel, sm_$arch: a stack frame of [1-9][0-9]* bytes, [1-9][0-9]* loads and stores" "registers are spilled"
like "$log" "unbounded_kernel, sm_$arch: no __launch_bounds__" "a kernel says how many threads it has"
like "$log" "tensor_kernel<64,1>, sm_$arch: it has dynamic shared memory" "dynamic shared memory has to be in the table"
unlike "$log" "good_kernel" "a good kernel has no faults"
like "$(cat "$work/made")" "tensor_kernel<64,1> +$arch +32 +[0-9]+ +0 +0 +[0-9]+ +1 +1 +1
" "a copy, an ldmatrix and an mma are counted"

# changed COLUMN NUMBER: the table with another value for good_kernel, and what is said of that.
changed() {
    awk -v c="$1" -v more="$2" '$2 == "good_kernel" { $c += more } { print }' "$work/made" >"$work/table"
    "$resources" "$archs" "$work/table" "$planted" | grep -E '# .*good_kernel'
}
log=$(changed 4 0)
is "$log" "" "a kernel that is as its row says is not mentioned"
like "$(changed 5 -1)" "sm_$arch: registers [0-9]+, the table has [0-9]+: worse" "more registers"
like "$(changed 5 1)" "sm_$arch: registers [0-9]+, the table has [0-9]+: better" "fewer registers"
like "$(changed 6 -4)" "sm_$arch: shared 4096, the table has 4092: worse" "more shared memory"
like "$(changed 8 1)" "sm_$arch: blocks [0-9]+, the table has [0-9]+: worse" "fewer blocks on a multiprocessor"
like "$(changed 7 200000)" "sm_$arch: no block of it fits" "more dynamic shared memory than there is"
like "$(changed 7 40000)" "sm_$arch: blocks [0-9]+, the table has [0-9]+: worse" "dynamic shared memory counts for blocks"
like "$(changed 9 1)" "sm_$arch: copies 0, the table has 1: worse" "an instruction that is gone"
like "$(changed 4 1)" "sm_$arch: threads 256, the table has 257: worse" "other launch bounds"

grep -v "good_kernel *$arch " "$work/made" >"$work/table"
log=$("$resources" "$archs" "$work/table" "$planted")
like "$log" "good_kernel, sm_$arch: the table has no such row" "a kernel without a row"
sed "s/^planted  *good_kernel /planted former_kernel /" "$work/made" >"$work/table"
log=$("$resources" "$archs" "$work/table" "$planted")
like "$log" "former_kernel, sm_$arch: a row without a kernel" "a row without a kernel"
like "$log" "not ok [0-9]+ - every row has its kernel" "and that is a failure"
sed 's/^# nvcc .*/# nvcc 1.0/' "$work/made" >"$work/table"
log=$("$resources" "$archs" "$work/table" "$planted")
like "$log" "# SKIP the table is of nvcc 1.0" "a table of another nvcc is no measure"
log=$("$resources" "$archs 75" "$work/made" "$planted")
like "$log" "Bail out! .*no machine code for sm_75" "an object without code for a card that was asked for"

# Updating keeps the table's first lines and what was written by hand.
{ echo "# first line"; awk '$2 ~ /^tensor/ { $7 = 512 } { print }' "$work/made"; } >"$work/table"
log=$("$resources" --update "$archs" "$work/table" "$planted")
unlike "$log" "tensor_kernel" "dynamic shared memory that is in the table"
like "$(cat "$work/table")" "^# first line
# nvcc " "an update keeps the first lines"
like "$(cat "$work/table")" "tensor_kernel<64,1> +$arch +32 +[0-9]+ +0 +512 " "and dynamic shared memory"
done_testing
