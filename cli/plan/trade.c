/* SPDX-License-Identifier: BSD-3-Clause */
/* The trade of a graph: planned anew for every number of devices, or of machines, and simulated with the same
 * microbatches. See plan.h. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>
#include <string.h>

static void fill_row(const struct dp_plan_problem *q, struct dp_graph *g, const struct dp_graph_plan *p, struct dp_trade_row *row)
{
    uint64_t ns = dp_plan_iteration_ns(g, q, p);

    row->devices = q->devices[0] * (q->n_levels > 1 ? q->devices[1] : 1);
    if (!ns) {
        snprintf(row->why, sizeof row->why, "too large to simulate");
        return;
    }
    row->step_s = (double)ns * 1e-9;
    row->time_s = row->step_s * DP_PLAN_TRADED;
    row->device_s = row->time_s * row->devices;
}

static void plan_row(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_trade_row *row)
{
    struct dp_graph_plan p = {0};
    struct dp_err err;

    if (dp_plan_solve(q, g, &p, &err) == 0) {
        fill_row(q, g, &p, row);
    } else {
        row->devices = q->devices[0] * (q->n_levels > 1 ? q->devices[1] : 1);
        snprintf(row->why, sizeof row->why, "%.*s", (int)sizeof row->why - 1, err.text);
    }
    dp_graph_plan_release(&p);
}

void dp_plan_trade(const struct dp_plan_problem *asked, struct dp_graph *g, struct dp_trade *out)
{
    struct dp_plan_problem q = *asked;
    uint32_t *varied = &q.devices[q.n_levels > 1], numbers[DP_TRADE_ROWS], n = dp_trade_numbers(*varied, numbers);

    memset(out, 0, sizeof *out);
    q.microbatches = dp_plan_microbatches(asked);
    for (uint32_t i = 0; i < n; i++) {
        *varied = numbers[i];
        plan_row(&q, g, &out->row[i]);
    }
    out->n = n;
    out->fixed_s = out->row[n - 1].time_s;
    out->fixed_device_s = out->row[n - 1].device_s;
    dp_trade_mark(out);
}
