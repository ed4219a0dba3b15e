#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kernels' tests of a build under valgrind: reads and writes outside of what was allocated, numbers that
# nobody wrote, memory that is lost.
#
#   valgrind.sh BUILD
#
# valgrind knows no AVX-512 and hides it, so the versions avx2 and plain run. oneDNN's own code for AVX2 reads
# behind its buffers; DNNL_MAX_CPU_ISA makes it take code that does not. Tests leave out their longest cases
# (DP_VALGRIND; tests/unit/kernels/kernels_util.h), and functions in registers alone (test_kernels_math) are not worth it.
# Ends with 1 where a test or valgrind found an error; prints what.
set -u
build=${1:?usage: valgrind.sh BUILD}
tests="linear attention head layernorm ops backend autotune gradients"
logs=$(mktemp -d) || exit 1
trap 'case $BASHPID in $$) rm -rf "$logs" ;; esac' EXIT

run() {
    DP_VALGRIND=1 DNNL_MAX_CPU_ISA=SSE41 CMOCKA_MESSAGE_OUTPUT=TAP OMP_WAIT_POLICY=passive \
        valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
        "$build/tests/unit/kernels/test_kernels_$1" >"$logs/$1" 2>&1
    echo "$?" >"$logs/$1.rc"
}
export -f run
export build logs

# shellcheck disable=SC2086 # several tests
printf '%s\n' $tests | xargs -P "$(nproc)" -I{} bash -c 'run {}'
bad=0
for t in $tests; do
    rc=$(cat "$logs/$t.rc" 2>/dev/null || echo 1)
    if [ "$rc" = 0 ] && grep -q '^ok' "$logs/$t"; then
        echo "ok test_kernels_$t"
        continue
    fi
    echo "not ok test_kernels_$t (status $rc)"
    grep -E '^(==|not ok|#)' "$logs/$t" | head -n 60
    bad=1
done
exit $bad
