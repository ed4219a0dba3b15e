# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Trainings: what several tests of the worker need, with and without a Slurm. Sourced behind tests/lib/tap.sh.
# shellcheck source=tests/lib/cores.sh
. "$DP_SRCDIR/tests/lib/cores.sh"

# Several workers without a Slurm: sets worker, mpirun and dir, a folder that goes with the test.
begin_mpirun() {
    worker=$DP_BUILDDIR/worker/dynpipe-worker
    mpirun=$(command -v mpirun) || skip_all "mpirun is missing (Debian: openmpi-bin)"
    dir=$(mktemp -d "${TMPDIR:-/tmp}/dpe2eXXXXXX") || bail "no temporary folder"
    trap 'case $BASHPID in $$) rm -rf "$dir" ;; esac' EXIT
    take_core
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$dir
    unset DYNPIPE_SOCKET
    # Under the address sanitizer: PMIx keeps 5 bytes.
    echo "leak:libpmix" >"$dir/lsan"
    export LSAN_OPTIONS=suppressions=$dir/lsan:print_suppressions=0
    # Under the thread sanitizer: UCX patches madvise(), which glibc calls when a thread ends, and its lock
    # then finds no thread of the sanitizer's (a crash inside libtsan).
    if ldd "$worker" | grep -q libtsan; then export UCX_MEM_EVENTS=n; fi
}

# After begin_mpirun, of $dir/gpt.conf. Tests that start workers in another way have a train() of their own.
# train N LOG [section.key=value ...]: N workers; what they print goes to LOG.out
train() {
    local n=$1 log=$2
    shift 2
    if [ "$n" = 1 ]; then
        timeout -k 1 300 "$worker" "$dir/gpt.conf" output.log="$dir/$log" "$@" >"$dir/$log.out" 2>&1
    else
        timeout -k 1 300 "$mpirun" --oversubscribe --bind-to none -n "$n" \
            "$worker" "$dir/gpt.conf" output.log="$dir/$log" "$@" >"$dir/$log.out" 2>&1
    fi
}

# What backend = "cuda" computes on: the emulator (doc/cuda.md), or the machine's card where DP_CARD says so. The card hears nothing
# of DYNPIPE_EMU: no faults, no orders but its own.
choose_cuda() {
    if [ -n "${DP_CARD:-}" ]; then
        export DYNPIPE_CUDA_PLUGIN=$DP_BUILDDIR/kernels/cuda/libdynpipe-cuda.so
        [ -e "$DYNPIPE_CUDA_PLUGIN" ] || skip_all "the plugin is not built (./configure --with-cuda)"
    else
        export DYNPIPE_CUDA_PLUGIN=$DP_BUILDDIR/kernels/cuda/emu/libdynpipe-cuda-emu.so
        [ -e "$DYNPIPE_CUDA_PLUGIN" ] || skip_all "the emulator is not built"
    fi
}

# LOG: step, loss, gradient norm and sparsity of every step, and the evaluations, every digit.
all_losses() {
    sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*"sparsity":\([^,]*\),.*/\1 step \2 \3 \4/p
        s/^{"event":"eval","step":\([0-9]*\),"value":\([^,]*\),.*/\1 eval \2/p' "$1" 2>/dev/null
}

# Dense or sparse is part of the bits, and each device measures for itself what pays there: where all are told, nothing is
# measured. FILE CROSSOVER N "BLOCK ..." "C_OUT,C_IN ...": matrices of these shapes are sparse from that sparsity on, for
# products with N tokens.
write_tune() {
    local block shape entries=
    for block in $4; do
        for shape in $5; do
            entries="$entries${entries:+, }{\"c_out\": ${shape%,*}, \"c_in\": ${shape#*,}, \"n\": $3, \"crossover\": $2, \"block\": \"$block\"}"
        done
    done
    echo "{\"format\": \"dynpipe-tune\", \"version\": 3, \"entries\": [$entries]}" >"$1"
}
