/* SPDX-License-Identifier: BSD-3-Clause */
/* See step_order.h. */
#include "worker/step/step_order.h"

#include <math.h>

static bool is_every(int64_t every, uint64_t step)
{
    return every > 0 && step % (uint64_t)every == 0;
}

/* Of the hand-over that is pending, or of none: announce it, copy, or do it. */
static void decide_handover(const struct dp_step_order_input *in, struct dp_step_order *o)
{
    const struct dp_step_shadow *s = &in->shadow;
    bool is_due = false;

    o->migration = in->migration;
    if (s->is_copying && s->migration != in->migration) {
        o->shadow = DP_SHADOW_DROP; /* it was aborted, and there may be a next one */
    } else if (!in->migration) {
        return;
    } else if (s->is_copying) {
        bool is_vain = in->requests & DP_REQUEST_UNSHADOW;

        is_due = is_vain || !(in->requests & DP_REQUEST_SHADOW);
        o->shadow = is_vain ? DP_SHADOW_DROP : is_due ? DP_SHADOW_NONE : DP_SHADOW_GO_ON;
    } else if (!s->is_allowed) {
        is_due = true;
    } else if (s->migration != in->migration) {
        o->shadow = DP_SHADOW_ANNOUNCE;
    } else if (in->requests & DP_REQUEST_UNPREPARED) {
        is_due = s->n_waits >= DP_SHADOW_WAITS;
        o->shadow = is_due ? DP_SHADOW_NONE : DP_SHADOW_ANNOUNCE;
    } else {
        is_due = !(in->requests & DP_REQUEST_SHADOW);
        o->shadow = is_due ? DP_SHADOW_NONE : DP_SHADOW_BEGIN;
    }
    if (is_due)
        o->flags |= DP_ORDER_HANDOVER;
}

void dp_step_order_decide(const struct dp_train_config *c, uint64_t step, const struct dp_step_order_input *in,
                          struct dp_step_order *o)
{
    const struct dp_scheme_in schemes = {.step = step, .n_layers = in->n_layers, .reached = in->reached};
    bool is_last = step >= (uint64_t)c->train.steps, must_stop = in->requests & (DP_REQUEST_STOP | DP_REQUEST_END);

    if (!isfinite(o->loss) || !isfinite(o->grad_norm)) {
        /* Nothing worth keeping: the last checkpoint stays as it is. */
        o->flags = DP_ORDER_STOP;
        o->reason = DP_STOP_DIVERGED;
        return;
    }
    if (dp_schemes_decide(c, &schemes, in->measured, o->scheme))
        o->flags |= DP_ORDER_SCHEME;
    if (!is_last && !must_stop)
        decide_handover(in, o);
    else if (in->shadow.is_copying)
        o->shadow = DP_SHADOW_DROP;
    if (is_every(c->data.eval_every, step) || is_last)
        o->flags |= DP_ORDER_EVAL;
    if (c->checkpoint.dir[0] && (is_every(c->checkpoint.every, step) || in->requests & DP_REQUESTS_SAVE || is_last))
        o->flags |= DP_ORDER_SAVE;
    if (in->requests & DP_REQUEST_COPIES && !is_last && !must_stop)
        o->flags |= DP_ORDER_COPIES;
    if (is_last || must_stop) {
        o->flags |= DP_ORDER_STOP;
        o->reason = is_last ? DP_STOP_COMPLETED : in->requests & DP_REQUEST_STOP ? DP_STOP_SIGNAL : DP_STOP_TIME;
    }
}
