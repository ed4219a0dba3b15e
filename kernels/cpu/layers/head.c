/* SPDX-License-Identifier: BSD-3-Clause */
/* The head with its loss: logits that exist a block at a time.
 *
 * The vocabulary is cut into blocks of some 512 columns and the tokens into parts of which all logits fit
 * into LOGITS_BYTES. For a part of the tokens:
 *   1. each block: logits = x w^T, and while they are in the second-level cache, for each token the largest
 *      one, e^(logit - largest) in place of the logit, and the sum of these;
 *   2. each token: the loss, and the factor of each block that makes probabilities times `scale` of them;
 *   3. each group of blocks, block by block in cache: dlogits, their rows of dw, and what they add to dx;
 *   4. dx = the groups' shares, in order.
 * One exponential per logit. Without gradients a block's logits live until its sums are known. Blocks,
 * groups and parts are cut by the shapes alone.
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

#define COLUMNS 512 /* of a block */
#define GROUPS 8    /* of blocks: what may run at the same time in backward */
#define TOKENS 512  /* at most, of a part */
#define LOGITS_BYTES ((int64_t)64 << 20) /* of 333 tokens where the vocabulary is GPT-2's */
#define ROWS 64 /* tokens of a task where tokens are what is shared out */

/* How the work is cut, and where the workspace lies. Padded: `rows` are the tokens of a part. */
struct cut {
    int64_t rows, columns, n_blocks, blocks_per_group, n_groups;
};

static int64_t round_up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

static struct cut cut_work(const struct dp_head *a)
{
    int64_t most = LOGITS_BYTES / (int64_t)sizeof(float) / a->v / 64 * 64, parts;
    struct cut s = {.columns = round_up((a->v + 3) / 4, 64)};

    most = most > TOKENS ? TOKENS : most < 64 ? 64 : most;
    parts = (a->n + most - 1) / most;
    s.rows = parts > 0 ? round_up((a->n + parts - 1) / parts, 64) : 64;
    s.columns = s.columns > COLUMNS ? COLUMNS : s.columns;
    s.n_blocks = (a->v + s.columns - 1) / s.columns;
    s.blocks_per_group = (s.n_blocks + GROUPS - 1) / GROUPS;
    s.n_groups = (s.n_blocks + s.blocks_per_group - 1) / s.blocks_per_group;
    return s;
}

/* A part of the tokens. */
struct part {
    const struct dp_head *a;
    struct cut cut;
    int64_t first, n; /* its tokens */
    float *logits;    /* (n_blocks, rows, columns); without gradients (threads, rows, columns) */
    float *largest;   /* (n_blocks, rows) */
    float *sum;       /* (n_blocks, rows), then the factors */
    float *wanted;    /* (rows), the logit of the target */
    float *shares;    /* (n_groups, rows, c) of dx */
};

static int64_t logit_blocks(const struct dp_head *a, const struct cut *s, int64_t threads)
{
    return a->dx ? s->n_blocks : threads;
}

static int64_t workspace_floats(const struct dp_head *a, const struct cut *s, int64_t threads)
{
    return s->rows * (logit_blocks(a, s, threads) * s->columns + 2 * s->n_blocks + 1 + (a->dx ? s->n_groups * a->c : 0));
}

static void cut_workspace(struct part *p, float *at, int64_t threads)
{
    const struct cut *s = &p->cut;

    p->logits = at;
    p->shares = p->logits + s->rows * logit_blocks(p->a, s, threads) * s->columns;
    p->largest = p->shares + (p->a->dx ? s->n_groups * s->rows * p->a->c : 0);
    p->sum = p->largest + s->n_blocks * s->rows;
    p->wanted = p->sum + s->n_blocks * s->rows;
}

static int64_t block_columns(const struct part *p, int64_t block)
{
    int64_t left = p->a->v - block * p->cut.columns;

    return left < p->cut.columns ? left : p->cut.columns;
}

/* Column of token i's target within a block, or -1. */
static int64_t target_in(const struct part *p, int64_t i, int64_t block)
{
    int64_t at = (int64_t)p->a->targets[p->first + i] - block * p->cut.columns;

    return at >= 0 && at < block_columns(p, block) ? at : -1;
}

