/* Causal attention, a block of 32 queries at a time.
 *
 * For one head and one block of queries the scores against all keys up to the block's end are a
 * (32, keys) workspace: one product makes them, rows are turned into exp(score - max), one product
 * applies them. Keys (and in backward values) are packed once per head, so that 64 tokens of one
 * channel are neighbours. From forward to backward only the log-sum-exp of each row is kept; backward
 * forms the probabilities again as exp(score - lse) (Dao et al. 2022, arXiv:2205.14135, algorithm 4,
 * with rows whole). Only the block on the diagonal computes scores that the mask throws away.
 * Blocks run in order, so dk and dv add up in a fixed order.
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

#define BLOCK 32

/* One head of one sequence; strides in floats. */
struct head {
    int64_t t, size, ld_qkv, ld_y;
    const float *q, *k, *v;
};

static struct head head_at(const float *qkv, int64_t b, int64_t h, int64_t t, int64_t c, int64_t n_heads)
{
    struct head s = {.t = t, .size = c / n_heads, .ld_qkv = 3 * c, .ld_y = c};

    s.q = qkv + b * t * 3 * c + h * s.size;
    s.k = s.q + c;
    s.v = s.k + c;
    return s;
}

static int check_shape(int64_t b, int64_t t, int64_t c, int64_t h, struct dp_err *err)
{
    if (b < 0 || t < 1 || c < 1 || h < 1 || c % h)
        return dp_err_set(err, DP_EINVAL, "attention: %lld channels in %lld heads, context %lld",
                          (long long)c, (long long)h, (long long)t);
    return 0;
}

/* Floats between rows of scores: whole tiles. */
static int64_t score_ld(int64_t t)
{
    return dp_tiles(t) * DP_TILE;
}

/* out (rows, keys) = scale * a (rows, size) times packed keys or values transposed. Columns behind
 * `keys` up to the tile's end are overwritten too. */
static void rows_times_tiles(float *out, int64_t rows, int64_t keys, float scale, const float *a, int64_t lda,
                             const float *tiles, const struct head *s)
{
    struct dp_small_gemm g = {.m = rows, .k = s->size, .alpha = scale, .a = a, .a_row = lda, .a_col = 1,
                              .ldb = DP_TILE, .ldc = score_ld(s->t)};

    for (int64_t k = 0; k < keys; k += DP_TILE) {
        int64_t n = (keys - k + 2 * VW - 1) / (2 * VW) * (2 * VW);

        g.n = n < DP_TILE ? n : DP_TILE;
        g.b = tiles + k * s->size;
        g.c = out + k;
        DP_FN(small_gemm)(&g);
    }
}

/* out (rows, size) = scale * p (rows, keys) b (keys, size). */
static void apply_rows(float *out, int64_t ld_out, int64_t rows, int64_t keys, float scale, const float *p,
                       const float *b, const struct head *s)
{
    struct dp_small_gemm g = {.m = rows, .n = s->size, .k = keys, .alpha = scale, .a = p,
                              .a_row = score_ld(s->t), .a_col = 1, .b = b, .ldb = s->ld_qkv, .c = out,
                              .ldc = ld_out};

    DP_FN(small_gemm)(&g);
}

/* out (keys, size) += scale * p (rows, keys)^T a (rows, size). */
static void add_columns(float *out, int64_t rows, int64_t keys, float scale, const float *p, const float *a,
                        int64_t lda, const struct head *s)
{
    struct dp_small_gemm g = {.m = keys, .n = s->size, .k = rows, .alpha = scale, .accumulate = true, .a = p,
                              .a_row = 1, .a_col = score_ld(s->t), .b = a, .ldb = lda, .c = out,
                              .ldc = s->ld_qkv};

    DP_FN(small_gemm)(&g);
}

/* x[0..seen) = exp(x - shift), x[seen..keys) = 0; returns the sum. x has room for whole vectors. */
static float exp_row(float *x, int64_t seen, int64_t keys, float shift)
{
    vf sum = {0};
    int64_t j = 0;

    for (; j + VW <= seen; j += VW) {
        vf e = vf_exp(vf_load(x + j) - vf_set1(shift));

        vf_store(x + j, e);
        sum += e;
    }
    for (; j < keys; j += VW) {
        vf e = (vf){0};

        if (j < seen)
            e = (vf)((vi)vf_exp(vf_load(x + j) - vf_set1(shift)) & vi_first(seen - j));
        vf_store(x + j, e);
        sum += e;
    }
    return vf_sum(sum);
}

/* y *= factor */
static void scale_row(float *y, int64_t n, float factor)
{
    for (int64_t j = 0; j < n; j++)
        y[j] *= factor;
}

/* Queries [q0, q0 + rows) of one head; y, lse: of that head; p: (rows, score_ld). */
static void forward_block(const struct head *s, int64_t q0, int64_t rows, float *y, float *lse,
                          const float *key_tiles, float *p)
{
    int64_t keys = q0 + rows, ld = score_ld(s->t);
    float inverse[BLOCK];

    rows_times_tiles(p, rows, keys, 1.0f / sqrtf((float)s->size), s->q + q0 * s->ld_qkv, s->ld_qkv, key_tiles,
                     s);
    for (int64_t i = 0; i < rows; i++) {
        float best = row_max(p + i * ld, q0 + i + 1);
        float sum = exp_row(p + i * ld, q0 + i + 1, keys, best);

        lse[q0 + i] = best + logf(sum);
        inverse[i] = 1.0f / sum;
    }
    apply_rows(y + q0 * s->ld_y, s->ld_y, rows, keys, 1.0f, p, s->v, s);
    for (int64_t i = 0; i < rows; i++)
        scale_row(y + (q0 + i) * s->ld_y, s->size, inverse[i]);
}

