/* SPDX-License-Identifier: BSD-3-Clause */
/* Products with a matrix of square blocks, 32, 64 or 128: y = x w^T, walked by rows of blocks, and dx = dy w, walked by
 * columns.
 *
 * A block of threads makes the outputs of a row (or column) of blocks for the tokens of a tile, each thread 4 tokens by 4 or
 * 8 outputs in registers. Blocks of w that are there are passed in slices of DEPTH channels, with the slice of x that
 * belongs to them: k is the slow index of both in shared memory, two of each in turn (13 to 25 KiB). While one is
 * multiplied, the next one arrives by asynchronous copies, of 16 bytes where addresses allow it and nothing is turned.
 *
 * Order of sums: blocks as they follow each other, and their channels, one product after the other in one register.
 *
 * For tensor cores multiply_slice() is what changes, and what fetch_weights() reads: a copy in bfloat16 that sparse_refresh
 * makes. The walk, the two slices and the way out stay.
 */
#include "kernels/cuda/sparse/sparse_tile.h"

#define DEPTH 16 /* channels of a slice, half of the smallest block */
#define HALF (DP_TILE / 2) /* tokens that pass through shared memory at a time on their way out */

/* What follows from B, the rows and columns of a block. */
template <int B> struct product_shape {
    static constexpr int PER = B == 128 ? 8 : 4;    /* outputs of a thread: ... */
    static constexpr int GROUPS = PER / 4;          /* ... groups of 4 neighbours, ... */
    static constexpr int APART = B / GROUPS;        /* ... so far apart */
    static constexpr int ACROSS = B / PER;          /* threads beside each other */
    static constexpr int THREADS = ACROSS * DP_TILE / 4;
    static constexpr int LD = B + 4;                /* rows of 16 bytes stay whole, fewer threads meet in a bank */
    static constexpr int SLICE = DEPTH * (DP_TILE_LD + LD);
};

/* Where a block of w lies: its row of blocks has m, it is the k-th of them. */
struct block {
    const float *row; /* the row's first weight */
    int64_t m, k;
};

/* DEPTH channels from `first` on of a block of w begin to arrive in to[channel][output]. BY_COLUMN: channels are rows of the
 * block, and outputs columns; 16 bytes are four rows of a column (struct dp_sparse), so they are taken apart. */
template <int B, bool BY_COLUMN>
static __device__ __forceinline__ void fetch_weights(float *to, const struct block &w, int first, bool wide)
{
    constexpr int THREADS = product_shape<B>::THREADS, LD = product_shape<B>::LD;
    const float *from = w.row + w.k * 4 * B;
    const int64_t strip = 4 * B * w.m; /* from four rows to the next four */

    if (BY_COLUMN) {
        from += first / 4 * strip;
        DP_NO_UNROLL
        for (int i = 0; i < DEPTH * B / THREADS; i++) {
            const int e = i * THREADS + (int)threadIdx.x, rows = e / (4 * B), in_strip = e % (4 * B);

            dp_copy4(to + (4 * rows + in_strip % 4) * LD + in_strip / 4, from + rows * strip + in_strip, true);
        }
        return;
    }
    from += 4 * first;
    if (wide) {
        DP_NO_UNROLL
        for (int i = 0; i < DEPTH * B / 4 / THREADS; i++) {
            const int e = i * THREADS + (int)threadIdx.x, channel = e % DEPTH, rows = e / DEPTH;

            dp_copy16(to + channel * LD + 4 * rows, from + rows * strip + 4 * channel, true);
        }
    } else {
        DP_NO_UNROLL
        for (int i = 0; i < DEPTH * B / THREADS; i++) {
            const int e = i * THREADS + (int)threadIdx.x, in_strip = e % (4 * DEPTH), rows = e / (4 * DEPTH);

            dp_copy4(to + in_strip / 4 * LD + 4 * rows + in_strip % 4, from + rows * strip + in_strip, true);
        }
    }
}

/* sum[token][output] += the products of a slice: xs[channel][token], ws[channel][output]. */
template <int B>
static __device__ __forceinline__ void multiply_slice(float sum[4][product_shape<B>::PER], const float *xs, const float *ws)
{
    using S = product_shape<B>;
    const int tx = (int)threadIdx.x % S::ACROSS, ty = (int)threadIdx.x / S::ACROSS;

    DP_UNROLL
    for (int k = 0; k < DEPTH; k++) {
        const float4 x = *reinterpret_cast<const float4 *>(xs + k * DP_TILE_LD + 4 * ty);

        DP_UNROLL
        for (int g = 0; g < S::GROUPS; g++) {
            const float4 w = *reinterpret_cast<const float4 *>(ws + k * S::LD + g * S::APART + 4 * tx);

            DP_UNROLL
            for (int i = 0; i < 4; i++) {
                const float xi = i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;

                sum[i][4 * g] += xi * w.x;
                sum[i][4 * g + 1] += xi * w.y;
                sum[i][4 * g + 2] += xi * w.z;
                sum[i][4 * g + 3] += xi * w.w;
            }
        }
    }
}