/* x[j] = e^(x[j] - shift) for n columns; room for whole vectors. returns: their sum. */
static float exp_row(float *x, int64_t n, float shift)
{
    vf sum = {0}, s = vf_set1(shift);
    int64_t j = 0;

    for (; j + VW <= n; j += VW) {
        vf e = vf_exp(vf_load(x + j) - s);

        vf_store(x + j, e);
        sum += e;
    }
    if (j < n) {
        vf e = vf_masked(vf_exp(vf_load_n(x + j, n - j) - s), vi_first(n - j));

        vf_store(x + j, e);
        sum += e;
    }
    return vf_sum(sum);
}

static int logits_task(void *arg, int64_t block, int thread, struct dp_err *err)
{
    const struct part *p = arg;
    const struct dp_head *a = p->a;
    const int64_t ld = p->cut.columns, columns = block_columns(p, block);
    const float *in = a->x;
    float *x = p->logits + (a->dx ? block : thread) * p->cut.rows * ld;
    const struct dp_gemm g = {.trans_a = 'N', .trans_b = 'T', .m = p->n, .n = columns, .k = a->c, .alpha = 1.0f,
                              .a = in + p->first * a->c, .lda = a->c, .b = a->w + block * ld * a->c,
                              .ldb = a->c, .c = x, .ldc = ld};

    if (dp_cpu_gemm(&g, err) < 0)
        return -1;
    for (int64_t i = 0; i < p->n; i++, x += ld) {
        int64_t target = target_in(p, i, block);
        float largest = row_max(x, columns);

        if (target >= 0)
            p->wanted[i] = x[target];
        p->largest[block * p->cut.rows + i] = largest;
        p->sum[block * p->cut.rows + i] = exp_row(x, columns, largest);
    }
    return 0;
}

/* NaN among the logits is in the sum of its block, so in the loss. */
static void finish_token(const struct part *p, int64_t i)
{
    const int64_t ld = p->cut.rows, n = p->cut.n_blocks;
    float *sum = p->sum + i, largest = p->largest[i];
    double total = 0.0;

    for (int64_t b = 1; b < n; b++)
        largest = p->largest[b * ld + i] > largest ? p->largest[b * ld + i] : largest;
    for (int64_t b = 0; b < n; b++)
        total += (double)sum[b * ld] * exp((double)(p->largest[b * ld + i] - largest));
    p->a->loss[p->first + i] = log(total) + (double)largest - (double)p->wanted[i];
    for (int64_t b = 0; p->a->dx && b < n; b++)
        sum[b * ld] = (float)(exp((double)(p->largest[b * ld + i] - largest)) * (double)p->a->scale / total);
}

static int tokens_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct part *p = arg;
    int64_t end = (task + 1) * ROWS < p->n ? (task + 1) * ROWS : p->n;

    (void)thread;
    (void)err;
    for (int64_t i = task * ROWS; i < end; i++)
        finish_token(p, i);
    return 0;
}

static void scale_row(float *x, int64_t n, float factor)
{
    for (int64_t j = 0; j < n; j += VW) /* what stands behind n is 0 or of no concern */
        vf_store(x + j, vf_load(x + j) * vf_set1(factor));
}

static int block_gradients(const struct part *p, int64_t block, float *share, bool is_first, struct dp_err *err)
{
    const struct dp_head *a = p->a;
    const int64_t ld = p->cut.columns, columns = block_columns(p, block), at_w = block * ld * a->c;
    const float *x = a->x;
    float *d = p->logits + block * p->cut.rows * ld;
    const struct dp_gemm dw = {.trans_a = 'T', .trans_b = 'N', .m = columns, .n = a->c, .k = p->n, .alpha = 1.0f,
                               .beta = a->overwrite && p->first == 0 ? 0.0f : 1.0f, .a = d, .lda = ld,
                               .b = x + p->first * a->c, .ldb = a->c, .c = a->dw + at_w, .ldc = a->c};
    const struct dp_gemm dx = {.trans_a = 'N', .trans_b = 'N', .m = p->n, .n = a->c, .k = columns, .alpha = 1.0f,
                               .beta = is_first ? 0.0f : 1.0f, .a = d, .lda = ld, .b = a->w + at_w, .ldb = a->c,
                               .c = share, .ldc = a->c};

    for (int64_t i = 0; i < p->n; i++) {
        int64_t target = target_in(p, i, block);

        scale_row(d + i * ld, columns, p->sum[block * p->cut.rows + i]);
        if (target >= 0)
            d[i * ld + target] -= a->scale;
    }
    return dp_cpu_gemm(&dw, err) < 0 || dp_cpu_gemm(&dx, err) < 0 ? -1 : 0;
}

