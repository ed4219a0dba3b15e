/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer norm over channels, two passes (mean first: no cancellation in the variance), and backward.
 *
 * With xhat = (x - mean) rstd and g = dy gamma:
 *   dx = rstd (g - mean(g) - xhat mean(g xhat)),  dgamma += dy xhat,  dbeta += dy.
 * 64 tokens are a task. In rows, channels are lanes and a few rows go together. For an output in tiles the
 * rows are put into a tile first, while they are in the cache, and tokens are lanes. What a task adds to
 * dgamma and dbeta lies in a workspace of its own until all tasks are done; then tasks add up in their order.
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#include <math.h>

#define EPS 1e-5f /* GPT-2's and PyTorch's default */
#define TOKENS DP_TILE /* of a task */
#define SPAN (4 * VW)  /* tokens of a tile that go together */
#define ROWS 4 /* that forward takes at a time: sums and roots of one alone would wait for each other */
#define ROWS_BACK 2 /* that backward takes at a time; it has more sums for each */

/* Load VW channels, or the c - j that are left; store likewise. */
static inline vf load_at(const float *p, int64_t j, int64_t c)
{
    return j + VW <= c ? vf_load(p + j) : vf_load_n(p + j, c - j);
}

static inline void store_at(float *p, int64_t j, int64_t c, vf v)
{
    if (j + VW <= c)
        vf_store(p + j, v);
    else
        vf_store_n(p + j, v, c - j);
}

/* out[r] = sum of row r of x, or of the squares of its differences from mean[r] where mean is not NULL. */
static inline __attribute__((always_inline)) void sum_rows(float *out, const float *x, const float *mean, int64_t c,
                                                           const int rows)
{
    vf sum[ROWS][2], m[ROWS];
    int64_t j = 0;

    DP_UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = (vf){0};
        m[r] = vf_set1(mean ? mean[r] : 0.0f);
    }
    for (; j + 2 * VW <= c; j += 2 * VW) {
        DP_UNROLL
        for (int r = 0; r < rows; r++) {
            DP_UNROLL
            for (int u = 0; u < 2; u++) {
                vf d = vf_load(x + r * c + j + u * VW);

                if (mean)
                    d -= m[r];
                sum[r][u] += mean ? d * d : d;
            }
        }
    }
    for (; j < c; j += VW)
        for (int r = 0; r < rows; r++) {
            vf d = load_at(x + r * c, j, c);

            if (mean)
                d = (vf)((vi)(d - m[r]) & vi_first(c - j));
            sum[r][0] += mean ? d * d : d;
        }
    DP_UNROLL
    for (int r = 0; r < rows; r++)
        out[r] = vf_sum(sum[r][0] + sum[r][1]);
}

/* Rows i ... of the output; x: the first of them. */
static inline __attribute__((always_inline)) void rows_forward(const struct dp_layernorm *a, int64_t i,
                                                               const float *x, const int rows)
{
    const int64_t c = a->c; /* a store through a vector might change *a, for all that the compiler knows */
    const float *gamma = a->gamma, *beta = a->beta;
    float *y = (float *)a->y + i * c, mean[ROWS], variance[ROWS];

    sum_rows(mean, x, NULL, c, rows);
    DP_UNROLL
    for (int r = 0; r < rows; r++)
        mean[r] /= (float)c;
    sum_rows(variance, x, mean, c, rows);
    for (int r = 0; r < rows; r++, x += c, y += c) {
        float root = 1.0f / sqrtf(variance[r] / (float)c + EPS);
        vf m = vf_set1(mean[r]), rstd = vf_set1(root);
        int64_t j = 0;

        a->mean[i + r] = mean[r];
        a->rstd[i + r] = root;
        for (; j + VW <= c; j += VW)
            vf_store(y + j, (vf_load(x + j) - m) * rstd * vf_load(gamma + j) + vf_load(beta + j));
        if (j < c)
            store_at(y, j, c, (load_at(x, j, c) - m) * rstd * load_at(gamma, j, c) + load_at(beta, j, c));
    }
}

/* sum[v] += x, or the square of its difference from mean[v], for four vectors of tokens of a channel. */
static inline __attribute__((always_inline)) void add_tokens(vf sum[4], const float *x, const vf *mean)
{
    DP_UNROLL
    for (int v = 0; v < 4; v++) {
        vf d = vf_load(x + v * VW);

        if (mean)
            d -= mean[v];
        sum[v] += mean ? d * d : d;
    }
}