/* by_row: the walk by rows of blocks, which tells where blocks lie; walk: that of the product. */
template <int B, bool BY_COLUMN>
static __global__ void __launch_bounds__(product_shape<B>::THREADS, B == 32 ? 5 : 3)
    block_kernel(struct dp_tokens x, struct dp_cuda_walk walk, struct dp_cuda_walk by_row, const float *w, bool w_wide,
                 int64_t c_out, bool y_tiles, struct dp_finish f)
{
    using S = product_shape<B>;
    constexpr int STEPS = B / DEPTH; /* slices of a block */
    DP_SHARED(float, shared, [2 * S::SLICE]);
    const int tx = (int)threadIdx.x % S::ACROSS, ty = (int)threadIdx.x / S::ACROSS;
    const int64_t token0 = (int64_t)blockIdx.x * DP_TILE, group = blockIdx.y;
    const uint32_t first = walk.cut[group];
    const int64_t steps = (int64_t)(walk.cut[walk.groups + group] - first) * STEPS;
    float sum[4][S::PER];

    DP_UNROLL
    for (int i = 0; i < 4; i++)
        DP_UNROLL
        for (int j = 0; j < S::PER; j++)
            sum[i][j] = 0.0f;
    /* step -1 only fetches */
    for (int64_t step = -1; step < steps; step++) {
        const float *slice = shared + (step & 1) * S::SLICE;

        dp_copies_wait<0>();
        __syncthreads(); /* all have what came, and none reads the other slice any more */
        if (step + 1 < steps) {
            const uint32_t e = first + (uint32_t)((step + 1) / STEPS);
            const int channel = (int)((step + 1) % STEPS) * DEPTH, unit = walk.index[e];
            const int64_t row = BY_COLUMN ? unit : group, place = BY_COLUMN ? walk.place[e] : e;
            const int64_t begin = by_row.cut[row], end = by_row.cut[by_row.groups + row];
            const struct block block = {w + begin * B * B, end - begin, place - begin};
            float *next = shared + ((step + 1) & 1) * S::SLICE;

            dp_fetch_channels<S::THREADS, DEPTH>(next, x, token0, (int64_t)unit * B + channel);
            fetch_weights<B, BY_COLUMN>(next + DEPTH * DP_TILE_LD, block, channel, w_wide);
        }
        dp_copies_commit();
        if (step >= 0)
            multiply_slice<B>(sum, slice, slice + DEPTH * DP_TILE_LD);
    }
    DP_NO_UNROLL
    for (int half = 0; half < 2; half++) {
        __syncthreads(); /* nobody reads slices, or the half before, any more */
        if (ty / (HALF / 4) == half)
            DP_UNROLL
            for (int i = 0; i < 4; i++)
                DP_UNROLL
                for (int g = 0; g < S::GROUPS; g++)
                    *reinterpret_cast<float4 *>(shared + (4 * ty % HALF + i) * S::LD + g * S::APART + 4 * tx) =
                        make_float4(sum[i][4 * g], sum[i][4 * g + 1], sum[i][4 * g + 2], sum[i][4 * g + 3]);
        __syncthreads();
        dp_finish_tile<S::THREADS, HALF, B>(f, shared, S::LD, 1, y_tiles, x.n, c_out, token0 + half * HALF, group * B);
    }
}

template <int B> static int launch(struct dp_cuda *cu, const struct dp_cuda_sparse_product *p, struct dp_err *err)
{
    const struct dp_cuda_plan *plan = p->plan;
    const struct dp_finish f = {p->y, p->gelu, p->bias, p->residual, p->gelu_x, false};
    const bool wide = reinterpret_cast<uintptr_t>(p->w) % 16 == 0, tiles = p->y_format == DP_TILES;
    const dim3 grid(dp_blocks(p->n, DP_TILE), dp_blocks(p->by_column ? plan->cols : plan->rows, B));

    if (p->by_column)
        return DP_LAUNCH(cu, err, (block_kernel<B, true>), grid, product_shape<B>::THREADS, 0,
                         dp_tokens_of(p->x, p->n, plan->rows, p->x_format), plan->by_column, plan->by_row, p->w, wide,
                         plan->cols, tiles, f);
    return DP_LAUNCH(cu, err, (block_kernel<B, false>), grid, product_shape<B>::THREADS, 0,
                     dp_tokens_of(p->x, p->n, plan->cols, p->x_format), plan->by_row, plan->by_row, p->w, wide, plan->rows,
                     tiles, f);
}

int dp_cuda_block_product(struct dp_cuda *cu, const struct dp_cuda_sparse_product *p, struct dp_err *err)
{
    switch (p->plan->block) {
    case 32:
        return launch<32>(cu, p, err);
    case 64:
        return launch<64>(cu, p, err);
    default:
        return launch<128>(cu, p, err);
    }
}
