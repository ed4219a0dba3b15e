/* SPDX-License-Identifier: BSD-3-Clause */
/* See plan.h. What all planners share. */
#include "policies/graph/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(ID, name, help) {name, help},
static const struct {
    const char *name, *help;
} algorithms[DP_PLAN_N] = {DP_PLAN_ALGORITHMS(ROW)};

const char *dp_plan_algorithm_name(enum dp_plan_algorithm a)
{
    return a < DP_PLAN_N ? algorithms[a].name : "?";
}

const char *dp_plan_algorithm_help(enum dp_plan_algorithm a)
{
    return a < DP_PLAN_N ? algorithms[a].help : "?";
}

bool dp_plan_has_links(enum dp_plan_algorithm a)
{
    return a == DP_PLAN_HIERARCHICAL || a == DP_PLAN_2BW || a == DP_PLAN_ALPA || a == DP_PLAN_DAPPLE ||
           a == DP_PLAN_PIPER || a == DP_PLAN_CLASSES || a == DP_PLAN_HETPIPE;
}

const char *dp_plan_bound_name(enum dp_plan_bound b)
{
    static const char *const names[] = {"work", "unit", "stage", "count"};

    return b < sizeof names / sizeof *names ? names[b] : "?";
}

int dp_plan_algorithm_find(const char *name, enum dp_plan_algorithm *out, struct dp_err *err)
{
    char known[256] = "";
    size_t used = 0;

    for (int a = 0; a < DP_PLAN_N; a++) {
        if (!strcmp(name, algorithms[a].name)) {
            *out = (enum dp_plan_algorithm)a;
            return 0;
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", a ? ", " : "", algorithms[a].name);
    }
    return dp_err_set(err, DP_EINVAL, "unknown algorithm '%.64s'; known: %s", name, known);
}

void dp_graph_plan_release(struct dp_graph_plan *p)
{
    free(p->stage);
    free(p->stage_of);
    free(p->way_of);
    *p = (struct dp_graph_plan){0};
}

uint64_t dp_plan_time_ns(uint64_t ns, double speed)
{
    double slow = ceil((double)ns / speed);

    if (speed == 1.0)
        return ns;
    return slow < (double)(UINT64_MAX / 4) ? (uint64_t)slow : UINT64_MAX / 4; /* so that traffic can be added */
}
