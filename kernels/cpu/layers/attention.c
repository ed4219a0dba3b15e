/* SPDX-License-Identifier: BSD-3-Clause */
/* Causal attention in blocks (Dao et al. 2022, arXiv:2205.14135): memory grows with the context, not with
 * its square.
 *
 * A head of a sequence is one task. Its rows lie 3c floats apart, which a cache takes badly, so what is
 * read again and again is copied first: keys (backward: and values) into tiles, where 64 tokens of one
 * channel are neighbours, for products over channels; rows side by side for products over tokens, padded
 * with zeros to whole vectors.
 *
 * Forward goes through 64 queries and, for these, through blocks of 256 keys: scores, their running
 * maximum and sum (what earlier blocks gave is scaled when the maximum grows), probabilities times values.
 * Backward forms the probabilities again from the log-sum-exp that forward kept, for 64 queries and 64
 * keys at a time; sums over queries and over keys run in index order.
 * Scores are kept in units of ln 2, so that probabilities are powers of 2.
 * Products stop at the diagonal (small_gemm.c), and what they read behind it is 0.
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

#include "common/numbers.h"

#define QUERIES DP_TILE
#define LOG2_E 1.44269504088896341f /* e^x = 2^(x log2 e) */
#define LN_2 0.693147180559945309f /* and back */
#define KEYS 256 /* of a block of forward; a multiple of DP_TILE */

/* One head of one sequence. */
struct head {
    int64_t t, size, width; /* width: size in whole vectors */
    int64_t at_qkv, at_y, at_lse; /* where it begins in each tensor */
    int64_t ld_qkv, ld_y;
};

static struct head head_at(int64_t task, int64_t t, int64_t c, int64_t n_heads)
{
    int64_t b = task / n_heads, h = task % n_heads, size = c / n_heads;

    return (struct head){.t = t, .size = size, .width = (size + VW - 1) / VW * VW,
                         .at_qkv = b * t * 3 * c + h * size, .at_y = b * t * c + h * size, .at_lse = task * t,
                         .ld_qkv = 3 * c, .ld_y = c};
}

static int check_shape(int64_t b, int64_t t, int64_t c, int64_t h, struct dp_err *err)
{
    if (b < 0 || t < 1 || c < 1 || h < 1 || c % h)
        return dp_err_set(err, DP_EINVAL, "attention: %lld channels in %lld heads, context %lld",
                          (long long)c, (long long)h, (long long)t);
    return 0;
}

/* A head's rows lie so far apart that no hardware fetches them in time: ask for the line of p AHEAD rows
 * further on. Stores gain the most, because few of them wait for memory at a time. */
#define AHEAD 16
static inline void fetch_ahead(const float *p, int64_t ld)
{
    __builtin_prefetch(p + AHEAD * ld, 0, 2);
}

/* out (rows, width) = scale * x (rows, size), zeros behind size. */
static void gather(float *out, int64_t width, const float *x, int64_t ld, int64_t rows, int64_t size, float scale)
{
    for (int64_t i = 0; i < rows; i++, out += width, x += ld)
        for (int64_t j = 0; j < width; j += VW) {
            fetch_ahead(x + j, ld);
            vf_store(out + j, vf_set1(scale) * (j + VW <= size ? vf_load(x + j) : vf_load_n(x + j, size - j)));
        }
}

/* y (rows, size), rows ld apart, = x (rows, width) * factor. */
static void scatter(float *y, int64_t ld, const float *x, int64_t width, int64_t rows, int64_t size, float factor)
{
    for (int64_t i = 0; i < rows; i++, y += ld, x += width)
        for (int64_t j = 0; j < size; j += VW) {
            vf v = vf_load(x + j) * vf_set1(factor);

            fetch_ahead(y + j, ld);
            if (j + VW <= size)
                vf_store(y + j, v);
            else
                vf_store_n(y + j, v, size - j);
        }
}

/* Columns that the products may read in a row of which `seen` are in front of the diagonal. */
static int64_t columns_read(int64_t seen, int64_t columns)
{
    return dp_least_i64((seen + DP_GEMM_BAND + VW - 1) / VW * VW, columns);
}

/* Of a row of which `seen` >= 1 columns are in front of the diagonal: the whole vectors before the last
 * one, and the lanes of that one. A last vector that is whole takes the same way, so that the number of
 * steps, which branch prediction learns, changes once in VW rows. */
struct span {
    int64_t whole;
    vi lanes;
};

static inline struct span span_of(int64_t seen)
{
    int64_t whole = (seen - 1) / VW * VW;

    return (struct span){whole, vi_first(seen - whole)};
}

static inline void clear_columns(float *x, int64_t from, int64_t to)
{
    for (; from < to; from += VW)
        vf_store(x + from, (vf){0});
}