int DP_FN(attention)(struct dp_backend *be, const struct dp_attention *a, struct dp_err *err)
{
    float *p, *key_tiles;

    if (check_shape(a->b, a->t, a->c, a->h, err) < 0)
        return -1;
    p = dp_cpu_scratch(be, score_ld(a->t) * (BLOCK + a->c / a->h), err);
    if (!p)
        return -1;
    key_tiles = p + BLOCK * score_ld(a->t);
    for (int64_t b = 0; b < a->b; b++)
        for (int64_t h = 0; h < a->h; h++) {
            struct head s = head_at(a->qkv, b, h, a->t, a->c, a->h);
            float *y = a->y + b * a->t * a->c + h * s.size, *lse = a->lse + (b * a->h + h) * a->t;

            DP_FN(pack)(key_tiles, s.k, s.ld_qkv, s.t, s.size);
            for (int64_t q0 = 0; q0 < a->t; q0 += BLOCK)
                forward_block(&s, q0, a->t - q0 < BLOCK ? a->t - q0 : BLOCK, y, lse, key_tiles, p);
        }
    return 0;
}

static float dot(const float *a, const float *b, int64_t n)
{
    vf sum = {0};
    int64_t j = 0;

    for (; j + VW <= n; j += VW)
        sum += vf_load(a + j) * vf_load(b + j);
    if (j < n)
        sum += vf_load_n(a + j, n - j) * vf_load_n(b + j, n - j);
    return vf_sum(sum);
}

/* ds = p (dp - d), in place of dp; p is 0 behind the diagonal. */
static void score_gradient(float *dp, const float *p, int64_t keys, float d)
{
    int64_t j = 0;

    for (; j + VW <= keys; j += VW)
        vf_store(dp + j, vf_load(p + j) * (vf_load(dp + j) - vf_set1(d)));
    for (; j < keys; j++)
        dp[j] = p[j] * (dp[j] - d);
}

/* Where one head's rows of backward lie, and its workspace. */
struct head_bwd {
    const float *y, *dy, *lse;
    float *dq, *dk, *dv;
    float *key_tiles, *value_tiles, *p, *dp;
};

static void backward_block(const struct head *s, const struct head_bwd *g, int64_t q0, int64_t rows)
{
    int64_t keys = q0 + rows, ld = score_ld(s->t);
    float scale = 1.0f / sqrtf((float)s->size);
    const float *q = s->q + q0 * s->ld_qkv, *dy = g->dy + q0 * s->ld_y, *y = g->y + q0 * s->ld_y;

    rows_times_tiles(g->p, rows, keys, scale, q, s->ld_qkv, g->key_tiles, s);
    rows_times_tiles(g->dp, rows, keys, 1.0f, dy, s->ld_y, g->value_tiles, s);
    for (int64_t i = 0; i < rows; i++)
        exp_row(g->p + i * ld, q0 + i + 1, keys, g->lse[q0 + i]);
    add_columns(g->dv, rows, keys, 1.0f, g->p, dy, s->ld_y, s);
    for (int64_t i = 0; i < rows; i++)
        score_gradient(g->dp + i * ld, g->p + i * ld, keys, dot(dy + i * s->ld_y, y + i * s->ld_y, s->size));
    apply_rows(g->dq + q0 * s->ld_qkv, s->ld_qkv, rows, keys, scale, g->dp, s->k, s);
    add_columns(g->dk, rows, keys, scale, g->dp, q, s->ld_qkv, s);
}

int DP_FN(attention_bwd)(struct dp_backend *be, const struct dp_attention_bwd *a, struct dp_err *err)
{
    struct head_bwd g;
    int64_t ld = score_ld(a->t);

    if (check_shape(a->b, a->t, a->c, a->h, err) < 0)
        return -1;
    g.p = dp_cpu_scratch(be, 2 * ld * (BLOCK + a->c / a->h), err);
    if (!g.p)
        return -1;
    g.dp = g.p + BLOCK * ld;
    g.key_tiles = g.dp + BLOCK * ld;
    g.value_tiles = g.key_tiles + ld * (a->c / a->h);
    memset(a->dqkv, 0, (size_t)(a->b * a->t * 3 * a->c) * sizeof *a->dqkv);
    for (int64_t b = 0; b < a->b; b++)
        for (int64_t h = 0; h < a->h; h++) {
            struct head s = head_at(a->qkv, b, h, a->t, a->c, a->h);
            int64_t at_y = b * a->t * a->c + h * s.size;

            g.y = a->y + at_y;
            g.dy = a->dy + at_y;
            g.lse = a->lse + (b * a->h + h) * a->t;
            g.dq = a->dqkv + (s.q - a->qkv);
            g.dk = g.dq + a->c;
            g.dv = g.dk + a->c;
            DP_FN(pack)(g.key_tiles, s.k, s.ld_qkv, s.t, s.size);
            DP_FN(pack)(g.value_tiles, s.v, s.ld_qkv, s.t, s.size);
            for (int64_t q0 = 0; q0 < a->t; q0 += BLOCK)
                backward_block(&s, &g, q0, a->t - q0 < BLOCK ? a->t - q0 : BLOCK);
        }
    return 0;
}
