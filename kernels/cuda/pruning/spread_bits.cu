/* SPDX-License-Identifier: BSD-3-Clause */
/* A block's bit for each of its weights: a thread per word of 64 weights. */
#include "kernels/cuda/cu.h"

#define THREADS 128 /* of a block */

static __global__ void __launch_bounds__(THREADS)
    spread_kernel(int64_t n, int64_t cols, int64_t block, int64_t width, uint64_t *keep, const uint64_t *bits)
{
    const int64_t word = (int64_t)blockIdx.x * THREADS + threadIdx.x, first = word * 64;
    const int there = n - first < 64 ? (int)(n - first) : 64;
    int64_t row = first / cols, col = first % cols;
    uint64_t out = 0;

    if (first >= n)
        return;
    for (int i = 0; i < there; i++) {
        const int64_t b = row / block * (cols / width) + col / width;

        out |= (bits[b / 64] >> (b % 64) & 1) << i;
        if (++col == cols) {
            col = 0;
            row++;
        }
    }
    keep[word] = out;
}

int dp_cuda_spread_bits(struct dp_backend *be, const struct dp_spread_bits *a, struct dp_err *err)
{
    struct dp_cuda *cu = dp_cuda_begin(be, "spread_bits", err);
    const int64_t block = a->block_rows > 1 ? a->block_rows : 1, width = dp_block_cols(block);

    if (!cu)
        return -1;
    if (a->rows < 0 || a->cols < 0 || a->rows % block || a->cols % width)
        return dp_cuda_refuse(cu, err, "(%lld, %lld) in blocks of %lld rows", (long long)a->rows, (long long)a->cols,
                              (long long)block);
    return DP_LAUNCH(cu, err, spread_kernel, dp_blocks((a->rows * a->cols + 63) / 64, THREADS), THREADS, 0,
                     a->rows * a->cols, a->cols, block, width, a->keep, a->bits);
}
