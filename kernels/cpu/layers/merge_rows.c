/* SPDX-License-Identifier: BSD-3-Clause */
/* Listed rows of one matrix into those of another one. */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define PART 4 /* rows of a task */

static int merge_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct dp_merge_rows *a = arg;
    int64_t end = (task + 1) * PART < a->n ? (task + 1) * PART : a->n, c = a->c;

    (void)thread;
    (void)err;
    for (int64_t i = task * PART; i < end; i++) {
        float *x = a->x + a->rows[i] * c, *y = a->y + a->rows[i] * c;
        int64_t j = 0;

        for (; j + VW <= c; j += VW) {
            vf_store(y + j, vf_load(x + j) + vf_load(y + j));
            vf_store(x + j, (vf){0});
        }
        if (j < c) {
            vf_store_n(y + j, vf_load_n(x + j, c - j) + vf_load_n(y + j, c - j), c - j);
            vf_store_n(x + j, (vf){0}, c - j);
        }
    }
    return 0;
}

int DP_FN(merge_rows)(struct dp_backend *be, const struct dp_merge_rows *a, struct dp_err *err)
{
    struct dp_merge_rows copy = *a;

    return dp_cpu_parallel(be, (a->n + PART - 1) / PART, merge_task, &copy, err);
}
