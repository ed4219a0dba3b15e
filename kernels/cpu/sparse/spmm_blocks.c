/* SPDX-License-Identifier: BSD-3-Clause */
/* Products with a sparse w in blocks of 4 x 1: four rows of one column.
 *
 * Forward, the sums of a piece's four rows stay in registers and a column of x is loaded once for them: 4
 * loads of x and 4 broadcasts for 16 multiplies (AVX-512), which are the limit. As x is read so seldom, it
 * may come from the second-level cache, so blocks of columns are wide and sums are hardly moved.
 *
 * Backward, dy of the four rows stays in registers and every block adds to its column of dx: 4 loads, 4
 * broadcasts and 4 stores for 16 multiplies, on a block of dx that stays in the first-level cache. The index
 * is one of w, not of w^T, whose entries would need a load for every multiply. A sum of dx adds up its rows in
 * the order of the walk, which is the pattern's alone.
 */
#include "kernels/cpu/sparse/spmm.h"

#define N_VEC (VW == 16 ? 4 : 2) /* registers for each of four rows */
#define SPAN (N_VEC * VW)        /* tokens in them */
#define AHEAD DP_PLAN_SPARE

/* Sums of the piece's rows, from `channel` on. */
static inline __attribute__((always_inline)) void add_piece(const struct dp_spmm_step *s, int64_t channel,
                                                            int64_t count, const uint16_t *offset, const float *values)
{
    for (int span = 0; span < DP_TILE; span += SPAN) {
        int64_t at = channel * DP_TILE + span;
        vf acc[4][N_VEC];

        DP_UNROLL
        for (int r = 0; r < 4; r++)
            dp_start_sums(acc[r], N_VEC, s, channel + r, at + r * DP_TILE);
        for (int64_t j = 0; j < count; j++) {
            const float *in = dp_tile_channel(s->x + span, offset[j]);
            vf x[N_VEC];

            DP_UNROLL
            for (int i = 0; i < N_VEC; i++)
                x[i] = vf_load(in + i * VW);
            DP_UNROLL
            for (int r = 0; r < 4; r++) {
                vf w = vf_set1(values[4 * j + r]);

                DP_UNROLL
                for (int i = 0; i < N_VEC; i++)
                    acc[r][i] += w * x[i];
            }
        }
        DP_UNROLL
        for (int r = 0; r < 4; r++) {
            DP_UNROLL
            for (int i = 0; i < N_VEC; i++)
                vf_store(s->y + at + r * DP_TILE + i * VW, acc[r][i]);
        }
    }
}

void DP_FN(spmm_blocks)(const struct dp_spmm_step *s)
{
    const struct dp_plan_piece *e = s->d->piece + s->d->first[s->at], *end = s->d->piece + s->d->first[s->at + 1];
    const uint16_t *offset = s->d->offset + s->d->first_offset[s->at];
    struct dp_fetch soon[2] = {s->fetch[0], s->fetch[1]};

    for (; e < end; offset += e->count, e++) {
        dp_fetch_some(&soon[0]);
        dp_fetch_some(&soon[1]);
        add_piece(s, e->row * (int64_t)4, e->count, offset, s->w + e->start * (int64_t)4);
    }
}

/* Columns of y += those of the piece; x: dy of its rows. */
static inline __attribute__((always_inline)) void spread_piece(const struct dp_spmm_step *s, const float *x,
                                                               int64_t count, const uint16_t *offset,
                                                               const float *values)
{
    for (int span = 0; span < DP_TILE; span += SPAN) {
        vf dy[4][N_VEC];

        DP_UNROLL
        for (int r = 0; r < 4; r++) {
            DP_UNROLL
            for (int i = 0; i < N_VEC; i++)
                dy[r][i] = vf_load(x + r * DP_TILE + span + i * VW);
        }
        for (int64_t j = 0; j < count; j++) {
            float *out = dp_tile_channel(s->y + span, offset[j]);
            vf sum[N_VEC];

            DP_UNROLL
            for (int i = 0; i < N_VEC; i++)
                sum[i] = vf_load(out + i * VW);
            DP_UNROLL
            for (int r = 0; r < 4; r++) {
                vf w = vf_set1(values[4 * j + r]);

                DP_UNROLL
                for (int i = 0; i < N_VEC; i++)
                    sum[i] += w * dy[r][i];
            }
            DP_UNROLL
            for (int i = 0; i < N_VEC; i++)
                vf_store(out + i * VW, sum[i]);
        }
    }
}

void DP_FN(spmm_blocks_bwd)(const struct dp_spmm_step *s)
{
    const struct dp_plan_piece *e = s->d->piece + s->d->first[s->at], *end = s->d->piece + s->d->first[s->at + 1];
    const uint16_t *offset = s->d->offset + s->d->first_offset[s->at];

    for (; e < end; offset += e->count, e++) {
        const float *ahead = s->w + e[AHEAD].start * (int64_t)4;

        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + 16);
        __builtin_prefetch(ahead + 32);
        spread_piece(s, s->x + e->row * (int64_t)4 * DP_TILE, e->count, offset, s->w + e->start * (int64_t)4);
    }
}
