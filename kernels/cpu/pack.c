/* Activations (tokens, channels) to token tiles (tiles, channels, 64) and back.
 *
 * The sparse kernels multiply one weight with 64 tokens at a time, so these must be neighbours. Both
 * ways transpose VW x VW squares in registers; each square reads and writes whole cache lines.
 */
#include "kernels/cpu/ops.h"

#define SPAN 64 /* channels that one group of rows is walked along before the next group */

/* Rows of x from token t on, channels [ch, ch + VW), zeros where x ends, transposed into tile. */
static inline __attribute__((always_inline)) void pack_square(float *tile, const float *x, int64_t ld,
                                                              int64_t rows, int64_t c, int64_t ch)
{
    vf square[VW];
    int64_t width = c - ch < VW ? c - ch : VW;

    if (rows >= VW && width == VW) {
        DP_UNROLL
        for (int i = 0; i < VW; i++) {
            __builtin_prefetch(x + i * ld + ch + SPAN); /* rows are too many for the hardware's streams */
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
                const float *from = rows > 0 ? x + (t + g) * ld : x; /* never past the last token */

                for (int64_t ch = ch0; ch < end; ch += VW)
                    pack_square(tiles + (t * c + ch * DP_TILE) + g, from, ld, rows, c, ch);
            }
}

static inline __attribute__((always_inline)) void unpack_square(float *y, int64_t ld, const float *tile,
                                                                int64_t rows, int64_t width, vf bias)
{
    vf square[VW];

    if (width == VW) {
        DP_UNROLL
        for (int i = 0; i < VW; i++)
            square[i] = vf_load(tile + i * DP_TILE);
    } else {
        for (int i = 0; i < VW; i++)
            square[i] = i < width ? vf_load(tile + i * DP_TILE) : (vf){0};
    }
    vf_transpose(square);
    if (width == VW && rows >= VW) {
        DP_UNROLL
        for (int i = 0; i < VW; i++)
            vf_store(y + i * ld, square[i] + bias);
    } else {
        for (int64_t i = 0; i < VW && i < rows; i++)
            vf_store_n(y + i * ld, square[i] + bias, width);
    }
}

void DP_FN(unpack)(float *y, int64_t ld, const float *tile, int64_t n, int64_t c, const float *bias)
{
    for (int64_t g = 0; g < n; g += VW)
        for (int64_t ch = 0; ch < c; ch += VW) {
            int64_t width = c - ch < VW ? c - ch : VW;
            vf b = {0};

            if (bias)
                b = width == VW ? vf_load(bias + ch) : vf_load_n(bias + ch, width);
            unpack_square(y + g * ld + ch, ld, tile + ch * DP_TILE + g, n - g, width, b);
        }
}