/* ---- forward ------------------------------------------------------------------------------------- */

/* Workspace of a thread, and the running state of 64 queries. */
struct forward {
    float *key_tiles, *values; /* (tiles, size, 64), (t, width) */
    float *q, *scores, *y;     /* (64, width), (64, KEYS), (64, width) */
    float *sum;                /* (64, VW): lanes of the sum of each row */
    float largest[QUERIES];
};

static int64_t forward_floats(const struct head *s)
{
    return dp_tiles(s->t) * DP_TILE * (s->size + s->width) + QUERIES * (2 * s->width + KEYS + VW);
}

static void cut_forward(struct forward *f, float *p, const struct head *s)
{
    f->scores = p;
    f->sum = f->scores + QUERIES * KEYS;
    f->key_tiles = f->sum + QUERIES * VW;
    f->values = f->key_tiles + dp_tiles(s->t) * DP_TILE * s->size;
    f->y = f->values + dp_tiles(s->t) * DP_TILE * s->width;
    f->q = f->y + QUERIES * s->width;
}

/* Scores of keys k0 ... to probabilities, up to a factor that the end knows. */
static void exp_rows(struct forward *f, const struct head *s, int64_t q0, int64_t rows, int64_t k0)
{
    int64_t keys = dp_least_i64(q0 + rows - k0, KEYS), columns = (keys + DP_TILE - 1) / DP_TILE * DP_TILE;

    for (int64_t i = 0; i < rows; i++) {
        float *x = f->scores + i * KEYS, before = k0 ? f->largest[i] : -INFINITY;
        int64_t seen = dp_least_i64(q0 + i + 1 - k0, KEYS);
        struct span span = span_of(seen);
        vf best = vf_set1(before), sum = {0}, shift, e;

        for (int64_t j = 0; j < span.whole; j += VW)
            best = vf_larger(vf_load(x + j), best);
        e = vf_select(span.lanes, vf_load(x + span.whole), vf_set1(-INFINITY));
        f->largest[i] = vf_max(vf_larger(e, best));
        shift = vf_set1(f->largest[i]);
        for (int64_t j = 0; j < span.whole; j += VW) {
            vf p = vf_exp2(vf_load(x + j) - shift);

            vf_store(x + j, p);
            sum += p;
        }
        e = vf_exp2(e - shift);
        vf_store(x + span.whole, e);
        sum += e;
        clear_columns(x, span.whole + VW, columns_read(seen, columns));
        if (k0) {
            vf factor = vf_exp2(vf_set1(before) - shift);

            sum += factor * vf_load(f->sum + i * VW);
            for (int64_t j = 0; j < s->width; j += VW)
                vf_store(f->y + i * s->width + j, factor * vf_load(f->y + i * s->width + j));
        }
        vf_store(f->sum + i * VW, sum);
    }
}

static void forward_block(struct forward *f, const struct head *s, int64_t q0, int64_t rows, int64_t k0)
{
    int64_t keys = dp_least_i64(q0 + rows - k0, KEYS);
    struct dp_small_gemm score = {.m = rows, .n = DP_TILE, .k = s->size, .shape = DP_GEMM_C_LOWER, .a = f->q,
                                  .a_row = s->width, .a_col = 1, .ldb = DP_TILE, .ldc = KEYS};
    struct dp_small_gemm apply = {.m = rows, .n = s->width, .k = keys, .shape = DP_GEMM_A_LOWER,
                                  .diagonal = q0 - k0, .accumulate = k0 > 0, .a = f->scores, .a_row = KEYS,
                                  .a_col = 1, .b = f->values + k0 * s->width, .ldb = s->width, .c = f->y,
                                  .ldc = s->width};

    for (int64_t k = 0; k < keys; k += DP_TILE) {
        score.b = f->key_tiles + (k0 + k) * s->size;
        score.c = f->scores + k;
        score.diagonal = q0 - k0 - k;
        DP_FN(small_gemm)(&score);
    }
    exp_rows(f, s, q0, rows, k0);
    DP_FN(small_gemm)(&apply);
}

struct forward_call {
    const struct dp_attention *a;
    float *space;
};

