/* SPDX-License-Identifier: BSD-3-Clause */
/* See noise.h. Parts of all work are looked at, not times: what slows all stages alike is no business of a layout. */
#include "policies/decide/noise.h"

#include <math.h>
#include <string.h>

#include "common/numbers.h"

#define FAR (DP_NOISE_WINDOWS / 2) /* reports that are compared with each other to see wandering */
#define WANDERS 4.0 /* so many times the square of one report's difference: noise alone gives 1, a random walk FAR */

double dp_scatter_of(const uint64_t *ns, uint32_t n)
{
    uint64_t v[DP_NOISE_WINDOWS], middle;

    if (n < DP_NOISE_LEAST || n > DP_NOISE_WINDOWS)
        return 0.0;
    memcpy(v, ns, n * sizeof v[0]);
    middle = dp_median_u64(v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = v[i] > middle ? v[i] - middle : middle - v[i];
    return middle ? (double)dp_median_u64(v, n) / (double)middle : 0.0;
}

/* total: [n] of all stages. */
static double scatter_of_stage(const struct dp_window *w, const double *total, uint32_t n)
{
    double v[DP_NOISE_WINDOWS], middle;

    for (uint32_t i = 0; i < n; i++)
        v[i] = (double)w[i].ns / total[i];
    middle = dp_median_double(v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = fabs((double)w[i].ns / total[i] - middle);
    return middle > 0.0 ? dp_median_double(v, n) / middle : 0.0;
}

/* Mean square of how far a stage's part is from itself so many reports later, over its mean. */
static double square_of_stage(const struct dp_window *w, const double *total, uint32_t n, uint32_t later)
{
    double mean = 0.0, sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        mean += (double)w[i].ns / total[i] / n;
    for (uint32_t i = 0; i + later < n; i++) {
        double d = (double)w[i + later].ns / total[i + later] - (double)w[i].ns / total[i];

        sum += d * d / (n - later);
    }
    return mean > 0.0 ? sum / (mean * mean) : 0.0;
}

static double wander(const struct dp_window *w, const double *total, uint32_t n_stages, uint32_t n)
{
    double near = 0.0, far = 0.0, steps;

    if (n < DP_NOISE_WINDOWS)
        return 0.0;
    for (uint32_t s = 0; s < n_stages; s++) {
        near += square_of_stage(&w[s * n], total, n, 1) / n_stages;
        far += square_of_stage(&w[s * n], total, n, FAR) / n_stages;
    }
    steps = (double)(w[n - 1].step - w[0].step) * FAR / (n - 1);
    return far > WANDERS * near && steps >= 1.0 ? sqrt((far - near) / steps) : 0.0;
}

void dp_noise_of(const struct dp_window *w, uint32_t n_stages, uint32_t n, struct dp_noise *out)
{
    double total[DP_NOISE_WINDOWS] = {0};

    *out = (struct dp_noise){.n = n};
    if (n < DP_NOISE_LEAST || n > DP_NOISE_WINDOWS)
        return;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t s = 0; s < n_stages; s++)
            total[i] += (double)w[s * n + i].ns;
        if (!(total[i] > 0.0))
            return;
    }
    for (uint32_t s = 0; s < n_stages; s++)
        out->scatter = fmax(out->scatter, scatter_of_stage(&w[s * n], total, n));
    if (w[n - 1].step > w[0].step)
        out->wander = wander(w, total, n_stages, n);
}

double dp_lasting_steps(const struct dp_noise *noise, double gain)
{
    return noise->wander > 0.0 ? gain / noise->wander * (gain / noise->wander) : INFINITY;
}
