/* SPDX-License-Identifier: BSD-3-Clause */
/* See plan.h. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>

#include "common/clock.h"

#define FIRST_NS UINT64_C(2000000000) /* shorter searches need no words */
#define EVERY_NS UINT64_C(5000000000) /* between two lines */

static void say(const struct dp_plan_patience *p, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    fprintf(stderr, "dynpipe plan: %.0f %% searched", 100.0 * searched);
    if (best_ns)
        fprintf(stderr, ", best so far %.4g ms", (double)best_ns / 1e6);
    fprintf(stderr, ", none is below %.4g ms%s\n", (double)bound_ns / 1e6,
            p->limit_ns ? "" : " (--time-limit=SECONDS ends the search with the best so far)");
}

static bool go_on(void *arg, double searched, uint64_t best_ns, uint64_t bound_ns)
{
    struct dp_plan_patience *p = arg;
    uint64_t now = dp_now_ns();

    if (now - p->begin_ns >= FIRST_NS && (!p->said_ns || now - p->said_ns >= EVERY_NS)) {
        say(p, searched, best_ns, bound_ns);
        p->said_ns = now;
    }
    return !p->limit_ns || now - p->begin_ns < p->limit_ns;
}

void dp_plan_patience_init(struct dp_plan_patience *p, double limit_s)
{
    *p = (struct dp_plan_patience){.watch = {go_on, p}, .begin_ns = dp_now_ns(), .limit_ns = (uint64_t)(limit_s * 1e9)};
}
