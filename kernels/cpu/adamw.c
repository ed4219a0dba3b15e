/* One AdamW step in one pass over the four arrays. */
#include "kernels/cpu/ops.h"

/* The constants of a step, one register each. */
struct step {
    vf lr, beta1, beta2, rest1, rest2, eps, decay, inverse1, inverse2, grad_scale;
};

static inline __attribute__((always_inline)) void step_vector(const struct step *s, vf *w, vf g, vf *m, vf *v)
{
    vf scaled = g * s->grad_scale;

    *m = s->beta1 * *m + s->rest1 * scaled;
    *v = s->beta2 * *v + s->rest2 * scaled * scaled;
    *w -= s->lr * (*m * s->inverse1 / (vf_sqrt(*v * s->inverse2) + s->eps) + s->decay * *w);
}

static void step_block(const struct dp_adamw *a, const struct step *s, int64_t i)
{
    int64_t left = a->n - i;
    bool whole = left >= VW;
    vf w = whole ? vf_load(a->w + i) : vf_load_n(a->w + i, left);
    vf g = whole ? vf_load(a->g + i) : vf_load_n(a->g + i, left);
    vf m = whole ? vf_load(a->m + i) : vf_load_n(a->m + i, left);
    vf v = whole ? vf_load(a->v + i) : vf_load_n(a->v + i, left);

    step_vector(s, &w, g, &m, &v);
    if (a->keep) {
        vi mask = vf_kept(a->keep, i);

        w = vf_masked(w, mask);
        m = vf_masked(m, mask);
        v = vf_masked(v, mask);
    }
    if (whole) {
        vf_store(a->w + i, w);
        vf_store(a->m + i, m);
        vf_store(a->v + i, v);
        if (!a->leave_g)
            vf_store(a->g + i, (vf){0});
    } else {
        vf_store_n(a->w + i, w, left);
        vf_store_n(a->m + i, m, left);
        vf_store_n(a->v + i, v, left);
        if (!a->leave_g)
            vf_store_n(a->g + i, (vf){0}, left);
    }
}

int DP_FN(adamw)(struct dp_backend *be, const struct dp_adamw *a, struct dp_err *err)
{
    struct step s = {.lr = vf_set1(a->lr), .beta1 = vf_set1(a->beta1), .beta2 = vf_set1(a->beta2),
                     .rest1 = vf_set1(1.0f - a->beta1), .rest2 = vf_set1(1.0f - a->beta2),
                     .eps = vf_set1(a->eps), .decay = vf_set1(a->decay), .inverse1 = vf_set1(1.0f / a->bias1),
                     .inverse2 = vf_set1(1.0f / a->bias2), .grad_scale = vf_set1(a->grad_scale)};

    (void)be;
    (void)err;
    for (int64_t i = 0; i < a->n; i += VW)
        step_block(a, &s, i);
    return 0;
}