static int forward_head(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct forward_call *call = arg;
    const struct dp_attention *a = call->a;
    struct head s = head_at(task, a->t, a->c, a->h);
    const float *q = (const float *)a->qkv + s.at_qkv;
    float *y = (float *)a->y + s.at_y, *lse = a->lse + s.at_lse;
    struct forward f;

    (void)err;
    cut_forward(&f, call->space + thread * forward_floats(&s), &s);
    DP_FN(pack)(f.key_tiles, q + a->c, s.ld_qkv, s.t, s.size);
    gather(f.values, s.width, q + 2 * a->c, s.ld_qkv, s.t, s.size, 1.0f);
    for (int64_t q0 = 0; q0 < s.t; q0 += QUERIES) {
        int64_t rows = dp_least_i64(s.t - q0, QUERIES);

        gather(f.q, s.width, q + q0 * s.ld_qkv, s.ld_qkv, rows, s.size, LOG2_E / sqrtf((float)s.size));
        for (int64_t k0 = 0; k0 < q0 + rows; k0 += KEYS)
            forward_block(&f, &s, q0, rows, k0);
        for (int64_t i = 0; i < rows; i++) {
            float sum = vf_sum(vf_load(f.sum + i * VW));

            lse[q0 + i] = LN_2 * f.largest[i] + logf(sum);
            scatter(y + (q0 + i) * s.ld_y, s.ld_y, f.y + i * s.width, s.width, 1, s.size, 1.0f / sum);
        }
    }
    return 0;
}

int DP_FN(attention)(struct dp_backend *be, const struct dp_attention *a, struct dp_err *err)
{
    struct forward_call call = {.a = a};
    struct head s;

    if (check_shape(a->b, a->t, a->c, a->h, err) < 0)
        return -1;
    s = head_at(0, a->t, a->c, a->h);
    call.space = dp_cpu_scratch(be, dp_cpu_threads(be) * forward_floats(&s), err);
    return call.space ? dp_cpu_parallel(be, a->b * a->h, forward_head, &call, err) : -1;
}

/* ---- backward ------------------------------------------------------------------------------------ */

/* Workspace of a thread: of the head, then of 64 queries, then of these with 64 keys. */
struct backward {
    float *key_tiles, *value_tiles, *keys, *dk, *dv; /* (tiles, size, 64) twice, (t, width) three times */
    float *q, *dy, *dq;                              /* (64, width) */
    float *p, *dp;                                   /* (64, 64) */
    float shift[QUERIES], dot[QUERIES];              /* lse / ln 2, and dy y of each query */
};

static int64_t backward_floats(const struct head *s)
{
    return dp_tiles(s->t) * DP_TILE * (2 * s->size + 3 * s->width) + QUERIES * (3 * s->width + 2 * DP_TILE);
}

static void cut_backward(struct backward *f, float *p, const struct head *s)
{
    int64_t padded = dp_tiles(s->t) * DP_TILE;

    f->p = p;
    f->dp = f->p + QUERIES * DP_TILE;
    f->q = f->dp + QUERIES * DP_TILE;
    f->dy = f->q + QUERIES * s->width;
    f->dq = f->dy + QUERIES * s->width;
    f->keys = f->dq + QUERIES * s->width;
    f->dk = f->keys + padded * s->width;
    f->dv = f->dk + padded * s->width;
    f->key_tiles = f->dv + padded * s->width;
    f->value_tiles = f->key_tiles + padded * s->size;
}

/* p = 2^(scores - shift), 0 behind the diagonal; dp = p (dp - dot), the gradient of the scores. */
static void score_gradients(struct backward *f, int64_t rows, int64_t diagonal)
{
    for (int64_t i = 0; i < rows; i++) {
        float *p = f->p + i * DP_TILE, *dp = f->dp + i * DP_TILE;
        int64_t seen = dp_least_i64(diagonal + i + 1, DP_TILE), end = columns_read(seen, DP_TILE);
        struct span span = span_of(seen);
        vf shift = vf_set1(f->shift[i]), dot = vf_set1(f->dot[i]), e;

        for (int64_t j = 0; j < span.whole; j += VW) {
            e = vf_exp2(vf_load(p + j) - shift);
            vf_store(p + j, e);
            vf_store(dp + j, e * (vf_load(dp + j) - dot));
        }
        e = vf_select(span.lanes, vf_exp2(vf_load(p + span.whole) - shift), (vf){0});
        vf_store(p + span.whole, e);
        vf_store(dp + span.whole, vf_select(span.lanes, e * (vf_load(dp + span.whole) - dot), (vf){0}));
        clear_columns(p, span.whole + VW, end);
        clear_columns(dp, span.whole + VW, end);
    }
}

