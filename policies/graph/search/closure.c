/* SPDX-License-Identifier: BSD-3-Clause */
/* See closure.h. */
#include "policies/graph/search/closure.h"

#include <stdlib.h>

int dp_closure_create(struct dp_closure *c, const struct dp_units *u, uint32_t most, struct dp_err *err)
{
    *c = (struct dp_closure){.units = u,
                             .most = most,
                             .mark = calloc((size_t)u->n + 1, sizeof *c->mark),
                             .unit = calloc((size_t)most + 1, sizeof *c->unit)};
    return c->mark && c->unit ? 0 : dp_err_set(err, DP_ENOMEM, "moves of %u units: out of memory", u->n);
}

void dp_closure_release(struct dp_closure *c)
{
    free(c->mark);
    free(c->unit);
    c->mark = c->unit = NULL;
}

static void begin(struct dp_closure *c)
{
    c->n = 0;
    if (++c->number == 0) { /* once in four billion */
        for (uint32_t v = 0; v < c->units->n; v++)
            c->mark[v] = 0;
        c->number = 1;
    }
}

static bool add(struct dp_closure *c, uint32_t unit)
{
    if (c->mark[unit] == c->number)
        return true;
    if (c->n == c->most)
        return false;
    c->mark[unit] = c->number;
    c->unit[c->n++] = unit;
    return true;
}

bool dp_closure_find(struct dp_closure *c, const uint32_t *stage, uint32_t unit, bool is_later)
{
    const struct dp_units *u = c->units;
    const uint32_t *at = is_later ? u->succ_at : u->pred_at, *to = is_later ? u->succ : u->pred;

    begin(c);
    if (!add(c, unit))
        return false;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t v = c->unit[i];

        c->steps += at[v + 1] - at[v] + 1;
        for (uint32_t k = at[v]; k < at[v + 1]; k++)
            if (stage[to[k]] == stage[v] && !add(c, to[k]))
                return false;
    }
    return true;
}
