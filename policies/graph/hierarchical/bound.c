/* SPDX-License-Identifier: BSD-3-Clause */
/* See hierarchical.h, dp_plan_hierarchical_bound(). A stage with a unit computes what the unit does, and exchanges its gradients, on as
 * many replicas as there may be. */
#include <math.h>
#include <stdlib.h>

#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/units.h"

/* A unit alone, on r devices of each of m machines. With less in it a stage has less to do. */
static double unit_s(const struct dp_plan_hierarchical *ask, double compute_s, double param_bytes, uint32_t r, uint32_t m)
{
    double s = (compute_s + dp_plan_sync_s(ask, 0, param_bytes, r, true)) / r;

    return ask->n_levels > 1 ? (s + dp_plan_sync_s(ask, 1, param_bytes, m, true)) / m : s;
}

/* The best of all numbers of replicas. With gradients once an iteration it rises with r, or falls, whatever m, and likewise with m: so
 * the ends will do. Without, all numbers are looked at on one level, and on two none: 0. */
static double least_s(const struct dp_plan_hierarchical *ask, double compute_s, double param_bytes)
{
    uint32_t most = ask->is_straight ? 1 : ask->devices[0], machines = ask->n_levels > 1 && !ask->is_straight ? ask->devices[1] : 1;
    uint32_t step = ask->microbatches && most > 1 ? most - 1 : 1;
    double least = INFINITY;

    if (ask->n_levels > 1 && !ask->microbatches)
        return 0;
    for (uint32_t r = 1; r <= most; r += step)
        least = fmin(least, fmin(unit_s(ask, compute_s, param_bytes, r, 1), unit_s(ask, compute_s, param_bytes, r, machines)));
    return least;
}

int dp_plan_hierarchical_bound(const struct dp_graph *g, const struct dp_units *u, const struct dp_plan_hierarchical *ask,
                               uint64_t *bound_ns, enum dp_plan_bound *by, struct dp_err *err)
{
    uint64_t all = 0, dearest = 0, devices = ask->devices[0] * (uint64_t)(ask->n_levels > 1 ? ask->devices[1] : 1);
    uint64_t *params = calloc((size_t)u->n + 1, sizeof *params);

    if (!params)
        return dp_err_set(err, DP_ENOMEM, "bound of %u units: out of memory", u->n);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (u->unit_of[i] != DP_NO_UNIT)
            params[u->unit_of[i]] += g->node[i].param_bytes;
    for (uint32_t v = 0; v < u->n; v++) {
        uint64_t least = (uint64_t)(least_s(ask, (double)u->accel_ns[v] / 1e9, (double)params[v]) * 1e9);

        all += u->accel_ns[v];
        dearest = least > dearest ? least : dearest;
    }
    free(params);
    *bound_ns = all / devices;
    *by = dearest > *bound_ns ? DP_PLAN_BOUND_UNIT : DP_PLAN_BOUND_WORK;
    *bound_ns = dearest > *bound_ns ? dearest : *bound_ns;
    return 0;
}
