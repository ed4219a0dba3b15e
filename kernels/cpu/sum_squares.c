/* Sum of squares in a fixed order: float lanes over 4096 elements, the lanes and blocks in double. */
#include "kernels/cpu/ops.h"

#define BLOCK 4096

/* Elements from, ..., end - 1 of a. */
static double block_sum(const struct dp_sum_squares *a, int64_t from, int64_t end)
{
    vf sum = {0};
    float lane[VW];
    double total = 0.0;

    for (int64_t i = from; i < end; i += VW) {
        vf x = end - i >= VW ? vf_load(a->x + i) : vf_load_n(a->x + i, end - i);

        if (a->keep)
            x = vf_masked(x, vf_kept(a->keep, i));
        sum += x * x;
    }
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
        total += block_sum(a, i, a->n - i < BLOCK ? a->n : i + BLOCK);
    *a->sum = total;
    return 0;
}
