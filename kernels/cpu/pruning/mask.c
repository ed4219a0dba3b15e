/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeros where a bit is not set. */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define PART (1 << 16) /* elements of a task */

static int mask_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_mask a = *(const struct dp_mask *)arg;
    int64_t i = task * PART, end = i + PART < a.n ? i + PART : a.n;

    (void)thread;
    (void)err;
    for (; i + VW <= end; i += VW)
        vf_store(a.x + i, vf_masked(vf_load(a.x + i), vf_kept(a.keep, i)));
    if (i < end)
        vf_store_n(a.x + i, vf_masked(vf_load_n(a.x + i, end - i), vf_kept(a.keep, i)), end - i);
    return 0;
}

int DP_FN(mask)(struct dp_backend *be, const struct dp_mask *a, struct dp_err *err)
{
    struct dp_mask copy = *a;

    return dp_cpu_parallel(be, (a->n + PART - 1) / PART, mask_task, &copy, err);
}
