/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for good orders of a graph whose ideals are too many: an order is proposed, the caller's dynamic program cuts
 * it exactly, and from the best plans units move over the cuts.
 *
 * It begins with what the caller has, and what it ends with is never worse. How long it searches is counted in steps,
 * which do not depend on the machine: the same seed gives the same plan everywhere. */
#ifndef DP_POLICIES_GRAPH_SEARCH_SEARCH_H
#define DP_POLICIES_GRAPH_SEARCH_SEARCH_H

#include "policies/graph/plan.h"
#include "policies/graph/search/rule.h"

#define DP_SEARCH_NONE UINT64_MAX /* there is no plan (within a limit) */

struct dp_search;

/* Cut an order where that gives a plan of at most limit_ns. Keeps the plan where it is the best so far.
 * order: [units]. stage: [units] = of the plan. load_ns: = of it, or DP_SEARCH_NONE. steps: += those made.
 * returns 0, or -1 with an error. */
typedef int dp_search_cut_fn(void *arg, const uint32_t *order, uint64_t limit_ns, uint32_t *stage, uint64_t *load_ns,
                             uint64_t *steps, struct dp_err *err);
/* Move units between the stages of the best plan that was cut, or better of `stage`, for some steps; what is worse is taken, too, the more
 * the larger `heat` is (0: never). stage: [units], of a plan that was cut; = the best one found. Likewise. */
typedef int dp_search_refine_fn(void *arg, uint32_t *stage, uint64_t seed, uint32_t heat, uint64_t max_steps, uint64_t *steps,
                                struct dp_err *err);

struct dp_search {
    /* The question. */
    const struct dp_units *units;
    enum dp_plan_algorithm algorithm; /* LINE, RANDOM, ANNEAL, GENETIC, or LEARNED, which needs a source */
    uint32_t n_devices;
    uint64_t seed;
    uint64_t max_steps; /* 0: by the number of units; UINT64_MAX: until the watch ends it */
    uint64_t order_steps; /* that the cut of an order took: too many for the default of max_steps, and there is no search */
    uint64_t bound_ns;  /* no plan is better: reached, the search ends */
    const struct dp_order_source *source; /* of orders, beside rules for LINE and instead of them for LEARNED; NULL: none */
    const struct dp_plan_watch *watch; /* NULL: nobody */
    dp_search_cut_fn *cut;
    dp_search_refine_fn *refine; /* NULL: orders change only, and are cut anew */
    void *arg;
    /* The best plan so far, the caller's to begin with: best_ns DP_SEARCH_NONE: there is none. */
    uint64_t best_ns;
    uint32_t *stage; /* [units], the caller's memory */
    /* The answer. */
    uint64_t steps;
    double searched;   /* share of the search, for the watch */
    uint32_t n_orders; /* that were cut */
    uint32_t n_learned; /* of them: of the source */
    uint64_t learned_ns; /* the best of those; DP_SEARCH_NONE: none was within what others had */
    bool was_ended;    /* by the watch */
};

/* returns 0, or -1 with an error; then, too, s->stage and s->best_ns are those of a plan. */
int dp_search_run(struct dp_search *s, struct dp_err *err);

/* What a search made of its source's orders, into the plan. */
void dp_search_told(const struct dp_search *s, struct dp_graph_plan *p);

#endif
