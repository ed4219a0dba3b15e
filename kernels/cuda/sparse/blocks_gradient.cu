/* SPDX-License-Identifier: BSD-3-Clause */
/* dw = dy^T x at the square blocks of a pattern: a dense product of a block's rows of dy and columns of x.
 *
 * A block of threads makes a block of w for one part of the tokens, each thread 4 x 4 or 8 x 8 weights in registers. DEPTH
 * tokens of dy and x come into shared memory at a time, two such slices in turn (9 to 33 KiB), by asynchronous copies: of
 * 16 bytes from rows where addresses allow it.
 *
 * Order of sums: a part's tokens in order, one product after the other in one register.
 */
#include "kernels/cuda/sparse/sparse_tile.h"

#define DEPTH 16 /* tokens of a slice */

/* What follows from B, the rows and columns of a block. */
template <int B> struct gradient_shape {
    static constexpr int PER = B == 128 ? 8 : 4; /* weights of a thread in each direction: ... */
    static constexpr int GROUPS = PER / 4;       /* ... groups of 4 neighbours, ... */
    static constexpr int APART = B / GROUPS;     /* ... so far apart */
    static constexpr int ACROSS = B / PER;       /* threads beside each other */
    static constexpr int THREADS = ACROSS * ACROSS;
    static constexpr int LD = B + 4;             /* rows of 16 bytes stay whole, fewer threads meet in a bank */
    static constexpr int SLICE = DEPTH * LD;
};

/* DEPTH tokens from token0 on of B channels from `first` on begin to arrive in to[token][channel]; tokens that are not there
 * become 0. */
template <int B>
static __device__ __forceinline__ void fetch(float *to, const struct dp_tokens &x, int64_t token0, int64_t first)
{
    constexpr int THREADS = gradient_shape<B>::THREADS, LD = gradient_shape<B>::LD;
    const float *from = x.p + dp_token_at(x.tiles, x.c, token0, first);
    const int tokens = x.n - token0 < DEPTH ? (int)(x.n - token0) : DEPTH;

    if (x.tiles) {
        DP_NO_UNROLL
        for (int i = 0; i < DEPTH * B / THREADS; i++) {
            const int e = i * THREADS + (int)threadIdx.x, channel = e / DEPTH, token = e % DEPTH;
            const bool there = token < tokens;

            dp_copy4(to + token * LD + channel, from + (there ? channel * DP_TILE + token : 0), there);
        }
    } else if (x.wide) {
        DP_NO_UNROLL
        for (int i = 0; i < DEPTH * B / 4 / THREADS; i++) {
            const int e = i * THREADS + (int)threadIdx.x, channel = e % (B / 4) * 4, token = e / (B / 4);
            const bool there = token < tokens;

            dp_copy16(to + token * LD + channel, from + (there ? token * x.c + channel : 0), there);
        }
    } else {
        DP_NO_UNROLL
        for (int i = 0; i < DEPTH * B / THREADS; i++) {
            const int e = i * THREADS + (int)threadIdx.x, channel = e % B, token = e / B;
            const bool there = token < tokens;

            dp_copy4(to + token * LD + channel, from + (there ? token * x.c + channel : 0), there);
        }
    }
}

