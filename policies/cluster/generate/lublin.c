/* SPDX-License-Identifier: BSD-3-Clause */
/* The workload model of Lublin and Feitelson ("The workload on parallel supercomputers: modeling the
 * characteristics of rigid jobs", J. Parallel Distrib. Comput. 63, 2003), with the parameters that the paper
 * gives for batch and interactive jobs together:
 *
 *  size      1 with probability 0.244, else 2^u, where u is uniform in two stages: [0.8, m] with probability
 *            0.86, else [m, h]; h = log2 of the cluster's nodes, m = h - 2.5. With probability 0.576 u is
 *            rounded: a power of two.
 *  run time  e^g s, g hyper-gamma: Gamma(4.2, 0.94) with probability 0.78 - 0.0054 nodes, else Gamma(312, 0.03);
 *            not above e^12 s.
 *  arrivals  by a daily cycle: each half hour of the day has a weight, from the density of Gamma(8.1737, 3.9631)
 *            over the half hours from 5:00 on. Between two jobs e^g / 1800 "points" are earned, g from
 *            Gamma(10.2303 * 1.0225, 0.4871) and not above 13, and a half hour costs its weight.
 */
#include <math.h>
#include <string.h>

#include "policies/cluster/generate/generate.h"

#define BUCKET_S 1800.0 /* half an hour, see above */
#define DAY_BEGINS 10 /* half hours after midnight */

/* Weight of the k-th half hour of the cycle, up to a factor: the integral of x^(a - 1) e^(-x / b), by Simpson. */
static double density(uint32_t k)
{
    const double shape = 8.1737, scale = 3.9631;
    double sum = 0;

    for (int i = 0; i <= 16; i++) {
        double x = k + 0.5 + i / 16.0;

        sum += (i == 0 || i == 16 ? 1 : i % 2 ? 4 : 2) * exp((shape - 1) * log(x) - x / scale);
    }
    return sum;
}

void dp_lublin_init(struct dp_lublin *l, uint32_t nodes, struct dp_cluster_draw *draw)
{
    double sum = 0;

    memset(l, 0, sizeof *l);
    l->draw = draw;
    l->log2_nodes = log2(nodes);
    /* As in the authors' program: half hour i of the day lies between i + 0.5 and i + 1.5 on the axis of the gamma
     * distribution, and those before 5:00 belong to the day before, 48 further on. */
    for (uint32_t k = 0; k < DP_LUBLIN_BUCKETS; k++) {
        uint32_t i = (DAY_BEGINS + k) % DP_LUBLIN_BUCKETS;

        l->weight[i] = density(DAY_BEGINS + k);
        sum += l->weight[i];
    }
    for (uint32_t i = 0; i < DP_LUBLIN_BUCKETS; i++)
        l->weight[i] *= DP_LUBLIN_BUCKETS / sum;
}

/* Gamma(shape, scale), not above most. */
static double bounded_gamma(struct dp_lublin *l, double shape, double scale, double most)
{
    double g;

    do {
        g = dp_cluster_draw_gamma(l->draw, shape, scale);
    } while (g > most);
    return g;
}

static double next_arrival(struct dp_lublin *l)
{
    double gone = 0, remainder;

    l->points += exp(bounded_gamma(l, 10.2303 * 1.0225, 0.4871, 13)) / BUCKET_S;
    while (l->points > l->weight[l->bucket]) {
        l->points -= l->weight[l->bucket];
        l->bucket = (l->bucket + 1) % DP_LUBLIN_BUCKETS;
        gone += BUCKET_S;
    }
    remainder = l->points / l->weight[l->bucket];
    gone += BUCKET_S * (remainder - l->remainder);
    l->remainder = remainder;
    return gone;
}

static uint32_t next_size(struct dp_lublin *l)
{
    double u = dp_cluster_draw_next(l->draw), high = l->log2_nodes, middle = high - 2.5, low = 0.8, par;

    if (u <= 0.244 || high < 1)
        return 1;
    middle = middle > low ? middle : (low + high) / 2;
    if (dp_cluster_draw_next(l->draw) <= 0.86)
        par = low + (middle - low) * dp_cluster_draw_next(l->draw);
    else
        par = middle + (high - middle) * dp_cluster_draw_next(l->draw);
    if (u <= 0.244 + 0.576)
        par = floor(par + 0.5);
    return (uint32_t)(exp2(par) + 0.5);
}

void dp_lublin_next(struct dp_lublin *l, double *submit_s, uint32_t *nodes, double *run_s)
{
    double p;

    l->at_s += next_arrival(l);
    *submit_s = l->at_s;
    *nodes = next_size(l);
    p = 0.78 - 0.0054 * *nodes;
    *run_s = exp(dp_cluster_draw_next(l->draw) <= p ? bounded_gamma(l, 4.2, 0.94, 12) : bounded_gamma(l, 312, 0.03, 12));
}
