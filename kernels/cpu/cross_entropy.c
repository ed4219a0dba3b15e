/* Softmax cross-entropy of each row, and its gradient.
 *
 * A row of a GPT-2 vocabulary has 50,000 exponentials: they add up in float lanes over 1024 elements
 * and in double over the blocks.
 */
#include "kernels/cpu/ops.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

#define SUM_BLOCK 1024

/* out[j] = exp(x[j] - shift) where out is not NULL (may be x); returns their sum. */
static double exp_sum(float *out, const float *x, int64_t n, float shift)
{
    double total = 0.0;

    for (int64_t start = 0; start < n; start += SUM_BLOCK) {
        int64_t end = n - start < SUM_BLOCK ? n : start + SUM_BLOCK, j = start;
        vf sum = {0};

        for (; j + VW <= end; j += VW) {
            vf e = vf_exp(vf_load(x + j) - vf_set1(shift));

            if (out)
                vf_store(out + j, e);
            sum += e;
        }
        if (j < end) {
            float tail[VW];
            vf e = vf_exp(vf_load_n(x + j, end - j) - vf_set1(shift));

            memcpy(tail, &e, sizeof tail);
            if (out)
                vf_store_n(out + j, e, end - j);
            for (int64_t i = 0; i < end - j; i++)
                total += (double)tail[i];
        }
        total += (double)vf_sum(sum);
    }
    return total;
}

static void scale_row(float *x, int64_t n, float factor)
{
    int64_t j = 0;

    for (; j + VW <= n; j += VW)
        vf_store(x + j, vf_load(x + j) * vf_set1(factor));
    for (; j < n; j++)
        x[j] *= factor;
}

int DP_FN(cross_entropy)(struct dp_backend *be, const struct dp_cross_entropy *a, struct dp_err *err)
{
    (void)be;
    for (int64_t i = 0; i < a->n; i++)
        if (a->targets[i] >= a->v)
            return dp_err_set(err, DP_EINVAL, "cross_entropy: target %u at %lld, the vocabulary has %lld",
                              a->targets[i], (long long)i, (long long)a->v);
    for (int64_t i = 0; i < a->n; i++) {
        const float *x = a->logits + i * a->v;
        float *dx = a->dlogits ? a->dlogits + i * a->v : NULL;
        float best = row_max(x, a->v);
        double wanted = (double)x[a->targets[i]]; /* before dx overwrites x */
        double sum = exp_sum(dx, x, a->v, best);

        a->loss[i] = log(sum) + (double)best - wanted;
        if (dx) {
            scale_row(dx, a->v, (float)((double)a->scale / sum));
            dx[a->targets[i]] -= a->scale;
        }
    }
    return 0;
}
