/* Zero what was pruned in a matrix that is stored dense: its gradient, before the global norm. */
#include "kernels/cpu/ops.h"

int DP_FN(mask)(struct dp_backend *be, const struct dp_mask *a, struct dp_err *err)
{
    (void)be;
    (void)err;
    for (int64_t i = 0; i < a->n; i += 64) {
        uint64_t bits = a->keep[i >> 6];
        int64_t end = a->n - i < 64 ? a->n - i : 64;

        for (int64_t j = 0; j < end; j++)
            a->x[i + j] = bits >> j & 1 ? a->x[i + j] : 0.0f; /* a choice, no product: NaN goes too */
    }
    return 0;
}
