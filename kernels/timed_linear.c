/* SPDX-License-Identifier: BSD-3-Clause */
/* See timed_linear.h. Values do not matter to time, but zeros and subnormals would: all are in +-[0.5, 1). */
#include "kernels/timed_linear.h"

#include <stdlib.h>
#include <string.h>

#include "common/bits.h"
#include "common/numbers.h"

#define SHORTEST_NS 50000.0 /* a call is repeated until it takes so long */
#define MAX_REPEATS 1000 /* of shapes that are next to nothing */

struct dp_timed_linear {
    struct dp_backend *be;
    int64_t n, c_in, c_out;
    enum dp_token_format format; /* of the activations of sparse ops */
    float *x, *dy, *y, *dx, *w, *dw; /* device */
    int n_patterns;
    struct dp_sparse pattern[DP_TIMED_MAX_PATTERNS];
    int repeats[DP_TIMED_MAX_PATTERNS + 1][DP_TIMED_N_OPS]; /* [0]: dense; 0: not known yet */
};

/* xorshift64*, Vigna 2016 */
static uint64_t next_random(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 0x2545f4914f6cdd1dull;
}

/* n floats of device memory, filled where `host` (n floats of room) is given. */
static void *make_array(struct dp_backend *be, int64_t n, uint32_t bytes, float *host, uint64_t *seed, struct dp_err *err)
{
    void *p = NULL;

    if (be->ops->alloc(be, (size_t)n * bytes, &p, err) < 0)
        return NULL;
    for (int64_t i = 0; host && i < n; i++) {
        uint64_t r = next_random(seed);
        float magnitude = 0.5f + 0.5f * (float)(r >> 41) / 8388608.0f;

        host[i] = r & 1 ? magnitude : -magnitude;
        if (bytes == 2) /* bfloat16: the upper half of a float32 */
            memcpy((char *)host + 2 * i, (char *)&host[i] + 2, 2);
    }
    if (host && be->ops->put(be, p, host, (size_t)n * bytes, err) < 0) {
        be->ops->free(be, p);
        return NULL;
    }
    return p;
}

/* Is the block whose first weight is (row, col) kept? -1: a part of it. */
static int is_kept(const struct dp_timed_linear *p, const uint64_t *keep, int64_t row, int64_t col, int64_t block)
{
    int64_t n = 0;

    for (int64_t i = row; i < row + block; i++)
        for (int64_t c = col; c < col + dp_block_cols(block); c++)
            n += dp_bits_get(keep, i * p->c_in + c);
    return n == 0 ? 0 : n == dp_block_weights(block) ? 1 : -1;
}

/* Is the next of `left` blocks one of the `wanted` that are still to be chosen among them (Knuth, algorithm S)? Few square
 * blocks make a matrix: chosen one by one, they would miss the sparsity by far. */
static bool is_chosen(int64_t *wanted, int64_t left, uint64_t *seed)
{
    bool chosen = (double)(next_random(seed) >> 32) / 4294967296.0 * (double)left < (double)*wanted;

    *wanted -= chosen;
    return chosen;
}

