/* SPDX-License-Identifier: BSD-3-Clause */
/* See plan.h. What all planners share. */
#include "policies/graph/plan.h"

#include <math.h>

#include <stdlib.h>

static const char *const names[DP_PLAN_N] = {"auto", "exact", "line", "hierarchical"};

const char *dp_plan_algorithm_name(enum dp_plan_algorithm a)
{
    return a < DP_PLAN_N ? names[a] : "?";
}

void dp_graph_plan_release(struct dp_graph_plan *p)
{
    free(p->stage);
    free(p->stage_of);
    *p = (struct dp_graph_plan){0};
}

uint64_t dp_plan_time_ns(uint64_t ns, double speed)
{
    double slow = ceil((double)ns / speed);

    if (speed == 1.0)
        return ns;
    return slow < (double)(UINT64_MAX / 4) ? (uint64_t)slow : UINT64_MAX / 4; /* so that traffic can be added */
}
