/* SPDX-License-Identifier: BSD-3-Clause */
/* See costs.h. */
#include "config.h"

#include "policies/graph/costs/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RESIDUAL_LOG 2.5 /* a residual is at most e to this, and at least one by that: beyond it is extrapolation */

const struct dp_costs_type *dp_costs_find(const struct dp_costs *c, const char *type)
{
    uint32_t low = 0, high = c->n_types;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = strcmp(c->type[mid].type, type);

        if (order == 0)
            return &c->type[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static double compute_s(const struct dp_operator *op, const struct dp_costs_roof *roof)
{
    return 3 * op->flops / roof->flops_per_s;
}

/* Forward reads input and parameters and writes the output. Backward reads both, and the output's gradient, and writes the
 * gradients of input and parameters. */
static double traffic_s(const struct dp_operator *op, const struct dp_costs_roof *roof)
{
    return (3 * op->in_bytes + 2 * op->out_bytes + 2 * op->read_bytes + op->param_bytes) / roof->bytes_per_s;
}

double dp_costs_roof_s(const struct dp_operator *op, const struct dp_costs_roof *roof)
{
    return roof->launch_s + fmax(compute_s(op, roof), traffic_s(op, roof));
}

void dp_costs_features(const struct dp_operator *op, const struct dp_costs_roof *roof, double feature[DP_COSTS_TERMS])
{
    double compute = compute_s(op, roof), traffic = traffic_s(op, roof), time = dp_costs_roof_s(op, roof);
    double share = 1 - roof->launch_s / time; /* what an operator computes does not matter while it is all launch */

    feature[0] = 1;
    feature[1] = log(time / roof->launch_s);
    feature[2] = compute > 0 && traffic > 0 ? share * log(compute / traffic) : 0;
    feature[3] = share * log(op->depth);
    feature[4] = share * log(op->area);
}

double dp_costs_time_s(const struct dp_costs *c, const struct dp_operator *op, const struct dp_costs_roof *roof)
{
    const struct dp_costs_type *t = c ? dp_costs_find(c, op->type) : NULL;
    double feature[DP_COSTS_TERMS], sum = 0;

    if (!t)
        return dp_costs_roof_s(op, roof);
    if (t->is_free)
        return 0;
    dp_costs_features(op, roof, feature);
    for (int i = 0; i < DP_COSTS_TERMS; i++)
        sum += t->term[i] * fmax(t->low[i], fmin(t->high[i], feature[i]));
    return dp_costs_roof_s(op, roof) * exp(fmax(-RESIDUAL_LOG, fmin(RESIDUAL_LOG, sum)));
}
