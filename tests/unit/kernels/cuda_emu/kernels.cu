/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of test_cuda_emu. */
#include "tests/unit/kernels/cuda_emu/kernels.h"

#include "kernels/cuda/cu.h"

static __global__ void __launch_bounds__(32) warp_kernel(uint32_t *out)
{
    const unsigned me = threadIdx.x;
    const int v = 100 + (int)me;
    const unsigned half = me < 16 ? 0xffffu : 0xffff0000u;

    out[EMU_IDX * 32 + me] = (uint32_t)__shfl_sync(DP_ALL_THREADS, v, 5);
    out[EMU_UP * 32 + me] = (uint32_t)__shfl_up_sync(DP_ALL_THREADS, v, 3);
    out[EMU_DOWN * 32 + me] = (uint32_t)__shfl_down_sync(DP_ALL_THREADS, v, 3);
    out[EMU_XOR * 32 + me] = (uint32_t)__shfl_xor_sync(DP_ALL_THREADS, v, 17);
    out[EMU_IDX_8 * 32 + me] = (uint32_t)__shfl_sync(DP_ALL_THREADS, v, 10, 8);
    out[EMU_UP_8 * 32 + me] = (uint32_t)__shfl_up_sync(DP_ALL_THREADS, v, 3, 8);
    out[EMU_DOWN_8 * 32 + me] = (uint32_t)__shfl_down_sync(DP_ALL_THREADS, v, 3, 8);
    out[EMU_XOR_16 * 32 + me] = (uint32_t)__shfl_xor_sync(DP_ALL_THREADS, v, 20, 16);
    out[EMU_BALLOT * 32 + me] = __ballot_sync(DP_ALL_THREADS, me % 3 == 0);
    out[EMU_ANY * 32 + me] = (uint32_t)__any_sync(DP_ALL_THREADS, me == 31);
    out[EMU_ALL * 32 + me] = (uint32_t)__all_sync(DP_ALL_THREADS, me != 31);
    if (me < 16)
        out[EMU_PARTS * 32 + me] = (uint32_t)__shfl_xor_sync(half, v, 1);
    else
        out[EMU_PARTS * 32 + me] = __ballot_sync(half, me & 1);
    out[EMU_LONG * 32 + me] =
        (uint32_t)(__shfl_sync(DP_ALL_THREADS, (unsigned long long)me << 40 | me, 9) >> 40);
}

int emu_warp(struct dp_backend *be, uint32_t *out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "warp", err);

    return cu ? DP_LAUNCH(cu, err, warp_kernel, 1, 32, 0, out) : -1;
}

/* Element i (0 ... 7) of thread t's a is at (row, column), as the manual's formulas for .bf16 have it. */
static __global__ void __launch_bounds__(32) mma_kernel(float *c, const uint16_t *a, const uint16_t *b)
{
    const int group = (int)threadIdx.x >> 2, in_group = (int)threadIdx.x % 4;
    uint32_t fa[4], fb[2];
    float fc[4];

    for (int i = 0; i < 8; i += 2) {
        const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8, column = in_group * 2 + (i < 4 ? 0 : 8);

        fa[i / 2] = a[row * 16 + column] | (uint32_t)a[row * 16 + column + 1] << 16;
    }
    for (int i = 0; i < 4; i += 2) {
        const int row = in_group * 2 + (i < 2 ? 0 : 8);

        fb[i / 2] = b[row * 8 + group] | (uint32_t)b[(row + 1) * 8 + group] << 16;
    }
    for (int i = 0; i < 4; i++)
        fc[i] = c[(group + (i < 2 ? 0 : 8)) * 8 + in_group * 2 + (i & 1)];
    dp_mma_bf16(fc, fa, fb);
    for (int i = 0; i < 4; i++)
        c[(group + (i < 2 ? 0 : 8)) * 8 + in_group * 2 + (i & 1)] = fc[i];
}

int emu_mma(struct dp_backend *be, float *c, const uint16_t *a, const uint16_t *b, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "mma", err);

    return cu ? DP_LAUNCH(cu, err, mma_kernel, 1, 32, 0, c, a, b) : -1;
}

static __global__ void __launch_bounds__(32) ldmatrix_kernel(uint16_t *out)
{
    DP_SHARED(uint16_t, matrices, [4][8][8]);
    const unsigned me = threadIdx.x;
    uint32_t r[4], t[4];

    for (unsigned c = 0; c < 8; c++)
        matrices[me / 8][me % 8][c] = (uint16_t)(me * 8 + c);
    __syncthreads();
    dp_ldmatrix4(r, matrices[me / 8][me % 8]);
    dp_ldmatrix4_t(t, matrices[me / 8][me % 8]);
    for (unsigned i = 0; i < 4; i++) {
        out[me * 8 + 2 * i] = (uint16_t)r[i];
        out[me * 8 + 2 * i + 1] = (uint16_t)(r[i] >> 16);
        out[256 + me * 8 + 2 * i] = (uint16_t)t[i];
        out[256 + me * 8 + 2 * i + 1] = (uint16_t)(t[i] >> 16);
    }
}

