/* SPDX-License-Identifier: BSD-3-Clause */
/* A sum of doubles, one after the other: that order is the operation. */
#include "kernels/cpu/ops.h"

int DP_FN(sum)(struct dp_backend *be, const struct dp_sum *a, struct dp_err *err)
{
    double total = 0.0;

    (void)be;
    (void)err;
    for (int64_t i = 0; i < a->n; i++)
        total += a->x[i];
    *a->sum = a->add_to_sum ? *a->sum + total : total;
    return 0;
}
