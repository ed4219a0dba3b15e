/* SPDX-License-Identifier: BSD-3-Clause */
/* y = a + b */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define PART (1 << 16) /* elements of a task */

static int add_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_add *args = arg;
    const float *a = args->a, *b = args->b;
    float *y = args->y;
    int64_t i = task * PART, end = i + PART < args->n ? i + PART : args->n;

    (void)thread;
    (void)err;
    for (; i + VW <= end; i += VW)
        vf_store(y + i, vf_load(a + i) + vf_load(b + i));
    if (i < end)
        vf_store_n(y + i, vf_load_n(a + i, end - i) + vf_load_n(b + i, end - i), end - i);
    return 0;
}

int DP_FN(add)(struct dp_backend *be, const struct dp_add *a, struct dp_err *err)
{
    struct dp_add copy = *a;

    return dp_cpu_parallel(be, (a->n + PART - 1) / PART, add_task, &copy, err);
}
