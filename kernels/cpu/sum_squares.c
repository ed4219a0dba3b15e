/* Sum of squares in a fixed order: float lanes over 4096 elements, the lanes and blocks in double. */
#include "kernels/cpu/ops.h"

#define BLOCK 4096

static double block_sum(const float *x, int64_t n)
{
    vf sum = {0};
    float lane[VW];
    double total = 0.0;
    int64_t j = 0;

    for (; j + VW <= n; j += VW)
        sum += vf_load(x + j) * vf_load(x + j);
    if (j < n)
        sum += vf_load_n(x + j, n - j) * vf_load_n(x + j, n - j);
    memcpy(lane, &sum, sizeof lane);
    for (int i = 0; i < VW; i++)
        total += (double)lane[i];
    return total;
}

int DP_FN(sum_squares)(struct dp_backend *be, const struct dp_sum_squares *a, struct dp_err *err)
{
    double total = 0.0;

    (void)be;
    (void)err;
    for (int64_t i = 0; i < a->n; i += BLOCK)
        total += block_sum(a->x + i, a->n - i < BLOCK ? a->n - i : BLOCK);
    *a->sum = total;
    return 0;
}
