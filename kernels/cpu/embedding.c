/* Token plus position embedding. The backward adds in token order. */
#include "kernels/cpu/ops.h"

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

int DP_FN(embedding)(struct dp_backend *be, const struct dp_embedding *a, struct dp_err *err)
{
    (void)be;
    if (check_tokens(a->tokens, a->n, a->t, a->v, err) < 0)
        return -1;
    for (int64_t i = 0; i < a->n; i++)
        add_rows(a->y + i * a->c, a->wte + (int64_t)a->tokens[i] * a->c, a->wpe + i % a->t * a->c, a->c);
    return 0;
}

int DP_FN(embedding_bwd)(struct dp_backend *be, const struct dp_embedding_bwd *a, struct dp_err *err)
{
    (void)be;
    if (check_tokens(a->tokens, a->n, a->t, a->v, err) < 0)
        return -1;
    for (int64_t i = 0; i < a->n; i++) {
        float *te = a->dwte + (int64_t)a->tokens[i] * a->c, *pe = a->dwpe + i % a->t * a->c;

        add_rows(te, te, a->dy + i * a->c, a->c);
        add_rows(pe, pe, a->dy + i * a->c, a->c);
    }
    return 0;
}
