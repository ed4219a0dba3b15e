/* GELU and its gradient, element by element (vmath.h has the formula). */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/vmath.h"

int DP_FN(gelu)(struct dp_backend *be, const struct dp_gelu *a, struct dp_err *err)
{
    int64_t i = 0;

    (void)be;
    (void)err;
    for (; i + VW <= a->n; i += VW)
        vf_store(a->y + i, vf_gelu(vf_load(a->x + i)));
    if (i < a->n)
        vf_store_n(a->y + i, vf_gelu(vf_load_n(a->x + i, a->n - i)), a->n - i);
    return 0;
}

int DP_FN(gelu_bwd)(struct dp_backend *be, const struct dp_gelu_bwd *a, struct dp_err *err)
{
    int64_t i = 0;
    vf y;

    (void)be;
    (void)err;
    for (; i + VW <= a->n; i += VW)
        vf_store(a->dx + i, vf_load(a->dy + i) * vf_gelu_slope(vf_load(a->x + i), &y));
    if (i < a->n) {
        int64_t k = a->n - i;

        vf_store_n(a->dx + i, vf_load_n(a->dy + i, k) * vf_gelu_slope(vf_load_n(a->x + i, k), &y), k);
    }
    return 0;
}
