/* SPDX-License-Identifier: BSD-3-Clause */
/* See search.h. The default search spends a part of its steps on orders by rules, and the rest on moves in the plans that
 * these gave. A search that goes on until it is ended does so in rounds, each twice as long as the one before. */
#include "policies/graph/search/search.h"

#include "policies/graph/search/draw.h"
#include "policies/graph/search/pool.h"

#define STEPS_PER_UNIT 14000u            /* measured: 0.1 s at 325 units, below 0.5 s at 1250 (make bench-graphs) */
#define MOST_STEPS UINT64_C(16800000)    /* half a second of a core */
#define PARTS 7u       /* of all steps, where moves need no cuts; */
#define FIRST_PARTS 5u /* orders and moves; the others are for orders within stages. Without such moves there are only these */
#define TURNS 4u       /* of orders within stages, and moves */
#define TURN_ORDERS 4u /* of each turn */
#define HOT 16384u /* see refine.h */
#define TEPID 1024u /* likewise */
#define WARM 64u   /* likewise */

/* A little above the best, for the pool. */
static uint64_t limit_of(const struct dp_search *s)
{
    return s->best_ns < DP_SEARCH_NONE / 2 ? s->best_ns + s->best_ns / 16 : s->best_ns;
}

/* At most so many orders of the source, until so many steps are made. */
static int try_learned(struct dp_pool *p, uint64_t most, uint64_t until_steps, struct dp_err *err)
{
    struct dp_search *s = p->s;
    int rc = 0;

    while (rc == 0 && s->source && p->n_asked < most && s->steps < until_steps && dp_pool_goes_on(p)) {
        uint64_t load_ns;

        rc = dp_pool_order_learned(p, err);
        if (rc == 0)
            break;
        rc = rc < 0 ? -1 : dp_pool_try(p, limit_of(s), &load_ns, err);
        if (rc < 0)
            break;
        s->n_learned++;
        s->learned_ns = load_ns < s->learned_ns ? load_ns : s->learned_ns;
    }
    return rc;
}

/* Orders by rules until so many steps are made. */
static int try_rules(struct dp_pool *p, uint64_t until_steps, struct dp_err *err)
{
    struct dp_search *s = p->s;
    int rc = 0;

    while (rc == 0 && s->steps < until_steps && dp_pool_goes_on(p)) {
        uint64_t limit_ns = s->best_ns, load_ns;
        struct dp_rule rule;

        dp_rule_draw(&rule, s->seed, p->n_rules++);
        if (s->algorithm == DP_PLAN_RANDOM) { /* any order */
            rule = (struct dp_rule){.seed = rule.seed};
            rule.weight[0][DP_RULE_KEY] = rule.weight[1][DP_RULE_KEY] = 1;
        } else {
            limit_ns = limit_of(s);
        }
        rc = dp_pool_order(p, &rule, err);
        if (rc == 0)
            break;
        rc = rc < 0 ? -1 : dp_pool_try(p, limit_ns, &load_ns, err);
    }
    return rc;
}

/* Orders of the best plans' units within their stages, and moves in what they gave: a plan whose slowest stage can be parted cheaply,
 * but not in the order that its units came in, gets better so. */
static int search_stages(struct dp_pool *p, uint64_t until_steps, struct dp_err *err)
{
    struct dp_search *s = p->s;
    uint64_t begin = s->steps, all = until_steps > begin ? until_steps - begin : 0;
    int rc = 0;

    for (uint32_t turn = 0; rc == 0 && turn < TURNS; turn++) {
        for (uint32_t i = 0; rc == 0 && i < TURN_ORDERS && s->steps < until_steps && dp_pool_goes_on(p); i++) {
            struct dp_rule rule;

            dp_rule_draw(&rule, s->seed, p->n_rules++);
            rc = dp_pool_order_again(p, 0, &rule, err);
        }
        if (rc == 0)
            rc = dp_pool_improve(p, 0, turn % 2 ? WARM : TEPID, begin + all / TURNS * (turn + 1), err);
    }
    return rc;
}

static int search_round(struct dp_pool *p, uint64_t begin, uint64_t all_steps, struct dp_err *err)
{
    uint64_t steps = p->s->refine ? all_steps / PARTS * FIRST_PARTS : all_steps;

    /* Shares, and heats, as they were best on published graphs; what is moved without a cut is worth more than orders are. */
    uint64_t rules = p->s->refine ? steps / 20 * 3 : steps / 10 * 3, each = (steps - rules) / 14 * 3;
    bool is_learned = p->s->algorithm == DP_PLAN_LEARNED;
    int rc = is_learned || !p->s->source ? try_learned(p, UINT64_MAX, begin + rules, err)
                                         : try_learned(p, p->s->source->n, begin + rules / 2, err);

    if (rc == 0 && !is_learned)
        rc = try_rules(p, begin + rules, err);
    for (uint32_t i = DP_POOL_SIZE; rc == 0 && i-- > 0;)
        rc = dp_pool_improve(p, i, HOT, begin + rules + each * (DP_POOL_SIZE - i), err);
    if (rc == 0)
        rc = dp_pool_improve(p, 0, WARM, begin + steps, err);
    return rc == 0 && p->s->refine ? search_stages(p, begin + all_steps, err) : rc;
}

static int search_in_rounds(struct dp_pool *p, uint64_t steps, struct dp_err *err)
{
    struct dp_search *s = p->s;
    int rc = 0;

    while (rc == 0 && dp_pool_goes_on(p)) {
        uint64_t begin = s->steps;

        if (s->algorithm == DP_PLAN_ANNEAL)
            rc = dp_pool_improve(p, 0, HOT, begin + steps, err);
        else
            rc = search_round(p, begin, steps, err);
        if (s->steps == begin) /* nothing can be moved */
            break;
        steps = steps < UINT64_MAX / 4 ? steps * 2 : steps;
    }
    return rc;
}

void dp_search_told(const struct dp_search *s, struct dp_graph_plan *p)
{
    p->n_learned = s->n_learned;
    p->learned_ns = s->n_learned && s->learned_ns != DP_SEARCH_NONE ? s->learned_ns : 0;
}

int dp_search_run(struct dp_search *s, struct dp_err *err)
{
    uint64_t steps = (uint64_t)STEPS_PER_UNIT * s->units->n;
    struct dp_pool p;
    int rc;

    s->learned_ns = DP_SEARCH_NONE;
    steps = steps < MOST_STEPS ? steps : MOST_STEPS;
    if (!s->max_steps && s->order_steps > steps / PARTS * FIRST_PARTS / 3)
        return 0;
    steps = s->refine ? steps : steps / PARTS * FIRST_PARTS;
    steps = s->max_steps && s->max_steps < UINT64_MAX ? s->max_steps : steps;
    rc = dp_pool_create(&p, s, err);
    p.end_steps = s->max_steps == UINT64_MAX ? UINT64_MAX : steps;
    if (rc == 0 && s->algorithm == DP_PLAN_RANDOM)
        rc = try_rules(&p, p.end_steps, err);
    else if (rc == 0 && s->algorithm == DP_PLAN_GENETIC)
        rc = dp_search_genetic(&p, err);
    else if (rc == 0)
        rc = search_in_rounds(&p, steps, err);
    dp_pool_release(&p);
    return rc;
}