int emu_ldmatrix(struct dp_backend *be, uint16_t *out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "ldmatrix", err);

    return cu ? DP_LAUNCH(cu, err, ldmatrix_kernel, 1, 32, 0, out) : -1;
}

static __global__ void places_kernel(uint32_t *out)
{
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;

    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 100 * threadIdx.z + 10 * threadIdx.y + threadIdx.x;
}

int emu_places(struct dp_backend *be, uint32_t *out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "places", err);

    return cu ? DP_LAUNCH(cu, err, places_kernel, dim3(2, 2, 2), dim3(2, 3, 4), 0, out) : -1;
}

static __global__ void __launch_bounds__(32) copies_kernel(uint32_t *out, const uint32_t *in)
{
    DP_SHARED(uint32_t, words, [128]);
    const int me = (int)threadIdx.x;

    if (me < 16)
        dp_copy16(&words[4 * me], in + 4 * me, me < 8);
    dp_copies_commit();
    for (int i = me; i < 64; i += 32)
        dp_copy4(&words[64 + i], in + i, i % 2 == 0);
    dp_copies_commit();
    dp_copies_wait<1>();
    __syncthreads();
    for (int i = me; i < 64; i += 32)
        out[i] = words[i];
    dp_copies_wait<0>();
    __syncthreads();
    for (int i = 64 + me; i < 128; i += 32)
        out[i] = words[i];
}

int emu_copies(struct dp_backend *be, uint32_t *out, const uint32_t *in, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "copies", err);

    return cu ? DP_LAUNCH(cu, err, copies_kernel, 1, 32, 0, out, in) : -1;
}

static __global__ void __launch_bounds__(64) atomics_kernel(uint32_t *out, int n)
{
    const int i = (int)(blockIdx.x * 64 + threadIdx.x) + 1;

    if (i > n)
        return;
    atomicAdd(&out[0], (uint32_t)i);
    atomicOr(&out[1], (uint32_t)i);
    atomicMax(&out[2], (uint32_t)i);
}

int emu_atomics(struct dp_backend *be, uint32_t *out, int n, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "atomics", err);

    return cu ? DP_LAUNCH(cu, err, atomics_kernel, dp_blocks(n, 64), 64, 0, out, n) : -1;
}

static __global__ void nothing_kernel(int unused)
{
    (void)unused;
}

static __global__ void trap_kernel(int unused)
{
    (void)unused;
    if (threadIdx.x == 3)
        __trap();
}

static __global__ void order_kernel(uint32_t *out)
{
    if (threadIdx.x == 0)
        out[1 + blockIdx.x] = atomicAdd(&out[0], 1u);
}

#ifdef DP_CUDA_EMU /* more than nvcc takes */
static __global__ void greedy_kernel(uint32_t *out)
{
    DP_SHARED(uint32_t, words, [16384]);

    words[threadIdx.x] = 1;
    out[0] = words[threadIdx.x];
}
#endif

static __global__ void dynamic_kernel(uint32_t *out, size_t words)
{
    DP_SHARED_DYNAMIC(uint32_t, all);

    for (size_t i = threadIdx.x; i < words; i += blockDim.x)
        all[i] = (uint32_t)i;
    __syncthreads();
    if (threadIdx.x == 0)
        out[blockIdx.x] = all[words - 1];
}

int emu_launch(struct dp_backend *be, int what, unsigned gx, unsigned gy, unsigned bx, unsigned bz, size_t shared,
               uint32_t *out, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "launch", err);
    const dim3 grid(gx, gy), block(bx, 1, bz);

    if (!cu)
        return -1;
    switch (what) {
    case 0:
        return DP_LAUNCH(cu, err, nothing_kernel, grid, block, shared, 0);
    case 1:
        return DP_LAUNCH(cu, err, trap_kernel, grid, block, shared, 0);
    case 2:
        return DP_LAUNCH(cu, err, order_kernel, grid, block, shared, out);
#ifdef DP_CUDA_EMU
    case 3:
        return DP_LAUNCH(cu, err, greedy_kernel, grid, block, shared, out);
#endif
    default:
        return DP_LAUNCH(cu, err, dynamic_kernel, grid, block, shared, out, shared / sizeof *out);
    }
}
