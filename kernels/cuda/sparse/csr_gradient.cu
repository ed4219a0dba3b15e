/* SPDX-License-Identifier: BSD-3-Clause */
/* dw = dy^T x at the entries of a pattern of single weights or of blocks of 4 x 1.
 *
 * A block of threads makes the entries of a tile of the matrix, ROWS x COLUMNS, for one part of the tokens. DEPTH tokens of
 * the tile's rows of dy and columns of x come into shared memory at a time, two such slices in turn (36 KiB), by
 * asynchronous copies. An entry is one thread's, which keeps its sums in registers; thread t has entries t, t + THREADS and
 * so on of the tile, EACH at most, and where a tile has more, the tokens come by again. Neighbours are mostly of the same
 * row, so that they read the same dy.
 *
 * Order of sums: a part's tokens in order, one product after the other in one register.
 */
#include "kernels/cuda/sparse/sparse_tile.h"

#define THREADS 256 /* of a block */
#define ROWS 128 /* of a tile: what shared memory holds beside ... */
#define SLICES 4 /* ... so many slices of columns */
#define COLUMNS (SLICES * DP_CUDA_SLICE)
#define DEPTH 8 /* tokens of a slice */
#define LD (DEPTH + 4) /* floats from a channel to the next one: 8 neighbours begin in all 8 groups of 4 banks */
#define SLICE ((ROWS + COLUMNS) * LD)
#define MOST_SUMS 16 /* of a thread, in registers ... */
#define MOST_ENTRIES 8 /* ... and entries, each with a register for its place */

/* DEPTH tokens from token0 on of CHANNELS channels from `first` on begin to arrive in to[channel][token]; what is not there
 * becomes 0, but for the padding of tiles, which is 0 in dy. */
template <int CHANNELS>
static __device__ __forceinline__ void fetch(float *to, const struct dp_tokens &x, int64_t token0, int first)
{
    const int channels = (int)x.c - first < CHANNELS ? (int)x.c - first : CHANNELS; /* of at most DP_SPARSE_MAX */

    if (x.tiles) {
        const float *from = x.p + dp_token_at(true, x.c, token0, first);

        if (x.wide) {
            DP_NO_UNROLL
            for (int i = 0; i < CHANNELS * DEPTH / 4 / THREADS; i++) {
                const int e = i * THREADS + (int)threadIdx.x, channel = e / (DEPTH / 4), token = e % (DEPTH / 4) * 4;
                const bool there = channel < channels;

                dp_copy16(to + channel * LD + token, from + (there ? channel * DP_TILE + token : 0), there);
            }
        } else {
            DP_NO_UNROLL
            for (int i = 0; i < CHANNELS * DEPTH / THREADS; i++) {
                const int e = i * THREADS + (int)threadIdx.x, channel = e / DEPTH, token = e % DEPTH;
                const bool there = channel < channels;

                dp_copy4(to + channel * LD + token, from + (there ? channel * DP_TILE + token : 0), there);
            }
        }
        return;
    }
    DP_NO_UNROLL
    for (int i = 0; i < CHANNELS * DEPTH / THREADS; i++) { /* a warp: 4 tokens of 8 channels, in 32 banks */
        const int e = i * THREADS + (int)threadIdx.x;
        const int channel = e / 4 % 8 + e / (8 * DEPTH) * 8, token = e % 4 + e / 32 % (DEPTH / 4) * 4;
        const bool there = channel < channels && token0 + token < x.n;

        dp_copy4(to + channel * LD + token, x.p + (there ? (token0 + token) * x.c + first + channel : 0), there);
    }
}

/* An entry of the tile. */
struct entry {
    uint32_t number; /* in the order of dp_sparse */
    int group;       /* of the tile */
};

/* The e-th one. begin: of the tile's groups, the first entry; end: how many entries there are up to the group's last. */
template <int GROUPS>
static __device__ __forceinline__ struct entry find_entry(uint32_t e, const uint32_t *begin, const uint32_t *end)
{
    int low = 0;

    DP_NO_UNROLL
    for (int half = GROUPS / 2; half; half /= 2)
        if (end[low + half - 1] <= e)
            low += half;
    return {begin[low] + e - (low ? end[low - 1] : 0), low};
}