static int make_pattern(struct dp_timed_linear *p, struct dp_sparse *sp, const struct dp_timed_pattern *pattern,
                        uint64_t *seed, struct dp_err *err)
{
    const int64_t block = pattern->block_rows, groups = p->c_out / block, width = dp_block_cols(block);
    uint64_t limit = (uint64_t)((1.0 - pattern->sparsity) * 4294967296.0);
    int64_t n = 0, left = groups * (p->c_in / width), wanted = (int64_t)((1.0 - pattern->sparsity) * (double)left + 0.5);

    *sp = (struct dp_sparse){.rows = p->c_out, .cols = p->c_in, .block_rows = block};
    sp->row_ptr = calloc((size_t)groups + 1, sizeof *sp->row_ptr);
    sp->col = calloc((size_t)(groups * (p->c_in / width)) + 1, sizeof *sp->col);
    if (!sp->row_ptr || !sp->col)
        return dp_err_set(err, DP_ENOMEM, "no memory for a pattern of (%lld, %lld)", (long long)p->c_out,
                          (long long)p->c_in);
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t c = 0; c < p->c_in / width; c++, left--) {
            int kept = pattern->keep ? is_kept(p, pattern->keep, g * block, c * width, block)
                       : width > 1   ? is_chosen(&wanted, left, seed)
                                     : next_random(seed) >> 32 < limit;

            if (kept < 0)
                return dp_err_set(err, DP_EINVAL, "column %lld has a part of rows %lld to %lld", (long long)(c * width),
                                  (long long)(g * block), (long long)(g * block + block - 1));
            if (kept)
                sp->col[n++] = (uint16_t)c;
        }
        sp->row_ptr[g + 1] = n;
    }
    sp->nnz = n * dp_block_weights(block);
    if (p->be->ops->sparse_prepare(p->be, sp, err) < 0)
        return -1;
    return p->be->ops->sparse_refresh(p->be, sp, p->w, err);
}

static int64_t max3(int64_t a, int64_t b, int64_t c)
{
    int64_t ab = a > b ? a : b;

    return ab > c ? ab : c;
}

static int make_arrays(struct dp_timed_linear *p, uint64_t *seed, struct dp_err *err)
{
    int64_t nx = dp_format_elements(DP_TILES, p->n, p->c_in), ny = dp_format_elements(DP_TILES, p->n, p->c_out);
    uint32_t act_bytes = p->be->info.act_bytes;
    int64_t nw = p->c_in * p->c_out;
    float *host = malloc((size_t)max3(nx, ny, nw) * sizeof *host);
    int rc = -1;

    if (!host)
        return dp_err_set(err, DP_ENOMEM, "no memory for a linear layer (%lld, %lld)", (long long)p->c_out,
                          (long long)p->c_in);
    p->x = make_array(p->be, nx, act_bytes, host, seed, err);
    p->dy = p->x ? make_array(p->be, ny, act_bytes, host, seed, err) : NULL;
    p->w = p->dy ? make_array(p->be, nw, sizeof(float), host, seed, err) : NULL;
    p->y = p->w ? make_array(p->be, ny, act_bytes, NULL, seed, err) : NULL;
    p->dx = p->y ? make_array(p->be, nx, act_bytes, NULL, seed, err) : NULL;
    p->dw = p->dx ? make_array(p->be, nw, sizeof(float), NULL, seed, err) : NULL;
    if (p->dw)
        rc = 0;
    free(host);
    return rc;
}

struct dp_timed_linear *dp_timed_linear_create(struct dp_backend *be, int64_t c_out, int64_t c_in, int64_t n,
                                               const struct dp_timed_pattern *patterns, int n_patterns,
                                               enum dp_token_format format, struct dp_err *err)
{
    struct dp_timed_linear *p;
    uint64_t seed = 0x9e3779b97f4a7c15ull;

    if (c_out < 1 || c_in < 1 || n < 1 || n_patterns > DP_TIMED_MAX_PATTERNS ||
        c_out > DP_SPARSE_MAX || c_in > DP_SPARSE_MAX) {
        dp_err_set(err, DP_EINVAL, "linear layer (%lld, %lld) with %lld tokens", (long long)c_out,
                   (long long)c_in, (long long)n);
        return NULL;
    }
    for (int i = 0; i < n_patterns; i++)
        if (patterns[i].block_rows < 1 || c_out % patterns[i].block_rows || c_in % dp_block_cols(patterns[i].block_rows)) {
            dp_err_set(err, DP_EINVAL, "linear layer (%lld, %lld) in blocks of %lld rows", (long long)c_out,
                       (long long)c_in, (long long)patterns[i].block_rows);
            return NULL;
        }
    p = calloc(1, sizeof *p);
    if (!p) {
        dp_err_set(err, DP_ENOMEM, "no memory for a timed layer");
        return NULL;
    }
    p->be = be;
    p->c_out = c_out;
    p->c_in = c_in;
    p->n = n;
    p->format = format;
    if (make_arrays(p, &seed, err) < 0)
        goto fail;
    for (; p->n_patterns < n_patterns; p->n_patterns++)
        if (make_pattern(p, &p->pattern[p->n_patterns], &patterns[p->n_patterns], &seed, err) < 0)
            goto fail;
    return p;
fail:
    dp_timed_linear_destroy(p);
    return NULL;
}

