/* SPDX-License-Identifier: BSD-3-Clause */
/* Forward and input gradient with a sparse w: tiles, formats, threads, and what precedes and follows the
 * products, whose inner loops are spmm_single.c and spmm_blocks.c.
 *
 * The output of a tile is made in parts of up to 1024 channels, one task each: bias and residual are what the
 * sums start with, GELU follows while they are in the second-level cache. Measured: `make bench`, doc/kernels.md.
 */
#include "kernels/cpu/epilogue.h"
#include "common/numbers.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sparse/spmm.h"

#define SUMS ((int64_t)DP_PLAN_MAX_CHUNK * DP_TILE) /* of a task */

/* y (n, n_out) = x (n, n_in) times w or its transpose, and what comes before and after. */
struct product {
    const struct dp_plan_dir *d;
    bool is_spread;           /* blocks of 4 x 1, backward: parts are blocks of columns, not chunks of rows */
    int64_t n, n_in, n_out;
    int64_t part, n_parts;    /* channels of y in a task, and how many of them */
    enum dp_token_format x_format, y_format;
    const float *x, *w;
    float *y;
    const float *bias, *start; /* start: in y's format */
    float *gelu;               /* gelu(y), or gelu(gelu_x) where that is given */
    const float *gelu_x;
    float *sums;               /* y in rows: SUMS for each thread */
    int64_t first;             /* token that x begins with */
    int64_t tokens;            /* of x */
};

static void finish(const struct product *p, int64_t at, int64_t count)
{
    if (p->gelu_x)
        dp_times_gelu_slope(p->y + at, p->gelu ? p->gelu + at : NULL, p->gelu_x + at, count);
    else if (p->gelu)
        dp_finish_row(p->y + at, NULL, NULL, p->gelu + at, count);
}

/* What follows the product of a tile whose n tokens begin with `token`; y: sums of `count` channels. */
static void finish_tile(const struct product *p, int64_t token, int64_t n, int64_t channel, int64_t count,
                        const float *y)
{
    int64_t at = token * p->n_out + channel;

    if (p->y_format == DP_TILES) {
        finish(p, token * p->n_out + channel * DP_TILE, count * DP_TILE);
        return;
    }
    DP_FN(unpack)(p->y + at, p->n_out, y, n, count);
    for (int64_t r = 0; r < n; r++, at += p->n_out)
        finish(p, at, count);
}

/* Rows of a chunk, from all blocks of columns, while the next block of x is fetched, and at the end the next
 * tile's first one; and during all of them that tile's sums, `count` channels. next_x, next_y: NULL where no
 * tile follows. */
static void gather(const struct product *p, struct dp_spmm_step *s, int64_t chunk, const float *x, int64_t count,
                   const float *next_x, const float *next_y)
{
    const struct dp_plan_dir *d = p->d;
    int64_t share = (count + d->n_blocks - 1) / d->n_blocks;

    for (int64_t b = 0; b < d->n_blocks; b++) {
        bool is_last = b + 1 == d->n_blocks;
        int64_t pieces;

        s->at = chunk * d->n_blocks + b;
        s->x = x + b * d->block * DP_TILE;
        s->is_first = b == 0;
        pieces = (int64_t)d->first[s->at + 1] - d->first[s->at];
        s->fetch[0] = is_last ? dp_fetch_tile(next_x, dp_least_i64(d->cols, d->block), pieces)
                              : dp_fetch_tile(s->x + d->block * DP_TILE, dp_least_i64(d->cols - (b + 1) * d->block, d->block),
                                              pieces);
        s->fetch[1] = dp_fetch_tile(next_y ? next_y + b * share * DP_TILE : NULL, dp_least_i64(count - b * share, share),
                                    pieces);
        if (d->row_width == 4)
            DP_FN(spmm_blocks)(s);
        else
            DP_FN(spmm_single)(s);
    }
}

/* Columns of a block, from all chunks of rows. */
static void spread(const struct product *p, struct dp_spmm_step *s, int64_t block, int64_t count, const float *x)
{
    memset(s->y, 0, (size_t)(count * DP_TILE) * sizeof *s->y);
    for (int64_t c = 0; c < p->d->n_chunks; c++) {
        s->at = c * p->d->n_blocks + block;
        s->x = x + c * p->d->chunk * DP_TILE;
        DP_FN(spmm_blocks_bwd)(s);
    }
}

