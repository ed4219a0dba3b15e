/* SPDX-License-Identifier: BSD-3-Clause */
/* Activations (tokens, channels) to token tiles (tiles, channels, 64) and back: the op reorder.
 *
 * The sparse kernels multiply one weight with 64 tokens at a time, so these must be neighbours. Both
 * ways transpose VW x VW squares in registers; each square reads and writes whole cache lines.
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define SPAN 64 /* channels that one group of rows is walked along before the next group */

/* Rows of x from token t on, channels [ch, ch + VW), zeros where x ends, transposed into tile. x and tile are
 * asked for `ahead` and SPAN channels before. */
static inline __attribute__((always_inline)) void pack_square(float *tile, const float *x, int64_t ld, int64_t rows,
                                                              int64_t c, int64_t ch, int64_t ahead)
{
    vf square[VW];
    int64_t width = c - ch < VW ? c - ch : VW;

    if (rows >= VW && width == VW) {
        DP_UNROLL
        for (int i = 0; i < VW; i++) {
            __builtin_prefetch(x + i * ld + ch + ahead); /* rows are too many for the hardware's streams */
            __builtin_prefetch(tile + (SPAN + i) * DP_TILE, 1);
            square[i] = vf_load(x + i * ld + ch);
        }
    } else {
        for (int i = 0; i < VW; i++)
            square[i] = i < rows ? vf_load_n(x + i * ld + ch, width) : (vf){0};
    }
    vf_transpose(square);
    if (width == VW) {
        DP_UNROLL
        for (int i = 0; i < VW; i++)
            vf_store(tile + i * DP_TILE, square[i]);
    } else {
        for (int64_t i = 0; i < width; i++)
            vf_store(tile + i * DP_TILE, square[i]);
    }
}

void DP_FN(pack)(float *tiles, const float *x, int64_t ld, int64_t n, int64_t c)
{
    for (int64_t t = 0; t < dp_tiles(n) * DP_TILE; t += DP_TILE)
        for (int64_t ch0 = 0; ch0 < c; ch0 += SPAN)
            for (int64_t g = 0; g < DP_TILE; g += VW) {
                int64_t rows = n - t - g, end = c - ch0 < SPAN ? c : ch0 + SPAN;
                int64_t ahead = end < c ? SPAN : DP_TILE * ld - ch0; /* along the rows, then the next tile's rows */
                const float *from = rows > 0 ? x + (t + g) * ld : x; /* never past the last token */

                for (int64_t ch = ch0; ch < end; ch += VW)
                    pack_square(tiles + (t * c + ch * DP_TILE) + g, from, ld, rows, c, ch, ahead);
            }
}

static inline __attribute__((always_inline)) void unpack_square(float *y, int64_t ld, const float *tile,
                                                                int64_t rows, int64_t width)
{
    vf square[VW];

    if (width == VW) {
        DP_UNROLL
        for (int i = 0; i < VW; i++) {
            __builtin_prefetch(tile + (SPAN + i) * DP_TILE);
            __builtin_prefetch(y + i * ld + SPAN, 1);
            square[i] = vf_load(tile + i * DP_TILE);
        }
    } else {
        for (int i = 0; i < VW; i++)
            square[i] = i < width ? vf_load(tile + i * DP_TILE) : (vf){0};
    }
    vf_transpose(square);
    if (width == VW && rows >= VW) {
        DP_UNROLL
        for (int i = 0; i < VW; i++)
            vf_store(y + i * ld, square[i]);
    } else {
        for (int64_t i = 0; i < VW && i < rows; i++)
            vf_store_n(y + i * ld, square[i], width);
    }
}

void DP_FN(unpack)(float *y, int64_t ld, const float *tile, int64_t n, int64_t c)
{
    for (int64_t ch0 = 0; ch0 < c; ch0 += SPAN)
        for (int64_t g = 0; g < n; g += VW)
            for (int64_t ch = ch0; ch < c && ch < ch0 + SPAN; ch += VW)
                unpack_square(y + g * ld + ch, ld, tile + ch * DP_TILE + g, n - g, c - ch < VW ? c - ch : VW);
}

#define PART 512 /* channels of a tile in a task */

struct reorder {
    const struct dp_reorder *a;
    int64_t parts; /* of a tile */
};

static int reorder_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct reorder *f = arg;
    const struct dp_reorder *a = f->a;
    int64_t t = i / f->parts * DP_TILE, ch = i % f->parts * PART;
    int64_t n = a->n - t < DP_TILE ? a->n - t : DP_TILE, c = a->c - ch < PART ? a->c - ch : PART;
    int64_t in_rows = t * a->c + ch, in_tiles = t * a->c + ch * DP_TILE;
    const float *x = a->x;
    float *y = a->y;

    (void)thread;
    (void)err;
    if (a->x_format == DP_ROWS && a->y_format == DP_TILES) {
        DP_FN(pack)(y + in_tiles, x + in_rows, a->c, n, c);
    } else if (a->x_format == DP_TILES && a->y_format == DP_ROWS) {
        DP_FN(unpack)(y + in_rows, a->c, x + in_tiles, n, c);
    } else if (a->y_format == DP_ROWS) {
        for (int64_t r = 0; y != x && r < n; r++)
            memcpy(y + in_rows + r * a->c, x + in_rows + r * a->c, (size_t)c * sizeof *y);
    } else {
        if (y != x)
            memcpy(y + in_tiles, x + in_tiles, (size_t)c * DP_TILE * sizeof *y);
        for (int64_t r = 0; n < DP_TILE && r < c; r++)
            memset(y + in_tiles + r * DP_TILE + n, 0, (size_t)(DP_TILE - n) * sizeof *y);
    }
    return 0;
}

int DP_FN(reorder)(struct dp_backend *be, const struct dp_reorder *a, struct dp_err *err)
{
    struct reorder f = {.a = a, .parts = (a->c + PART - 1) / PART};

    return dp_cpu_parallel(be, dp_tiles(a->n) * f.parts, reorder_task, &f, err);
}

int DP_FN(pack_all)(struct dp_backend *be, float *tiles, const float *x, int64_t n, int64_t c, struct dp_err *err)
{
    const struct dp_reorder a = {.n = n, .c = c, .y = tiles, .x = x, .y_format = DP_TILES};

    return DP_FN(reorder)(be, &a, err);
}