void dp_timed_linear_destroy(struct dp_timed_linear *p)
{
    if (!p)
        return;
    for (int i = 0; i < DP_TIMED_MAX_PATTERNS; i++) {
        p->be->ops->sparse_release(p->be, &p->pattern[i]);
        free(p->pattern[i].row_ptr);
        free(p->pattern[i].col);
    }
    p->be->ops->free(p->be, p->x);
    p->be->ops->free(p->be, p->dy);
    p->be->ops->free(p->be, p->w);
    p->be->ops->free(p->be, p->y);
    p->be->ops->free(p->be, p->dx);
    p->be->ops->free(p->be, p->dw);
    free(p);
}

static int run_op(struct dp_timed_linear *p, int op, const struct dp_sparse *sp, struct dp_err *err)
{
    const struct dp_backend_ops *ops = p->be->ops;
    const enum dp_token_format format = sp ? p->format : DP_ROWS;
    const struct dp_linear forward = {.n = p->n, .c_in = p->c_in, .c_out = p->c_out, .y = p->y, .x = p->x,
                                      .w = p->w, .sparse = sp, .x_format = format, .y_format = format};
    const struct dp_linear_bwd_input input = {.n = p->n, .c_in = p->c_in, .c_out = p->c_out, .dx = p->dx,
                                              .dy = p->dy, .w = p->w, .sparse = sp, .dy_format = format,
                                              .dx_format = format};
    const struct dp_linear_bwd_weight weight = {.n = p->n, .c_in = p->c_in, .c_out = p->c_out, .dw = p->dw,
                                                .dy = p->dy, .x = p->x, .sparse = sp, .dy_format = format,
                                                .x_format = format};

    switch (op) {
    case DP_TIMED_FORWARD:
        return ops->linear(p->be, &forward, err);
    case DP_TIMED_INPUT:
        return ops->linear_bwd_input(p->be, &input, err);
    default:
        return ops->linear_bwd_weight(p->be, &weight, err);
    }
}

int dp_timed_linear_time(struct dp_timed_linear *p, int pattern, dp_timed_clock_fn *now, double ns[DP_TIMED_N_OPS],
                         struct dp_err *err)
{
    const struct dp_sparse *sp = pattern < 0 ? NULL : &p->pattern[pattern];

    now = now ? now : p->be->ops->time_ns;
    for (int op = 0; op < DP_TIMED_N_OPS; op++) {
        int *repeats = &p->repeats[pattern + 1][op], times = *repeats ? *repeats : 1;
        uint64_t start = now(p->be);

        for (int i = 0; i < times; i++)
            if (run_op(p, op, sp, err) < 0)
                return -1;
        if (p->be->ops->sync(p->be, err) < 0)
            return -1;
        ns[op] = (double)(now(p->be) - start) / times;
        if (!*repeats) {
            *repeats = ns[op] > SHORTEST_NS / MAX_REPEATS ? (int)(SHORTEST_NS / ns[op]) : MAX_REPEATS;
            *repeats = *repeats < 1 ? 1 : *repeats;
        }
    }
    return 0;
}

const struct dp_sparse *dp_timed_linear_sparse(const struct dp_timed_linear *p, int pattern)
{
    return &p->pattern[pattern];
}

size_t dp_timed_linear_plan_bytes(const struct dp_timed_linear *p, int pattern)
{
    return p->be->ops->sparse_bytes(p->be, &p->pattern[pattern]);
}

double dp_timed_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, dp_by_double);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2.0;
}
