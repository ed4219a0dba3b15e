/* SPDX-License-Identifier: BSD-3-Clause */
/* One AdamW step in one pass over the four arrays: as fast as memory gives them.
 *
 * What is read is asked for AHEAD elements before: four streams are too few for the hardware's
 * prefetching to keep as many lines under way as a core can wait for (38.6 million weights on a Xeon:
 * 55 ms without, 47 with; reading the four arrays alone would take 39).
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define PART (1 << 16) /* elements of a task */
#define AHEAD 256 /* elements; see above */

/* The constants of a step, one register each. */
struct step {
    vf lr, beta1, beta2, rest1, rest2, eps, decay, inverse1, inverse2, grad_scale;
};

struct call {
    struct dp_adamw a;
    struct step s;
};

static inline __attribute__((always_inline)) void step_vector(const struct step *s, vf *w, vf g, vf *m, vf *v)
{
    vf scaled = g * s->grad_scale;

    *m = s->beta1 * *m + s->rest1 * scaled;
    *v = s->beta2 * *v + s->rest2 * scaled * scaled;
    *w -= s->lr * (*m * s->inverse1 / (vf_sqrt(*v * s->inverse2) + s->eps) + s->decay * *w);
}

/* Elements i ... i + k - 1, k at most VW. */
static inline __attribute__((always_inline)) void step_few(const struct dp_adamw *a, const struct step *s, int64_t i,
                                                           int64_t k)
{
    vf w = vf_load_n(a->w + i, k), g = vf_load_n(a->g + i, k);
    vf m = vf_load_n(a->m + i, k), v = vf_load_n(a->v + i, k);

    step_vector(s, &w, g, &m, &v);
    if (a->keep) {
        vi mask = vf_kept(a->keep, i);

        w = vf_masked(w, mask);
        m = vf_masked(m, mask);
        v = vf_masked(v, mask);
    }
    vf_store_n(a->w + i, w, k);
    vf_store_n(a->m + i, m, k);
    vf_store_n(a->v + i, v, k);
    if (!a->leave_g)
        vf_store_n(a->g + i, (vf){0}, k);
}

static int step_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct call *call = arg;
    const struct dp_adamw a = call->a; /* a store through a vector might change *call, for the compiler */
    const struct step s = call->s;
    int64_t i = task * PART, end = i + PART < a.n ? i + PART : a.n;

    (void)thread;
    (void)err;
    for (; i + VW <= end; i += VW) {
        const float *const streams[] = {a.w, a.g, a.m, a.v};

        DP_UNROLL
        for (int j = 0; j < 4; j++)
            __builtin_prefetch(streams[j] + i + AHEAD);
        step_few(&a, &s, i, VW);
    }
    if (i < end)
        step_few(&a, &s, i, end - i);
    return 0;
}

int DP_FN(adamw)(struct dp_backend *be, const struct dp_adamw *a, struct dp_err *err)
{
    const struct dp_step_scalars *x = a->step;
    struct call call = {.a = *a};

    call.s = (struct step){.lr = vf_set1(x->lr), .beta1 = vf_set1(x->beta1), .beta2 = vf_set1(x->beta2),
                           .rest1 = vf_set1(1.0f - x->beta1), .rest2 = vf_set1(1.0f - x->beta2),
                           .eps = vf_set1(x->eps), .decay = vf_set1(a->decays ? x->decay : 0.0f),
                           .inverse1 = vf_set1(1.0f / x->bias1), .inverse2 = vf_set1(1.0f / x->bias2),
                           .grad_scale = vf_set1(x->grad_scale)};
    return dp_cpu_parallel(be, (a->n + PART - 1) / PART, step_task, &call, err);
}
