/* SPDX-License-Identifier: BSD-3-Clause */
/* See draw.h. */
#include "policies/cluster/generate/draw.h"

#include <math.h>

static uint64_t mix_bits(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t next(struct dp_cluster_draw *d)
{
    return mix_bits(d->state += 0x9e3779b97f4a7c15u);
}

/* The upper 53 bits. */
static double to_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double dp_cluster_draw_next(struct dp_cluster_draw *d)
{
    return to_unit(next(d));
}

double dp_cluster_draw_positive(struct dp_cluster_draw *d)
{
    return 1 - to_unit(next(d));
}

double dp_cluster_draw_at(uint64_t seed, uint64_t place)
{
    return to_unit(mix_bits(mix_bits(seed) + (place + 1) * 0x9e3779b97f4a7c15u));
}

/* Standard normal, by the polar method (Marsaglia and Bray 1964). */
static double draw_normal(struct dp_cluster_draw *d)
{
    for (;;) {
        double x = 2 * dp_cluster_draw_next(d) - 1, y = 2 * dp_cluster_draw_next(d) - 1, s = x * x + y * y;

        if (s > 0 && s < 1)
            return x * sqrt(-2 * log(s) / s);
    }
}

double dp_cluster_draw_gamma(struct dp_cluster_draw *d, double shape, double scale)
{
    double k = shape - 1.0 / 3, c = 1 / sqrt(9 * k);

    for (;;) {
        double x = draw_normal(d), v = 1 + c * x;

        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(dp_cluster_draw_positive(d)) < 0.5 * x * x + k - k * v + k * log(v))
            return k * v * scale;
    }
}

static double choose(struct dp_cluster_draw *d, const struct dp_cluster_distribution *from)
{
    double all = 0, at;
    uint32_t i = 0;

    for (uint32_t k = 0; k < from->n; k++)
        all += from->weight[k];
    at = dp_cluster_draw_next(d) * all;
    for (; i + 1 < from->n && at >= from->weight[i]; i++)
        at -= from->weight[i];
    return from->value[i];
}

double dp_cluster_draw_from(struct dp_cluster_draw *d, const struct dp_cluster_distribution *from)
{
    switch (from->kind) {
    case DP_CLUSTER_EXPONENTIAL: return -from->a * log(dp_cluster_draw_positive(d));
    case DP_CLUSTER_UNIFORM: return from->a + (from->b - from->a) * dp_cluster_draw_next(d);
    case DP_CLUSTER_LOG_UNIFORM: return from->a * exp(log(from->b / from->a) * dp_cluster_draw_next(d));
    case DP_CLUSTER_CHOICES: return choose(d, from);
    case DP_CLUSTER_CONSTANT: break;
    }
    return from->a;
}
