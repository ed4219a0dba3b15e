/* SPDX-License-Identifier: BSD-3-Clause */
/* See line.h. */
#include "policies/graph/line.h"

#include <stdlib.h>

struct walk {
    const struct dp_units *u;
    uint32_t *missing; /* [n] predecessors that did not come yet */
    uint32_t *ready;   /* [n] those without; a stack, or a queue from `head` on */
    uint32_t *held;    /* [n_nets] units of a net that came */
    uint32_t n_ready, head;
};

static void make_ready(struct walk *w, uint32_t unit)
{
    if (--w->missing[unit] == 0)
        w->ready[w->n_ready++] = unit;
}

static void pass_on(struct walk *w, uint32_t unit, bool is_back)
{
    uint32_t from = w->u->succ_at[unit], to = w->u->succ_at[unit + 1];

    for (uint32_t i = from; i < to; i++)
        make_ready(w, w->u->succ[is_back ? to - 1 - (i - from) : i]);
}

/* Traffic that crosses the cut behind `unit` when it comes next, less what crosses now. */
static int64_t more_traffic(const struct walk *w, uint32_t unit)
{
    const struct dp_units *u = w->u;
    int64_t more = 0;

    for (uint32_t i = u->net_of_at[unit]; i < u->net_of_at[unit + 1]; i++) {
        uint32_t net = u->net_of[i];

        if (w->held[net] == 0)
            more += (int64_t)u->net_ns[net];
        if (w->held[net] + 1 == u->net_size[net])
            more -= (int64_t)u->net_ns[net];
    }
    return more;
}

/* Of equals the one that became ready last. */
static uint32_t take_tightest(struct walk *w)
{
    uint32_t best = w->n_ready - 1, unit;
    int64_t least = more_traffic(w, w->ready[best]);

    for (uint32_t i = best; i-- > 0;) {
        int64_t more = more_traffic(w, w->ready[i]);

        if (more < least) {
            least = more;
            best = i;
        }
    }
    unit = w->ready[best];
    w->n_ready--;
    for (uint32_t i = best; i < w->n_ready; i++) /* the others keep their order */
        w->ready[i] = w->ready[i + 1];
    for (uint32_t i = w->u->net_of_at[unit]; i < w->u->net_of_at[unit + 1]; i++)
        w->held[w->u->net_of[i]]++;
    return unit;
}

static uint32_t take_next(struct walk *w, enum dp_line_kind kind)
{
    if (kind == DP_LINE_BREADTH)
        return w->ready[w->head++];
    if (kind == DP_LINE_TIGHT)
        return take_tightest(w);
    return w->ready[--w->n_ready];
}

int dp_line_make(const struct dp_units *u, enum dp_line_kind kind, uint32_t *order, struct dp_err *err)
{
    size_t n = (size_t)u->n + 1;
    struct walk w = {.u = u,
                     .missing = calloc(n, sizeof *w.missing),
                     .ready = calloc(n, sizeof *w.ready),
                     .held = calloc((size_t)u->n_nets + 1, sizeof *w.held)};
    int rc = -1;

    if (!w.missing || !w.ready || !w.held) {
        dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", u->n);
        goto out;
    }
    for (uint32_t i = 0; i < u->n; i++) {
        w.missing[i] = u->pred_at[i + 1] - u->pred_at[i] + 1;
        make_ready(&w, i);
    }
    for (uint32_t i = 0; i < u->n; i++) {
        order[i] = take_next(&w, kind);
        pass_on(&w, order[i], kind == DP_LINE_DEPTH_BACK);
    }
    rc = 0;
out:
    free(w.missing);
    free(w.ready);
    free(w.held);
    return rc;
}

bool dp_line_is_chain(const struct dp_units *u, const uint32_t *order)
{
    for (uint32_t i = 1; i < u->n; i++) {
        uint32_t p = u->pred_at[order[i]];

        while (p < u->pred_at[order[i] + 1] && u->pred[p] != order[i - 1])
            p++;
        if (p == u->pred_at[order[i] + 1])
            return false;
    }
    return true;
}