/* The same over all channels; even and odd ones apart, so that additions do not wait for each other. */
static inline __attribute__((always_inline)) void sum_channels(vf sum[4], const float *x, const vf *mean, int64_t c)
{
    vf odd[4] = {{0}, {0}, {0}, {0}};
    int64_t ch = 0;

    DP_UNROLL
    for (int v = 0; v < 4; v++)
        sum[v] = (vf){0};
    for (; ch + 2 <= c; ch += 2) {
        add_tokens(sum, x + ch * DP_TILE, mean);
        add_tokens(odd, x + (ch + 1) * DP_TILE, mean);
    }
    if (ch < c)
        add_tokens(sum, x + ch * DP_TILE, mean);
    DP_UNROLL
    for (int v = 0; v < 4; v++)
        sum[v] += odd[v];
}

/* Numbers of VW tokens t ...; those at n and behind are not stored. */
static inline void store_tokens(float *p, int64_t t, int64_t n, vf v)
{
    if (t < n)
        store_at(p, t, n, v);
}

/* Tokens t, t + 1, ..., t + SPAN - 1; x, y: theirs in the first channel of their tile. */
static void span_forward(const struct dp_layernorm *a, int64_t t, const float *x, float *y)
{
    const int64_t c = a->c;
    const float *gamma = a->gamma, *beta = a->beta;
    const vf share = vf_set1(1.0f / (float)c);
    vf mean[4], rstd[4];

    sum_channels(mean, x, NULL, c);
    DP_UNROLL
    for (int v = 0; v < 4; v++)
        mean[v] *= share;
    sum_channels(rstd, x, mean, c);
    DP_UNROLL
    for (int v = 0; v < 4; v++) {
        rstd[v] = 1.0f / vf_sqrt(rstd[v] * share + EPS);
        store_tokens(a->mean, t + v * VW, a->n, mean[v]);
        store_tokens(a->rstd, t + v * VW, a->n, rstd[v]);
    }
    for (int64_t ch = 0; ch < c; ch++, x += DP_TILE, y += DP_TILE) {
        vf scale = vf_set1(gamma[ch]), shift = vf_set1(beta[ch]);

        DP_UNROLL
        for (int v = 0; v < 4; v++)
            vf_store(y + v * VW, (vf_load(x + v * VW) - mean[v]) * rstd[v] * scale + shift);
    }
}

struct forward {
    const struct dp_layernorm *a;
    float *room; /* (threads, 64, c) */
};

static int forward_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct forward *f = arg;
    const struct dp_layernorm *a = f->a;
    int64_t i = task * TOKENS, end = i + TOKENS < a->n ? i + TOKENS : a->n;
    const float *x = (const float *)a->x + i * a->c;

    (void)err;
    if (a->y_format == DP_TILES) {
        float *tile = f->room + thread * TOKENS * a->c;

        DP_FN(pack)(tile, x, a->c, end - i, a->c);
        for (int64_t t = 0; t < TOKENS; t += SPAN)
            span_forward(a, i + t, tile + t, (float *)a->y + i * a->c + t);
        return 0;
    }
    for (; i + ROWS <= end; i += ROWS, x += ROWS * a->c)
        rows_forward(a, i, x, ROWS);
    for (; i < end; i++, x += a->c)
        rows_forward(a, i, x, 1);
    return 0;
}

int DP_FN(layernorm)(struct dp_backend *be, const struct dp_layernorm *a, struct dp_err *err)
{
    struct forward f = {.a = a, .room = dp_cpu_scratch(be, dp_cpu_threads(be) * TOKENS * a->c, err)};

    return f.room ? dp_cpu_parallel(be, dp_tiles(a->n), forward_task, &f, err) : -1;
}

/* Sums over the channels of a row. */
struct row_sums {
    vf g, gx, mean, rstd;
};

/* VW channels, or those that are left, of `rows` rows; dgamma, dbeta += . */
static inline __attribute__((always_inline)) void add_channels(struct row_sums *sum, float *dgamma, float *dbeta,
                                                               const float *dy, const float *x, vf gamma, int64_t j,
                                                               int64_t c, const int rows)
{
    vf dg = vf_load(dgamma + j), db = vf_load(dbeta + j);

    DP_UNROLL
    for (int r = 0; r < rows; r++) {
        vf d = load_at(dy + r * c, j, c);
        vf xhat = (load_at(x + r * c, j, c) - sum[r].mean) * sum[r].rstd; /* in a tail: times d, 0 there */

        sum[r].g += d * gamma;
        sum[r].gx += d * gamma * xhat;
        dg += d * xhat;
        db += d;
    }
    vf_store(dgamma + j, dg);
    vf_store(dbeta + j, db);
}