/* Task i: a part of the channels, a tile. A part's pieces and, where they gather, sums serve all tiles in turn; where
 * they spread, each part reads all of the tile, which is larger, so all parts follow each other. */
static int product_task(void *arg, int64_t i, int thread, struct dp_err *err)
{
    const struct product *p = arg;
    int64_t tiles = dp_tiles(p->tokens), part = p->is_spread ? i % p->n_parts : i / tiles;
    int64_t t = (p->is_spread ? i / p->n_parts : i % tiles) * DP_TILE, token = p->first + t;
    int64_t channel = part * p->part, count = p->n_out - channel < p->part ? p->n_out - channel : p->part;
    int64_t n = p->tokens - t < DP_TILE ? p->tokens - t : DP_TILE, at = token * p->n_out + channel * DP_TILE;
    bool is_tile = p->y_format == DP_TILES, has_next = t + DP_TILE < p->tokens;
    const float *x = p->x + t * p->n_in;
    struct dp_spmm_step s = {.d = p->d, .w = p->w, .y = is_tile ? p->y + at : p->sums + thread * SUMS,
                             .bias = p->bias ? p->bias + channel : NULL};

    (void)err;
    if (p->start) {
        s.start = is_tile ? p->start + at : s.y;
        if (!is_tile)
            DP_FN(pack)(s.y, p->start + token * p->n_out + channel, p->n_out, n, count);
    }
    if (p->is_spread)
        spread(p, &s, part, count, x);
    else
        gather(p, &s, part, x, count, has_next ? x + p->n_in * DP_TILE : NULL,
               has_next && is_tile ? s.y + p->n_out * DP_TILE : NULL);
    finish_tile(p, token, n, channel, count, s.y);
    return 0;
}

static int run_product(struct dp_backend *be, struct product *p, struct dp_err *err)
{
    const struct dp_cpu *cpu = be->ctx;
    const float *x = p->x;
    bool packs = p->x_format == DP_ROWS;
    int64_t group = packs ? dp_pack_group(p->n, p->n_in) : dp_tiles(p->n) * DP_TILE;
    int64_t sums = p->y_format == DP_ROWS ? cpu->threads * SUMS : 0;
    float *packed = dp_cpu_scratch(be, sums + (packs ? group * p->n_in : 0), err);

    if (!packed)
        return -1;
    p->sums = packed;
    packed += sums;
    p->part = p->is_spread ? p->d->block : p->d->chunk;
    p->n_parts = p->is_spread ? p->d->n_blocks : p->d->n_chunks;
    for (p->first = 0; p->first < p->n; p->first += group) {
        p->tokens = p->n - p->first < group ? p->n - p->first : group;
        p->x = packs ? packed : x;
        if (packs && DP_FN(pack_all)(be, packed, x + p->first * p->n_in, p->tokens, p->n_in, err) < 0)
            return -1;
        if (dp_cpu_parallel(be, p->n_parts * dp_tiles(p->tokens), product_task, p, err) < 0)
            return -1;
    }
    return 0;
}

int DP_FN(spmm)(struct dp_backend *be, const struct dp_linear *a, struct dp_err *err)
{
    const struct dp_plan *plan = a->sparse->plan;
    struct product p = {.d = &plan->fwd, .n = a->n, .n_in = a->c_in, .n_out = a->c_out, .w = a->w,
                        .x_format = a->x_format, .y_format = a->y_format, .x = a->x, .y = a->y, .bias = a->bias,
                        .start = a->residual, .gelu = a->gelu};

    return run_product(be, &p, err);
}

int DP_FN(spmm_bwd)(struct dp_backend *be, const struct dp_linear_bwd_input *a, struct dp_err *err)
{
    const struct dp_plan *plan = a->sparse->plan;
    struct product p = {.d = &plan->bwd, .n = a->n, .n_in = a->c_out, .n_out = a->c_in, .w = a->w,
                        .is_spread = dp_sparse_block(a->sparse) > 1, .x_format = a->dy_format,
                        .y_format = a->dx_format, .x = a->dy, .y = a->dx, .gelu = a->gelu, .gelu_x = a->gelu_x};

    return run_product(be, &p, err);
}