static int group_task(void *arg, int64_t group, int thread, struct dp_err *err)
{
    const struct part *p = arg;
    int64_t from = group * p->cut.blocks_per_group, end = from + p->cut.blocks_per_group;

    (void)thread;
    for (int64_t b = from; b < end && b < p->cut.n_blocks; b++)
        if (block_gradients(p, b, p->shares + group * p->cut.rows * p->a->c, b == from, err) < 0)
            return -1;
    return 0;
}

/* dx[j] = share[j] + share[stride + j] + ..., `groups` of them, for n neighbours. */
static void add_shares(float *dx, const float *share, int64_t stride, int64_t groups, int64_t n)
{
    for (int64_t j = 0; j < n; j += VW) { /* shares are padded: whole vectors may be read */
        vf sum = vf_load(share + j);

        for (int64_t g = 1; g < groups; g++)
            sum += vf_load(share + g * stride + j);
        if (n - j >= VW)
            vf_store(dx + j, sum);
        else
            vf_store_n(dx + j, sum, n - j);
    }
}

static int dx_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct part *p = arg;
    const int64_t c = p->a->c, i = task * ROWS, n = p->n - i < ROWS ? p->n - i : ROWS;
    float *dx = p->a->dx;

    (void)thread;
    (void)err;
    add_shares(dx + (p->first + i) * c, p->shares + i * c, p->cut.rows * c, p->cut.n_groups, n * c);
    return 0;
}

static int run_part(struct dp_backend *be, struct part *p, struct dp_err *err)
{
    int64_t row_tasks = (p->n + ROWS - 1) / ROWS;

    if (dp_cpu_parallel(be, p->cut.n_blocks, logits_task, p, err) < 0 ||
        dp_cpu_parallel(be, row_tasks, tokens_task, p, err) < 0)
        return -1;
    if (p->a->dx && (dp_cpu_parallel(be, p->cut.n_groups, group_task, p, err) < 0 ||
                     dp_cpu_parallel(be, row_tasks, dx_task, p, err) < 0))
        return -1;
    return 0;
}

static int check_head(const struct dp_head *a, struct dp_err *err)
{
    if (a->v < 1 || a->c < 1 || !a->dx != !a->dw)
        return dp_err_set(err, DP_EINVAL, "head: %lld channels, vocabulary of %lld, dx without dw or dw without dx",
                          (long long)a->c, (long long)a->v);
    for (int64_t i = 0; i < a->n; i++)
        if (a->targets[i] >= a->v)
            return dp_err_set(err, DP_EINVAL, "head: target %u at %lld, the vocabulary has %lld", a->targets[i],
                              (long long)i, (long long)a->v);
    return 0;
}

int DP_FN(head)(struct dp_backend *be, const struct dp_head *a, struct dp_err *err)
{
    int64_t threads = dp_cpu_threads(be);
    struct part p = {.a = a};
    float *space;

    if (check_head(a, err) < 0)
        return -1;
    p.cut = cut_work(a);
    space = dp_cpu_scratch(be, workspace_floats(a, &p.cut, threads), err);
    if (!space)
        return -1;
    cut_workspace(&p, space, threads);
    for (; p.first < a->n; p.first += p.cut.rows) {
        p.n = a->n - p.first < p.cut.rows ? a->n - p.first : p.cut.rows;
        if (run_part(be, &p, err) < 0)
            return -1;
    }
    return 0;
}

size_t DP_FN(head_bytes)(struct dp_backend *be, int64_t n, int64_t c, int64_t v)
{
    float none;
    const struct dp_head a = {.n = n, .c = c, .v = v, .dx = &none};
    struct cut cut = cut_work(&a);

    return (size_t)workspace_floats(&a, &cut, dp_cpu_threads(be)) * sizeof(float);
}
