/* Layer norm over channels, two passes (mean first: no cancellation in the variance), and backward.
 *
 * With xhat = (x - mean) rstd and g = dy gamma:
 *   dx = rstd (g - mean(g) - xhat mean(g xhat)),  dgamma += dy xhat,  dbeta += dy.
 */
#include "kernels/cpu/ops.h"

#include <math.h>

#define EPS 1e-5f

/* Load VW channels, or the c - j that are left; store likewise. */
static inline vf load_at(const float *p, int64_t j, int64_t c)
{
    return j + VW <= c ? vf_load(p + j) : vf_load_n(p + j, c - j);
}

static inline void store_at(float *p, int64_t j, int64_t c, vf v)
{
    if (j + VW <= c)
        vf_store(p + j, v);
    else
        vf_store_n(p + j, v, c - j);
}

static float row_mean(const float *x, int64_t c)
{
    vf sum = {0};

    for (int64_t j = 0; j < c; j += VW)
        sum += load_at(x, j, c);
    return vf_sum(sum) / (float)c;
}

static float row_variance(const float *x, int64_t c, float mean)
{
    vf sum = {0};
    int64_t j = 0;

    for (; j + VW <= c; j += VW) {
        vf d = vf_load(x + j) - vf_set1(mean);

        sum += d * d;
    }
    if (j < c) {
        vf d = vf_load_n(x + j, c - j) - vf_set1(mean);

        d = (vf)((vi)d & vi_first(c - j));
        sum += d * d;
    }
    return vf_sum(sum) / (float)c;
}

int DP_FN(layernorm)(struct dp_backend *be, const struct dp_layernorm *a, struct dp_err *err)
{
    (void)be;
    (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        const float *x = a->x + i * a->c;
        float *y = a->y + i * a->c;
        float mean = row_mean(x, a->c);
        float rstd = 1.0f / sqrtf(row_variance(x, a->c, mean) + EPS);

        for (int64_t j = 0; j < a->c; j += VW) {
            vf xhat = (load_at(x, j, a->c) - vf_set1(mean)) * vf_set1(rstd);

            store_at(y, j, a->c, xhat * load_at(a->gamma, j, a->c) + load_at(a->beta, j, a->c));
        }
        a->mean[i] = mean;
        a->rstd[i] = rstd;
    }
    return 0;
}

static void row_backward(const struct dp_layernorm_bwd *a, int64_t i)
{
    const float *x = a->x + i * a->c, *dy = a->dy + i * a->c;
    float *dx = a->dx + i * a->c;
    vf mean = vf_set1(a->mean[i]), rstd = vf_set1(a->rstd[i]);
    vf sum_g = {0}, sum_gx = {0}, mean_g, mean_gx;

    for (int64_t j = 0; j < a->c; j += VW) {
        vf d = load_at(dy, j, a->c);
        vf xhat = (load_at(x, j, a->c) - mean) * rstd; /* in a tail: times d, which is 0 there */
        vf g = d * load_at(a->gamma, j, a->c);

        sum_g += g;
        sum_gx += g * xhat;
        store_at(a->dgamma, j, a->c, load_at(a->dgamma, j, a->c) + d * xhat);
        store_at(a->dbeta, j, a->c, load_at(a->dbeta, j, a->c) + d);
    }
    mean_g = vf_set1(vf_sum(sum_g) / (float)a->c);
    mean_gx = vf_set1(vf_sum(sum_gx) / (float)a->c);
    for (int64_t j = 0; j < a->c; j += VW) {
        vf xhat = (load_at(x, j, a->c) - mean) * rstd;
        vf g = load_at(dy, j, a->c) * load_at(a->gamma, j, a->c);
        vf r = rstd * (g - mean_g - xhat * mean_gx);

        store_at(dx, j, a->c, a->add_to_dx ? load_at(dx, j, a->c) + r : r);
    }
}

int DP_FN(layernorm_bwd)(struct dp_backend *be, const struct dp_layernorm_bwd *a, struct dp_err *err)
{
    (void)be;
    (void)err;
    for (int64_t i = 0; i < a->n; i++)
        row_backward(a, i);
    return 0;
}
