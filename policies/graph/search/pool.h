/* SPDX-License-Identifier: BSD-3-Clause */
/* What the algorithms of a search share: orders that are tried, and the few best plans that came out. */
#ifndef DP_POLICIES_GRAPH_SEARCH_POOL_H
#define DP_POLICIES_GRAPH_SEARCH_POOL_H

#include "policies/graph/search/closure.h"
#include "policies/graph/search/search.h"

#define DP_POOL_SIZE 4 /* plans that units are moved in */

struct dp_pool_plan {
    uint64_t load_ns; /* DP_SEARCH_NONE: no plan */
    uint32_t *stage;  /* [units] */
};

struct dp_pool {
    struct dp_search *s;
    struct dp_rule_facts facts;
    struct dp_closure closure;
    uint32_t *order, *stage, *count;         /* [units + 1] for the next one */
    struct dp_pool_plan plan[DP_POOL_SIZE];  /* the best first; no load twice */
    uint64_t end_steps;                      /* where the search ends */
    uint64_t draws;                          /* state of random numbers */
    uint64_t n_rules;                        /* that were drawn */
    void *walk;                              /* of the source; NULL: none */
    uint64_t n_asked;                        /* orders that it was asked for */
};

/* returns 0 or -1 (DP_ENOMEM); either way release it. The search's plan is in it. */
int dp_pool_create(struct dp_pool *p, struct dp_search *s, struct dp_err *err);
void dp_pool_release(struct dp_pool *p);

/* Neither at the end of the steps, nor ended by the watch, nor at the bound. */
bool dp_pool_goes_on(struct dp_pool *p);
/* Cut p->order; load_ns: as dp_search_cut_fn has it, the plan is in p->stage. It goes into the pool. returns 0 or -1. */
int dp_pool_try(struct dp_pool *p, uint64_t limit_ns, uint64_t *load_ns, struct dp_err *err);
/* p->order = that of the rule. returns: 1: there is one; 0: not within the steps; -1. */
int dp_pool_order(struct dp_pool *p, const struct dp_rule *rule, struct dp_err *err);
/* p->order = the source's next one; there is one. Likewise. */
int dp_pool_order_learned(struct dp_pool *p, struct dp_err *err);
/* p->order = units by stage. */
void dp_pool_order_stages(struct dp_pool *p, const uint32_t *stage);
/* Cut the order of a plan's stages once more, each with its units as the rule has them: a cut within a stage may be cheap there. The
 * plan that comes out goes into the pool. returns 0 or -1. */
int dp_pool_order_again(struct dp_pool *p, uint32_t which, const struct dp_rule *rule, struct dp_err *err);
/* Move units in a plan of the pool until p->s->steps reaches until_steps, by refine() where there is one. returns 0 or -1. */
int dp_pool_improve(struct dp_pool *p, uint32_t which, uint32_t heat, uint64_t until_steps, struct dp_err *err);

/* The algorithms; search.c begins and ends them. */
int dp_search_genetic(struct dp_pool *p, struct dp_err *err);

#endif