/* dx = or += rstd g + (x - mean) slope + shift */
static inline __attribute__((always_inline)) void row_gradient(const struct dp_layernorm_bwd *a, int64_t i,
                                                               const float *dy, const float *x,
                                                               const struct row_sums *sum)
{
    const int64_t c = a->c;
    const float *gamma = a->gamma;
    const float scale = a->rstd[i] / (float)c;
    const vf mean = sum->mean, rstd = sum->rstd, shift = vf_set1(-scale * vf_sum(sum->g));
    const vf slope = -rstd * vf_set1(scale * vf_sum(sum->gx));
    float *dx = (float *)a->dx + i * c;
    const bool add = a->add_to_dx;
    int64_t j = 0;

    for (; j + VW <= c; j += VW) {
        vf d = rstd * (vf_load(dy + j) * vf_load(gamma + j)) + ((vf_load(x + j) - mean) * slope + shift);

        vf_store(dx + j, add ? vf_load(dx + j) + d : d);
    }
    if (j < c) {
        vf d = rstd * (load_at(dy, j, c) * load_at(gamma, j, c)) + ((load_at(x, j, c) - mean) * slope + shift);

        store_at(dx, j, c, add ? load_at(dx, j, c) + d : d);
    }
}

/* `rows` rows from i on, whose dy and x these are; dgamma, dbeta (c in whole vectors) += . */
static inline __attribute__((always_inline)) void rows_backward(const struct dp_layernorm_bwd *a, int64_t i,
                                                                const float *dy, const float *x, const int rows,
                                                                float *dgamma, float *dbeta)
{
    const int64_t c = a->c;
    const float *gamma = a->gamma;
    struct row_sums sum[ROWS_BACK];
    int64_t j = 0;

    DP_UNROLL
    for (int r = 0; r < rows; r++)
        sum[r] = (struct row_sums){{0}, {0}, vf_set1(a->mean[i + r]), vf_set1(a->rstd[i + r])};
    for (; j + VW <= c; j += VW)
        add_channels(sum, dgamma, dbeta, dy, x, vf_load(gamma + j), j, c, rows);
    if (j < c)
        add_channels(sum, dgamma, dbeta, dy, x, vf_load_n(gamma + j, c - j), j, c, rows);
    DP_UNROLL
    for (int r = 0; r < rows; r++)
        row_gradient(a, i + r, dy + r * c, x + r * c, &sum[r]);
}

struct backward {
    const struct dp_layernorm_bwd *a;
    int64_t width; /* c in whole vectors */
    float *parts;  /* (tasks, 2, width): what each task adds to dgamma and dbeta */
};

static int backward_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct backward *f = arg;
    const struct dp_layernorm_bwd *a = f->a;
    float *dgamma = f->parts + task * 2 * f->width, *dbeta = dgamma + f->width;
    int64_t i = task * TOKENS, end = i + TOKENS < a->n ? i + TOKENS : a->n;
    const float *x = (const float *)a->x + i * a->c, *dy = (const float *)a->dy + i * a->c;

    (void)thread;
    (void)err;
    memset(dgamma, 0, (size_t)(2 * f->width) * sizeof *dgamma);
    for (; i + ROWS_BACK <= end; i += ROWS_BACK, dy += ROWS_BACK * a->c, x += ROWS_BACK * a->c)
        rows_backward(a, i, dy, x, ROWS_BACK, dgamma, dbeta);
    for (; i < end; i++, dy += a->c, x += a->c)
        rows_backward(a, i, dy, x, 1, dgamma, dbeta);
    return 0;
}

/* sum (c) += part[0] + part[stride] + ... */
static void add_parts(float *sum, const float *part, int64_t stride, int64_t n_parts, int64_t c)
{
    for (int64_t j = 0; j < c; j += VW) {
        vf total = load_at(sum, j, c);

        for (int64_t i = 0; i < n_parts; i++)
            total += vf_load(part + i * stride + j);
        store_at(sum, j, c, total);
    }
}

int DP_FN(layernorm_bwd)(struct dp_backend *be, const struct dp_layernorm_bwd *a, struct dp_err *err)
{
    struct backward f = {.a = a, .width = (a->c + VW - 1) / VW * VW};
    int64_t n_tasks = dp_tiles(a->n);

    f.parts = dp_cpu_scratch(be, n_tasks * 2 * f.width, err);
    if (!f.parts || dp_cpu_parallel(be, n_tasks, backward_task, &f, err) < 0)
        return -1;
    add_parts(a->dgamma, f.parts, 2 * f.width, n_tasks, a->c);
    add_parts(a->dbeta, f.parts + f.width, 2 * f.width, n_tasks, a->c);
    return 0;
}
