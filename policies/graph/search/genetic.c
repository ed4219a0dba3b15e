/* SPDX-License-Identifier: BSD-3-Clause */
/* A biased random-key genetic algorithm (Goncalves and Resende 2011, Journal of Heuristics 17): each unit has a key, of the
 * ready units the one with the largest key comes next, and the order's load is what an individual is worth. The best
 * live on, some are new, the others take each key from one of the best or, less often, from any. */
#include <stdlib.h>
#include <string.h>

#include "policies/graph/search/draw.h"
#include "policies/graph/search/pool.h"

/* As its authors propose: a fifth of them are the best, an eighth are new. */
#define POPULATION 30u /* few, since each is cut */
#define ELITE 6u       /* that live on */
#define NEW 4u         /* in every generation */
#define FROM_ELITE 70u /* percent of the keys */

struct individual {
    uint64_t load_ns;
    uint32_t number; /* of equals the older comes first */
    uint16_t *key;   /* [units] */
};

static int by_load(const void *a, const void *b)
{
    const struct individual *x = a, *y = b;

    return x->load_ns != y->load_ns ? (x->load_ns < y->load_ns ? -1 : 1) : x->number < y->number ? -1 : x->number > y->number;
}

/* returns: 1, 0: no more steps, or -1. */
static int weigh(struct dp_pool *p, struct individual *one, struct dp_err *err)
{
    struct dp_rule rule = {.key = one->key};
    int rc;

    rule.weight[0][DP_RULE_KEY] = rule.weight[1][DP_RULE_KEY] = 1;
    one->load_ns = DP_SEARCH_NONE;
    rc = dp_pool_goes_on(p) ? dp_pool_order(p, &rule, err) : 0;
    if (rc > 0 && dp_pool_try(p, DP_SEARCH_NONE - 1, &one->load_ns, err) < 0)
        return -1;
    return rc;
}

static void make_new(struct dp_pool *p, struct individual *one)
{
    for (uint32_t v = 0; v < p->s->units->n; v++)
        one->key[v] = (uint16_t)(dp_draw(&p->draws) >> 48);
}

static void mate(struct dp_pool *p, struct individual *one, const struct individual *elite, const struct individual *other)
{
    for (uint32_t v = 0; v < p->s->units->n; v++)
        one->key[v] = dp_draw_below(&p->draws, 100) < FROM_ELITE ? elite->key[v] : other->key[v];
}

/* Those behind the best, of the generation before; `next` has memory for them. */
static int breed(struct dp_pool *p, struct individual *now, struct individual *next, uint32_t *number, struct dp_err *err)
{
    int rc = 1;

    for (uint32_t i = ELITE; rc > 0 && i < POPULATION; i++) {
        if (i < ELITE + NEW) {
            make_new(p, &next[i]);
        } else {
            const struct individual *other = &now[ELITE + dp_draw_below(&p->draws, POPULATION - ELITE)];

            mate(p, &next[i], &now[dp_draw_below(&p->draws, ELITE)], other);
        }
        next[i].number = (*number)++;
        rc = weigh(p, &next[i], err);
    }
    for (uint32_t i = ELITE; rc > 0 && i < POPULATION; i++) {
        struct individual old = now[i];

        now[i] = next[i];
        next[i] = old;
    }
    return rc;
}

int dp_search_genetic(struct dp_pool *p, struct dp_err *err)
{
    struct individual now[POPULATION] = {{0}}, next[POPULATION] = {{0}};
    size_t n = (size_t)p->s->units->n + 1;
    uint32_t number = 0;
    int rc = 1;

    for (uint32_t i = 0; rc > 0 && i < POPULATION; i++) {
        now[i].key = calloc(n, sizeof *now[i].key);
        next[i].key = calloc(n, sizeof *next[i].key);
        now[i].number = number++;
        if (!now[i].key || !next[i].key)
            rc = dp_err_set(err, DP_ENOMEM, "a population of orders: out of memory");
    }
    for (uint32_t i = 0; rc > 0 && i < POPULATION; i++) {
        make_new(p, &now[i]);
        rc = weigh(p, &now[i], err);
    }
    while (rc > 0) {
        qsort(now, POPULATION, sizeof *now, by_load);
        rc = breed(p, now, next, &number, err);
    }
    for (uint32_t i = 0; i < POPULATION; i++) {
        free(now[i].key);
        free(next[i].key);
    }
    return rc < 0 ? -1 : 0;
}
