/* SPDX-License-Identifier: BSD-3-Clause */
/* Products with a matrix of single weights or of blocks of 4 x 1: y = x w^T, walked by rows, and dx = dy w, walked by
 * columns.
 *
 * A block of 8 warps makes OUTPUTS outputs of the tokens of a tile. A warp has 16 of them, each thread the sums of two
 * tokens in registers. The input comes a slice of channels at a time into shared memory, two slices in turn (34 KiB): while
 * one is multiplied, the next one arrives by asynchronous copies. An entry costs the warp two or three loads that all its
 * threads share, and 8 bytes of shared memory per thread and channel of the input.
 *
 * Order of sums: as the entries follow each other, one product after the other in one register.
 */
#include "kernels/cuda/sparse/sparse_tile.h"

#define THREADS 256 /* of a block */
#define WARPS (THREADS / 32) /* of a block */
#define OUTPUTS_OF_WARP 16 /* 32 sums in a thread's registers */
#define OUTPUTS (WARPS * OUTPUTS_OF_WARP)
#define SLICE (DP_CUDA_SLICE * DP_TILE_LD) /* floats */

/* The weights of an entry: one, or four. */
template <int N, bool WIDE> static __device__ __forceinline__ void load_weights(float to[N], const float *from)
{
    if constexpr (WIDE) {
        const float4 v = *reinterpret_cast<const float4 *>(from);

        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else {
        DP_UNROLL
        for (int i = 0; i < N; i++)
            to[i] = from[i];
    }
}

/* A group has OUT outputs, a unit IN inputs, one of the two is 1. WIDE: four weights lie at multiples of 16 bytes. */
template <int OUT, int IN, bool WIDE>
static __global__ void __launch_bounds__(THREADS, 3)
    csr_kernel(struct dp_tokens x, struct dp_cuda_walk walk, const float *w, int64_t c_out, bool y_tiles, struct dp_finish f)
{
    constexpr int PER = OUTPUTS_OF_WARP / OUT; /* groups of a warp */
    static_assert(OUTPUTS * DP_TILE_LD <= 2 * SLICE, "outputs fit where slices were");
    DP_SHARED(float, shared, [2 * SLICE]);
    const int64_t token0 = (int64_t)blockIdx.x * DP_TILE, out0 = (int64_t)blockIdx.y * OUTPUTS;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t group0 = out0 / OUT + warp * PER;
    float sum[PER][OUT][2];

    DP_UNROLL
    for (int i = 0; i < PER; i++)
        DP_UNROLL
        for (int o = 0; o < OUT; o++)
            sum[i][o][0] = sum[i][o][1] = 0.0f;
    dp_fetch_channels<THREADS, DP_CUDA_SLICE>(shared, x, token0, 0);
    dp_copies_commit();
    for (int64_t s = 0; s < walk.slices; s++) {
        const float *xs = shared + s % 2 * SLICE + 2 * lane;
        const uint32_t *cut = walk.cut + s * walk.groups + group0;
        const int unit0 = (int)s * (DP_CUDA_SLICE / IN);

        dp_copies_wait<0>();
        __syncthreads(); /* all have what came, and none reads the other slice any more */
        if (s + 1 < walk.slices)
            dp_fetch_channels<THREADS, DP_CUDA_SLICE>(shared + (s + 1) % 2 * SLICE, x, token0, (s + 1) * DP_CUDA_SLICE);
        dp_copies_commit();
        DP_UNROLL
        for (int i = 0; i < PER; i++) {
            const bool there = group0 + i < walk.groups;
            const uint32_t begin = there ? cut[i] : 0, end = there ? cut[walk.groups + i] : 0;

            for (uint32_t e = begin; e < end; e++) {
                const int64_t place = walk.place ? walk.place[e] : e;
                const float *from = xs + (walk.index[e] - unit0) * IN * DP_TILE_LD;
                float v[OUT * IN];

                load_weights<OUT * IN, WIDE>(v, w + place * (OUT * IN));
                DP_UNROLL
                for (int q = 0; q < IN; q++) {
                    const float2 tokens = *reinterpret_cast<const float2 *>(from + q * DP_TILE_LD);

                    DP_UNROLL
                    for (int o = 0; o < OUT; o++) {
                        sum[i][o][0] += v[o + q] * tokens.x;
                        sum[i][o][1] += v[o + q] * tokens.y;
                    }
                }
            }
        }
    }
    dp_copies_wait<0>();
    __syncthreads(); /* nobody reads slices any more */
    DP_UNROLL
    for (int i = 0; i < PER; i++)
        DP_UNROLL
        for (int o = 0; o < OUT; o++)
            *reinterpret_cast<float2 *>(shared + (warp * OUTPUTS_OF_WARP + i * OUT + o) * DP_TILE_LD + 2 * lane) =
                make_float2(sum[i][o][0], sum[i][o][1]);
    __syncthreads();
    dp_finish_tile<THREADS, DP_TILE, OUTPUTS>(f, shared, 1, DP_TILE_LD, y_tiles, x.n, c_out, token0, out0);
}

template <int OUT, int IN, bool WIDE>
static int launch(struct dp_cuda *cu, const struct dp_cuda_sparse_product *p, struct dp_err *err)
{
    const struct dp_cuda_walk *walk = p->by_column ? &p->plan->by_column : &p->plan->by_row;
    const int64_t c_in = p->by_column ? p->plan->rows : p->plan->cols, c_out = p->by_column ? p->plan->cols : p->plan->rows;
    const dim3 grid(dp_blocks(p->n, DP_TILE), dp_blocks(c_out, OUTPUTS));
    const struct dp_finish f = {p->y, p->gelu, p->bias, p->residual, p->gelu_x, false};

    return DP_LAUNCH(cu, err, (csr_kernel<OUT, IN, WIDE>), grid, THREADS, 0, dp_tokens_of(p->x, p->n, c_in, p->x_format),
                     *walk, p->w, c_out, p->y_format == DP_TILES, f);
}

int dp_cuda_csr_product(struct dp_cuda *cu, const struct dp_cuda_sparse_product *p, struct dp_err *err)
{
    const bool wide = reinterpret_cast<uintptr_t>(p->w) % 16 == 0;

    if (p->plan->block == 1)
        return launch<1, 1, false>(cu, p, err);
    if (p->by_column)
        return wide ? launch<1, 4, true>(cu, p, err) : launch<1, 4, false>(cu, p, err);
    return wide ? launch<4, 1, true>(cu, p, err) : launch<4, 1, false>(cu, p, err);
}