/* G: rows of a block. part NULL: into dw. */
template <int G>
static __global__ void __launch_bounds__(THREADS, 2)
    gradient_kernel(struct dp_tokens dy, struct dp_tokens x, struct dp_cuda_walk walk, int64_t nnz, int64_t part_n,
                    float *dw, float *part, bool add)
{
    constexpr int GROUPS = ROWS / G, EACH = MOST_SUMS / G < MOST_ENTRIES ? MOST_SUMS / G : MOST_ENTRIES;
    DP_SHARED(float, shared, [2 * SLICE]);
    DP_SHARED(uint32_t, begin, [GROUPS]);
    DP_SHARED(uint32_t, scan, [2][GROUPS]);
    const int thread = (int)threadIdx.x;
    const int group0 = (int)blockIdx.x * GROUPS, slice0 = (int)blockIdx.y * SLICES;
    const int64_t slice1 = slice0 + SLICES < walk.slices ? slice0 + SLICES : walk.slices;
    const int64_t token0 = (int64_t)blockIdx.z * part_n, token1 = token0 + part_n < x.n ? token0 + part_n : x.n;
    const uint32_t *end;
    uint32_t total;
    int turn = 0;

    if (thread < GROUPS) {
        const bool there = group0 + thread < walk.groups;
        const uint32_t first = there ? walk.cut[slice0 * walk.groups + group0 + thread] : 0;

        begin[thread] = first;
        scan[0][thread] = there ? walk.cut[slice1 * walk.groups + group0 + thread] - first : 0;
    }
    for (int back = 1; back < GROUPS; back *= 2, turn ^= 1) {
        __syncthreads();
        if (thread < GROUPS)
            scan[turn ^ 1][thread] = scan[turn][thread] + (thread >= back ? scan[turn][thread - back] : 0);
    }
    __syncthreads();
    end = scan[turn];
    total = end[GROUPS - 1];
    if (part)
        part += blockIdx.z * nnz;
    for (uint32_t pass = 0; pass < total; pass += THREADS * EACH) {
        float sum[EACH][G];
        uint32_t at[EACH]; /* where dy and, times 65536, x lie in a slice; any place for threads that have no entry */

        DP_UNROLL
        for (int j = 0; j < EACH; j++) {
            const uint32_t e = pass + j * THREADS + thread;

            at[j] = 0;
            if (e < total) {
                const struct entry found = find_entry<GROUPS>(e, begin, end);
                const int column = walk.index[found.number] - slice0 * DP_CUDA_SLICE;

                at[j] = (uint32_t)(found.group * G * LD) | (uint32_t)((ROWS + column) * LD) << 16;
            }
            DP_UNROLL
            for (int i = 0; i < G; i++)
                sum[j][i] = 0.0f;
        }
        if (token0 < token1) {
            fetch<ROWS>(shared, dy, token0, group0 * G);
            fetch<COLUMNS>(shared + ROWS * LD, x, token0, slice0 * DP_CUDA_SLICE);
        }
        dp_copies_commit();
        turn = 0;
        for (int64_t token = token0; token < token1; token += DEPTH, turn ^= 1) {
            const float *slice = shared + turn * SLICE;

            dp_copies_wait<0>();
            __syncthreads(); /* all have what came, and none reads the other slice any more */
            if (token + DEPTH < token1) {
                fetch<ROWS>(shared + (turn ^ 1) * SLICE, dy, token + DEPTH, group0 * G);
                fetch<COLUMNS>(shared + (turn ^ 1) * SLICE + ROWS * LD, x, token + DEPTH, slice0 * DP_CUDA_SLICE);
            }
            dp_copies_commit();
            DP_NO_UNROLL
            for (int q = 0; q < DEPTH; q += 4)
                DP_UNROLL
                for (int j = 0; j < EACH; j++) {
                    const float4 b = *reinterpret_cast<const float4 *>(slice + (at[j] >> 16) + q);

                    DP_UNROLL
                    for (int i = 0; i < G; i++) {
                        const float4 a = *reinterpret_cast<const float4 *>(slice + (at[j] & 0xffff) + i * LD + q);

                        sum[j][i] += a.x * b.x;
                        sum[j][i] += a.y * b.y;
                        sum[j][i] += a.z * b.z;
                        sum[j][i] += a.w * b.w;
                    }
                }
        }
        dp_copies_wait<0>();
        __syncthreads(); /* nobody reads slices any more */
        DP_UNROLL
        for (int j = 0; j < EACH; j++) {
            const uint32_t e = pass + j * THREADS + thread;

            if (e >= total)
                continue;
            const int64_t to = (int64_t)find_entry<GROUPS>(e, begin, end).number * G;

            DP_UNROLL
            for (int i = 0; i < G; i++) {
                if (part)
                    part[to + i] = sum[j][i];
                else
                    dw[to + i] = add ? dw[to + i] + sum[j][i] : sum[j][i];
            }
        }
    }
}

template <int G> static int launch(struct dp_cuda *cu, const struct dp_cuda_sparse_gradient *g, struct dp_err *err)
{
    const struct dp_cuda_plan *plan = g->plan;
    const dim3 grid(dp_blocks(plan->rows, ROWS), dp_blocks(plan->cols, COLUMNS), (unsigned)g->parts);

    return DP_LAUNCH(cu, err, (gradient_kernel<G>), grid, THREADS, 0, dp_tokens_of(g->dy, g->n, plan->rows, g->dy_format),
                     dp_tokens_of(g->x, g->n, plan->cols, g->x_format), plan->by_row, plan->nnz, g->part_n, g->dw, g->part,
                     g->add);
}

int dp_cuda_csr_gradient(struct dp_cuda *cu, const struct dp_cuda_sparse_gradient *g, struct dp_err *err)
{
    return g->plan->block == 4 ? launch<4>(cu, g, err) : launch<1>(cu, g, err);
}

int64_t dp_cuda_csr_gradient_blocks(const struct dp_cuda_plan *plan)
{
    return (int64_t)dp_blocks(plan->rows, ROWS) * dp_blocks(plan->cols, COLUMNS);
}
