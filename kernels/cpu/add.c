/* y = a + b, the residual path. */
#include "kernels/cpu/ops.h"

int DP_FN(add)(struct dp_backend *be, const struct dp_add *a, struct dp_err *err)
{
    int64_t i = 0;

    (void)be;
    (void)err;
    for (; i + VW <= a->n; i += VW)
        vf_store(a->y + i, vf_load(a->a + i) + vf_load(a->b + i));
    if (i < a->n)
        vf_store_n(a->y + i, vf_load_n(a->a + i, a->n - i) + vf_load_n(a->b + i, a->n - i), a->n - i);
    return 0;
}