/* Queries [q0, q0 + rows) with up to 64 keys from k0 on. */
static void backward_block(struct backward *f, const struct head *s, int64_t q0, int64_t rows, int64_t k0)
{
    int64_t keys = dp_least_i64(s->t - k0, DP_TILE), diagonal = q0 - k0;
    struct dp_small_gemm product = {.m = rows, .n = DP_TILE, .k = s->size, .shape = DP_GEMM_C_LOWER,
                                    .diagonal = diagonal, .a = f->q, .a_row = s->width, .a_col = 1,
                                    .b = f->key_tiles + k0 * s->size, .ldb = DP_TILE, .c = f->p, .ldc = DP_TILE};
    struct dp_small_gemm over_keys = {.m = rows, .n = s->width, .k = keys, .shape = DP_GEMM_A_LOWER,
                                      .diagonal = diagonal, .accumulate = k0 > 0, .a = f->dp, .a_row = DP_TILE,
                                      .a_col = 1, .b = f->keys + k0 * s->width, .ldb = s->width, .c = f->dq,
                                      .ldc = s->width};
    struct dp_small_gemm over_queries = {.m = keys, .n = s->width, .k = rows, .shape = DP_GEMM_A_UPPER,
                                         .diagonal = -diagonal, .accumulate = diagonal > 0, .a = f->p, .a_row = 1,
                                         .a_col = DP_TILE, .b = f->dy, .ldb = s->width,
                                         .c = f->dv + k0 * s->width, .ldc = s->width};

    DP_FN(small_gemm)(&product);
    product.a = f->dy;
    product.b = f->value_tiles + k0 * s->size;
    product.c = f->dp;
    DP_FN(small_gemm)(&product);
    score_gradients(f, rows, diagonal);
    DP_FN(small_gemm)(&over_queries);
    over_queries.a = f->dp;
    over_queries.b = f->q;
    over_queries.c = f->dk + k0 * s->width;
    DP_FN(small_gemm)(&over_queries);
    DP_FN(small_gemm)(&over_keys);
}

/* x: padded with zeros; y: a row of a tensor whose rows are ld apart. */
static float dot_product(const float *x, const float *y, int64_t ld, int64_t n)
{
    vf sum = {0};

    for (int64_t j = 0; j < n; j += VW) {
        fetch_ahead(y + j, ld);
        sum += vf_load(x + j) * (j + VW <= n ? vf_load(y + j) : vf_load_n(y + j, n - j));
    }
    return vf_sum(sum);
}

struct backward_call {
    const struct dp_attention_bwd *a;
    float *space;
};

static int backward_head(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct backward_call *call = arg;
    const struct dp_attention_bwd *a = call->a;
    struct head s = head_at(task, a->t, a->c, a->h);
    const float *q = (const float *)a->qkv + s.at_qkv, *lse = a->lse + s.at_lse;
    const float *y = (const float *)a->y + s.at_y, *dy = (const float *)a->dy + s.at_y;
    float *dq = (float *)a->dqkv + s.at_qkv, scale = 1.0f / sqrtf((float)s.size);
    struct backward f;

    (void)err;
    cut_backward(&f, call->space + thread * backward_floats(&s), &s);
    DP_FN(pack)(f.key_tiles, q + a->c, s.ld_qkv, s.t, s.size);
    DP_FN(pack)(f.value_tiles, q + 2 * a->c, s.ld_qkv, s.t, s.size);
    gather(f.keys, s.width, q + a->c, s.ld_qkv, s.t, s.size, 1.0f);
    for (int64_t q0 = 0; q0 < s.t; q0 += QUERIES) {
        int64_t rows = dp_least_i64(s.t - q0, QUERIES);

        gather(f.q, s.width, q + q0 * s.ld_qkv, s.ld_qkv, rows, s.size, LOG2_E * scale);
        gather(f.dy, s.width, dy + q0 * s.ld_y, s.ld_y, rows, s.size, 1.0f);
        for (int64_t i = 0; i < rows; i++) {
            f.shift[i] = LOG2_E * lse[q0 + i];
            f.dot[i] = dot_product(f.dy + i * s.width, y + (q0 + i) * s.ld_y, s.ld_y, s.size);
        }
        for (int64_t k0 = 0; k0 < q0 + rows; k0 += DP_TILE)
            backward_block(&f, &s, q0, rows, k0);
        scatter(dq + q0 * s.ld_qkv, s.ld_qkv, f.dq, s.width, rows, s.size, scale);
    }
    scatter(dq + a->c, s.ld_qkv, f.dk, s.width, s.t, s.size, LN_2);
    scatter(dq + 2 * a->c, s.ld_qkv, f.dv, s.width, s.t, s.size, 1.0f);
    return 0;
}

int DP_FN(attention_bwd)(struct dp_backend *be, const struct dp_attention_bwd *a, struct dp_err *err)
{
    struct backward_call call = {.a = a};
    struct head s;

    if (check_shape(a->b, a->t, a->c, a->h, err) < 0)
        return -1;
    s = head_at(0, a->t, a->c, a->h);
    call.space = dp_cpu_scratch(be, dp_cpu_threads(be) * backward_floats(&s), err);
    return call.space ? dp_cpu_parallel(be, a->b * a->h, backward_head, &call, err) : -1;
}