/* by_column tells a block's row and number, by_row its column and place. part NULL: into dw. */
template <int B>
static __global__ void __launch_bounds__(gradient_shape<B>::THREADS, B == 128 ? 2 : 4)
    gradient_kernel(struct dp_tokens dy, struct dp_tokens x, struct dp_cuda_walk by_row, struct dp_cuda_walk by_column,
                    int64_t nnz, int64_t part_n, float *dw, float *part, bool add)
{
    using S = gradient_shape<B>;
    DP_SHARED(float, shared, [4 * S::SLICE]);
    const int tx = (int)threadIdx.x % S::ACROSS, ty = (int)threadIdx.x / S::ACROSS;
    const int64_t row = by_column.index[blockIdx.x], place = by_column.place[blockIdx.x], column = by_row.index[place];
    const int64_t begin = by_row.cut[row], m = by_row.cut[by_row.groups + row] - begin;
    const int64_t token0 = (int64_t)blockIdx.y * part_n, token1 = token0 + part_n < x.n ? token0 + part_n : x.n;
    float *const out = (part ? part + blockIdx.y * nnz : dw) + begin * B * B + (place - begin) * 4 * B;
    float sum[S::PER][S::PER];
    int turn = 0;

    DP_UNROLL
    for (int i = 0; i < S::PER; i++)
        DP_UNROLL
        for (int j = 0; j < S::PER; j++)
            sum[i][j] = 0.0f;
    if (token0 < token1) {
        fetch<B>(shared, dy, token0, row * B);
        fetch<B>(shared + S::SLICE, x, token0, column * B);
    }
    dp_copies_commit();
    for (int64_t token = token0; token < token1; token += DEPTH, turn ^= 1) {
        const float *as = shared + turn * 2 * S::SLICE, *bs = as + S::SLICE;

        dp_copies_wait<0>();
        __syncthreads(); /* all have what came, and none reads the other two slices any more */
        if (token + DEPTH < token1) {
            fetch<B>(shared + (turn ^ 1) * 2 * S::SLICE, dy, token + DEPTH, row * B);
            fetch<B>(shared + (turn ^ 1) * 2 * S::SLICE + S::SLICE, x, token + DEPTH, column * B);
        }
        dp_copies_commit();
        DP_UNROLL
        for (int k = 0; k < DEPTH; k++) {
            float4 a[S::GROUPS], b[S::GROUPS];

            DP_UNROLL
            for (int g = 0; g < S::GROUPS; g++) {
                a[g] = *reinterpret_cast<const float4 *>(as + k * S::LD + g * S::APART + 4 * ty);
                b[g] = *reinterpret_cast<const float4 *>(bs + k * S::LD + g * S::APART + 4 * tx);
            }
            DP_UNROLL
            for (int i = 0; i < S::PER; i++) {
                const float ai = i % 4 == 0 ? a[i / 4].x : i % 4 == 1 ? a[i / 4].y : i % 4 == 2 ? a[i / 4].z : a[i / 4].w;

                DP_UNROLL
                for (int g = 0; g < S::GROUPS; g++) {
                    sum[i][4 * g] += ai * b[g].x;
                    sum[i][4 * g + 1] += ai * b[g].y;
                    sum[i][4 * g + 2] += ai * b[g].z;
                    sum[i][4 * g + 3] += ai * b[g].w;
                }
            }
        }
    }
    DP_UNROLL
    for (int i = 0; i < S::PER; i++) /* row i / 4 * APART + 4 ty + i % 4 of the block, columns likewise */
        DP_UNROLL
        for (int j = 0; j < S::PER; j++) {
            const int64_t strip = (i / 4 * S::APART + 4 * ty) / 4, c = j / 4 * S::APART + 4 * tx + j % 4;
            float *const to = out + strip * 4 * B * m + 4 * c + i % 4;

            *to = add && !part ? *to + sum[i][j] : sum[i][j];
        }
}

template <int B> static int launch(struct dp_cuda *cu, const struct dp_cuda_sparse_gradient *g, struct dp_err *err)
{
    const struct dp_cuda_plan *plan = g->plan;
    const dim3 grid(dp_blocks(plan->nnz, B * B), (unsigned)g->parts);

    return DP_LAUNCH(cu, err, (gradient_kernel<B>), grid, gradient_shape<B>::THREADS, 0,
                     dp_tokens_of(g->dy, g->n, plan->rows, g->dy_format), dp_tokens_of(g->x, g->n, plan->cols, g->x_format),
                     plan->by_row, plan->by_column, plan->nnz, g->part_n, g->dw, g->part, g->add);
}

int dp_cuda_block_gradient(struct dp_cuda *cu, const struct dp_cuda_sparse_gradient *g, struct dp_err *err)
{
    switch (g->plan->block) {
    case 32:
        return launch<32>(cu, g, err);
    case 64:
        return launch<64>(cu, g, err);
    default:
        return launch<128>(cu, g, err);
    }
}

int64_t dp_cuda_block_gradient_blocks(const struct dp_cuda_plan *plan)
{
    return dp_blocks(plan->nnz, plan->block * plan->block);
}
