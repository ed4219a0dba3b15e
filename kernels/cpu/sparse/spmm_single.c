/* SPDX-License-Identifier: BSD-3-Clause */
/* Products with a sparse w, weight by weight: only the nonzeros are touched.
 *
 * One piece of a row (plan.h) holds the 64 sums of a token tile in registers and adds one fused multiply
 * per nonzero and register; x comes straight from the tile. So a multiply needs a load of its own, and
 * loads are the limit: two a cycle. Besides, a nonzero costs a broadcast and a quarter of a load of its
 * offset (four are loaded together and taken apart by the integer units, which are idle: 6 to 10 % here),
 * and a piece its 64 sums from and to the second-level cache.
 *
 * With AVX-512 a tile is four registers, and four sums in flight are not enough where a multiply takes
 * four cycles and two begin in each: two pieces of equal count are done together. A sum adds up its row's
 * nonzeros from left to right whatever the version, the formats or the threads.
 */
#include "kernels/cpu/sparse/spmm.h"

/* Registers that hold sums of a piece: the tile, or as much of it as leaves registers for the operands. */
#define N_ACC (DP_TILE / VW < 8 ? DP_TILE / VW : 8)
#define SPAN (N_ACC * VW)            /* tokens in them */
#define TOGETHER (N_ACC < 8 ? 2 : 1) /* pieces at once */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "four offsets are read as one number");

static inline __attribute__((always_inline)) void add_column(vf acc[N_ACC], const float *x, uint16_t offset,
                                                             float value)
{
    const float *in = dp_tile_channel(x, offset);
    vf w = vf_set1(value);

    DP_UNROLL
    for (int i = 0; i < N_ACC; i++)
        acc[i] += w * vf_load(in + i * VW);
}

/* `rows` pieces of equal count, one behind the other. */
static inline __attribute__((always_inline)) void add_pieces(const struct dp_spmm_step *s,
                                                             const struct dp_plan_piece *e, const uint16_t *offset,
                                                             const float *values, const int rows)
{
    const int64_t count = e->count;

    for (int span = 0; span < DP_TILE; span += SPAN) {
        const float *x = s->x + span;
        vf acc[TOGETHER][N_ACC];
        int64_t j = 0;

        DP_UNROLL
        for (int r = 0; r < rows; r++)
            dp_start_sums(acc[r], N_ACC, s, e[r].row, (int64_t)e[r].row * DP_TILE + span);
        for (; j + 4 <= count; j += 4) {
            uint64_t four[TOGETHER];

            DP_UNROLL
            for (int r = 0; r < rows; r++)
                memcpy(&four[r], offset + r * count + j, sizeof four[r]);
            DP_UNROLL
            for (int u = 0; u < 4; u++) {
                DP_UNROLL
                for (int r = 0; r < rows; r++)
                    add_column(acc[r], x, (uint16_t)(four[r] >> 16 * u), values[r * count + j + u]);
            }
        }
        for (; j < count; j++) {
            DP_UNROLL
            for (int r = 0; r < rows; r++)
                add_column(acc[r], x, offset[r * count + j], values[r * count + j]);
        }
        DP_UNROLL
        for (int r = 0; r < rows; r++) {
            DP_UNROLL
            for (int i = 0; i < N_ACC; i++)
                vf_store(s->y + (int64_t)e[r].row * DP_TILE + span + i * VW, acc[r][i]);
        }
    }
}

void DP_FN(spmm_single)(const struct dp_spmm_step *step)
{
    const struct dp_spmm_step local = *step, *s = &local; /* a store to y might change *step, for the compiler */
    const struct dp_plan_piece *e = s->d->piece + s->d->first[s->at], *end = s->d->piece + s->d->first[s->at + 1];
    const uint16_t *offset = s->d->offset + s->d->first_offset[s->at];
    const float *values = s->d->values + s->d->first_offset[s->at];
    struct dp_fetch soon[2] = {s->fetch[0], s->fetch[1]};
    int64_t count;

    for (; e < end; offset += count, values += count) {
        count = e->count;
        dp_fetch_some(&soon[0]);
        dp_fetch_some(&soon[1]);
        if (TOGETHER == 2 && e + 1 < end && e[1].count == count) {
            add_pieces(s, e, offset, values, TOGETHER);
            dp_fetch_some(&soon[0]);
            dp_fetch_some(&soon[1]);
            e += TOGETHER;
            count *= TOGETHER;
        } else {
            add_pieces(s, e++, offset, values, 1);
        }
    }
}
