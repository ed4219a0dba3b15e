/* SPDX-License-Identifier: BSD-3-Clause */
/* Sum of squares in a fixed order: float lanes over 4096 elements, the lanes and blocks in double. */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

#define BLOCK 4096 /* summed in one order, whatever the number of threads */
#define BLOCKS 16 /* of a task */
#define AHEAD 512 /* elements asked for before they are read: adamw.c says why */

struct call {
    struct dp_sum_squares a;
    double *sum; /* of each block */
};

/* x * x summed into lanes, from `from` to the end. */
static inline __attribute__((always_inline)) vf lane_sums(const float *x, const uint64_t *keep, int64_t from,
                                                          int64_t end)
{
    vf sum[4] = {{0}, {0}, {0}, {0}};
    int64_t i = from;

    for (; i + 4 * VW <= end; i += 4 * VW) {
        DP_UNROLL
        for (int u = 0; u < 4; u++) {
            vf v = vf_load(x + i + u * VW);

            __builtin_prefetch(x + i + u * VW + AHEAD);
            if (keep)
                v = vf_masked(v, vf_kept(keep, i + u * VW));
            sum[u] += v * v;
        }
    }
    for (; i < end; i += VW) {
        vf v = end - i >= VW ? vf_load(x + i) : vf_load_n(x + i, end - i);

        if (keep)
            v = vf_masked(v, vf_kept(keep, i));
        sum[0] += v * v;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static int blocks_task(void *arg, int64_t task, int thread, struct dp_err *err)
{
    const struct call *call = arg;
    const float *x = call->a.x;
    const uint64_t *keep = call->a.keep;

    (void)thread;
    (void)err;
    for (int64_t b = task * BLOCKS; b < (task + 1) * BLOCKS && b * BLOCK < call->a.n; b++) {
        int64_t end = (b + 1) * BLOCK < call->a.n ? (b + 1) * BLOCK : call->a.n;
        vf lanes = keep ? lane_sums(x, keep, b * BLOCK, end) : lane_sums(x, NULL, b * BLOCK, end);
        double total = 0.0;

        for (int i = 0; i < VW; i++)
            total += (double)lanes[i];
        call->sum[b] = total;
    }
    return 0;
}

int DP_FN(sum_squares)(struct dp_backend *be, const struct dp_sum_squares *a, struct dp_err *err)
{
    int64_t n_blocks = (a->n + BLOCK - 1) / BLOCK;
    struct call call = {.a = *a, .sum = (double *)(void *)dp_cpu_scratch(be, 2 * n_blocks, err)};
    double total = 0.0;

    if (!call.sum || dp_cpu_parallel(be, (n_blocks + BLOCKS - 1) / BLOCKS, blocks_task, &call, err) < 0)
        return -1;
    for (int64_t b = 0; b < n_blocks; b++)
        total += call.sum[b];
    *a->sum = total;
    return 0;
}
