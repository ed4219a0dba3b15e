/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms of blocks, and which of them are left. Squares of floats are exact in double, so whether a product and a sum are
 * fused makes no difference. Narrow blocks are a thread's; of a square one each thread has a column, and the columns are
 * added in a tree (1 KiB of shared memory). Bits: a thread per narrow block, a warp per square one. */
#include "kernels/cuda/sparse/sparse_plan.h"

#include "kernels/cuda/cu.h"
#include "kernels/cuda/record.h"

#define THREADS 128 /* of a block */
#define MOST 128 /* columns of a block, a thread each */

/* n blocks of one column; row_step: from a weight of a block to the next one. */
static __global__ void __launch_bounds__(THREADS)
    narrow_kernel(int64_t n, int64_t block, int64_t cols, bool is_sparse, const float *w, float *norm)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, step = is_sparse ? 1 : cols;
    double sum = 0.0;

    if (i >= n)
        return;
    w += is_sparse ? i * block : i / cols * block * cols + i % cols;
    for (int64_t r = 0; r < block; r++)
        sum += (double)w[r * step] * (double)w[r * step];
    norm[i] = (float)sqrt(sum);
}

/* Block blockIdx.x; in the order of columns where the matrix is sparse, as its row is known there. */
static __global__ void __launch_bounds__(MOST)
    square_kernel(int64_t block, int64_t cols, struct dp_cuda_walk by_row, struct dp_cuda_walk by_column, const float *w,
                  float *norm)
{
    DP_SHARED(double, tree, [MOST]);
    const int thread = (int)threadIdx.x;
    const int64_t per_row = cols / block;
    int64_t number = blockIdx.x, strip = 4 * cols, across = 1, down = cols; /* from four rows to the next; column; row */
    double sum = 0.0;

    if (by_row.cut) {
        const int64_t row = by_column.index[blockIdx.x], begin = by_row.cut[row];

        number = by_column.place[blockIdx.x];
        w += begin * block * block + (number - begin) * 4 * block;
        strip = 4 * block * ((int64_t)by_row.cut[by_row.groups + row] - begin);
        across = 4, down = 1;
    } else {
        w += number / per_row * block * cols + number % per_row * block;
    }
    for (int64_t r = 0; r < block; r++) {
        const float x = w[r / 4 * strip + r % 4 * down + thread * across];

        sum += (double)x * (double)x;
    }
    tree[thread] = sum;
    for (int half = (int)block / 2; half; half /= 2) {
        __syncthreads();
        if (thread < half)
            tree[thread] += tree[thread + half];
    }
    if (thread == 0)
        norm[number] = (float)sqrt(tree[0]);
}

/* left: two halves of each word, written whole, zeroes behind the last block. */
static __global__ void __launch_bounds__(THREADS)
    narrow_left_kernel(int64_t n, int64_t block, int64_t cols, const uint64_t *keep, uint32_t *left,
                       unsigned long long *mixed)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    bool all = i < n, any = false;
    uint32_t bits, some;

    for (int64_t r = 0; i < n && r < block; r++) {
        const int64_t at = (i / cols * block + r) * cols + i % cols;
        const bool kept = keep[at / 64] >> (at % 64) & 1;

        all = all && kept;
        any = any || kept;
    }
    bits = __ballot_sync(DP_ALL_THREADS, all);
    some = __ballot_sync(DP_ALL_THREADS, any);
    if (threadIdx.x % 32 || i / 64 * 64 >= n)
        return;
    left[i / 32] = bits;
    if (some ^ bits)
        atomicAdd(mixed, (unsigned long long)__popc(some ^ bits));
}

/* left was all 0. keep in halves of words, of which rows of a block have whole ones. */
static __global__ void __launch_bounds__(THREADS)
    square_left_kernel(int64_t n, int64_t block, int64_t cols, const uint32_t *keep, unsigned int *left,
                       unsigned long long *mixed)
{
    const int64_t i = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, per_row = cols / block;
    const int lane = (int)threadIdx.x % 32;
    bool all = true, any = false;

    if (i >= n)
        return;
    for (int64_t e = lane; e < block * (block / 32); e += 32) {
        const int64_t row = i / per_row * block + e / (block / 32), col = i % per_row * block + e % (block / 32) * 32;
        const uint32_t bits = keep[(row * cols + col) / 32];

        all = all && bits == 0xffffffffu;
        any = any || bits;
    }
    all = __all_sync(DP_ALL_THREADS, all);
    any = __any_sync(DP_ALL_THREADS, any);
    if (lane)
        return;
    if (all)
        atomicOr(&left[i / 32], 1u << (i % 32));
    else if (any)
        atomicAdd(mixed, 1ull);
}

static int find_left(struct dp_cuda *cu, const struct dp_block_norms *a, int64_t n, int64_t width, struct dp_err *err)
{
    unsigned long long *mixed = reinterpret_cast<unsigned long long *>(a->mixed);
    uint32_t *left = reinterpret_cast<uint32_t *>(a->left);
    const size_t bytes = (size_t)((n + 63) / 64) * sizeof *a->left;

    if (width == 1)
        return DP_LAUNCH(cu, err, narrow_left_kernel, dp_blocks((n + 63) / 64 * 64, THREADS), THREADS, 0, n, a->block_rows,
                         a->cols, a->keep, left, mixed);
    if (bytes && dp_cuda_tell_zero(cu, a->left, bytes, err) < 0)
        return -1;
    return DP_LAUNCH(cu, err, square_left_kernel, dp_blocks(n, THREADS / 32), THREADS, 0, n, a->block_rows, a->cols,
                     reinterpret_cast<const uint32_t *>(a->keep), left, mixed);
}

int dp_cuda_block_norms(struct dp_backend *be, const struct dp_block_norms *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "block_norms", err);
    const int64_t block = a->block_rows, width = dp_block_cols(block);
    const struct dp_cuda_plan *plan = nullptr;
    struct dp_cuda_walk by_row = {}, by_column = {};
    int64_t n;

    if (!cu)
        return -1;
    if (block < 1 || block > MOST || (width > 1 && block % 32) || a->rows < 0 || a->cols < 0 || a->rows % block || a->cols % width ||
        (a->sparse && (dp_sparse_block(a->sparse) != block || a->keep)))
        return dp_cuda_refuse(cu, err, "matrix (%lld, %lld), blocks of %lld rows", (long long)a->rows, (long long)a->cols,
                              (long long)block);
    if (a->sparse) {
        plan = dp_cuda_plan_of(cu, a->sparse, a->rows, a->cols, err);
        if (!plan)
            return -1;
        by_row = plan->by_row, by_column = plan->by_column;
    }
    n = plan ? plan->nnz / (block * width) : a->rows * a->cols / (block * width);
    if (width == 1) {
        if (DP_LAUNCH(cu, err, narrow_kernel, dp_blocks(n, THREADS), THREADS, 0, n, block, a->cols, plan != nullptr, a->w,
                      a->norm) < 0)
            return -1;
    } else if (DP_LAUNCH(cu, err, square_kernel, dp_blocks(n, 1), dim3((unsigned)block), 0, block, a->cols, by_row,
                         by_column, a->w, a->norm) < 0) {
        return -1;
    }
    return a->keep ? find_left(cu, a, n, width, err) : 0;
}
