/* SPDX-License-Identifier: BSD-3-Clause */
/* Token plus position embedding. The backward adds in token order: its tasks share out the channels. */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define TOKENS 64    /* of a task of forward */
#define CHANNELS 384 /* of a task of backward */

static int check_tokens(const uint32_t *tokens, int64_t n, int64_t t, int64_t v, struct dp_err *err)
{
    if (t < 1)
        return dp_err_set(err, DP_EINVAL, "embedding: context of %lld", (long long)t);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] >= v)
            return dp_err_set(err, DP_EINVAL, "embedding: token %u at %lld, the vocabulary has %lld",
                              tokens[i], (long long)i, (long long)v);
    return 0;
}

/* y = a + b on c elements. */
static void add_rows(float *y, const float *a, const float *b, int64_t c)
{
    int64_t j = 0;

    for (; j + VW <= c; j += VW)
        vf_store(y + j, vf_load(a + j) + vf_load(b + j));
    if (j < c)
        vf_store_n(y + j, vf_load_n(a + j, c - j) + vf_load_n(b + j, c - j), c - j);
}

static int forward_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_embedding *a = arg;
    int64_t end = (task + 1) * TOKENS < a->n ? (task + 1) * TOKENS : a->n;
    float *y = a->y;

    (void)thread;
    (void)err;
    for (int64_t i = task * TOKENS; i < end; i++)
        add_rows(y + i * a->c, a->wte + (int64_t)a->tokens[i] * a->c, a->wpe + i % a->t * a->c, a->c);
    return 0;
}

int DP_FN(embedding)(struct dp_backend *be, const struct dp_embedding *a, struct dp_err *err)
{
    struct dp_embedding copy = *a;

    if (check_tokens(a->tokens, a->n, a->t, a->v, err) < 0)
        return -1;
    return dp_cpu_parallel(be, (a->n + TOKENS - 1) / TOKENS, forward_task, &copy, err);
}

static int backward_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_embedding_bwd *a = arg;
    int64_t j = task * CHANNELS, c = a->c - j < CHANNELS ? a->c - j : CHANNELS;
    const float *dy = (const float *)a->dy + j;

    (void)thread;
    (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        float *te = a->dwte + (int64_t)a->tokens[i] * a->c + j, *pe = a->dwpe + i % a->t * a->c + j;

        add_rows(te, te, dy + i * a->c, c);
        add_rows(pe, pe, dy + i * a->c, c);
    }
    return 0;
}

int DP_FN(embedding_bwd)(struct dp_backend *be, const struct dp_embedding_bwd *a, struct dp_err *err)
{
    struct dp_embedding_bwd copy = *a;

    if (check_tokens(a->tokens, a->n, a->t, a->v, err) < 0)
        return -1;
    return dp_cpu_parallel(be, (a->c + CHANNELS - 1) / CHANNELS, backward_task, &copy, err);
}
