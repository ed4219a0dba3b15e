/* See plan.h. What all planners share. */
#include "policies/graph/plan.h"

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
