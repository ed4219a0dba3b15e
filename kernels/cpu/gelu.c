/* GELU, tanh form, and its gradient.
 *
 * 0.5 (1 + tanh(u)) is the logistic function of 2u, so one exp and one division do, and the result
 * stays accurate relative to itself where x is very negative.
 * With s = logistic(2u), u = k0 (x + k1 x^3):  y = x s,  y' = s + 2 x s (1 - s) k0 (1 + 3 k1 x^2).
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/vmath.h"

#define K0 0.7978845608028654f /* sqrt(2 / pi) */
#define K1 0.044715f

static inline __attribute__((always_inline)) vf gate(vf x, vf *rest)
{
    return vf_logistic(vf_set1(2.0f * K0) * x * (vf_set1(1.0f) + vf_set1(K1) * x * x), rest);
}

static inline __attribute__((always_inline)) vf gelu(vf x)
{
    vf rest;

    return x * gate(x, &rest);
}

static inline __attribute__((always_inline)) vf gelu_slope(vf x)
{
    vf rest, s = gate(x, &rest);
    vf slope = vf_set1(2.0f * K0) * (vf_set1(1.0f) + vf_set1(3.0f * K1) * x * x);

    /* far out s (1 - s) is 0, but slope may be infinite: 0 times it must stay 0 */
    slope = vf_select((vi)(slope > vf_set1(1e30f)), vf_set1(1e30f), slope);
    return s + x * (s * rest) * slope;
}

int DP_FN(gelu)(struct dp_backend *be, const struct dp_gelu *a, struct dp_err *err)
{
    int64_t i = 0;

    (void)be;
    (void)err;
    for (; i + VW <= a->n; i += VW)
        vf_store(a->y + i, gelu(vf_load(a->x + i)));
    if (i < a->n)
        vf_store_n(a->y + i, gelu(vf_load_n(a->x + i, a->n - i)), a->n - i);
    return 0;
}

int DP_FN(gelu_bwd)(struct dp_backend *be, const struct dp_gelu_bwd *a, struct dp_err *err)
{
    int64_t i = 0;

    (void)be;
    (void)err;
    for (; i + VW <= a->n; i += VW)
        vf_store(a->dx + i, vf_load(a->dy + i) * gelu_slope(vf_load(a->x + i)));
    if (i < a->n) {
        int64_t k = a->n - i;

        vf_store_n(a->dx + i, vf_load_n(a->dy + i, k) * gelu_slope(vf_load_n(a->x + i, k)), k);
    }
    return 0;
}
