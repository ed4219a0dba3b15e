/* SPDX-License-Identifier: BSD-3-Clause */
/* See step_order.h. */
#include "worker/step/step_order.h"

#include <math.h>

static bool is_every(int64_t every, uint64_t step)
{
    return every > 0 && step % (uint64_t)every == 0;
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
    if (in->migration && !is_last && !must_stop) {
        o->flags |= DP_ORDER_HANDOVER;
        o->migration = in->migration;
    }
    if (is_every(c->data.eval_every, step) || is_last)
        o->flags |= DP_ORDER_EVAL;
    if (c->checkpoint.dir[0] && (is_every(c->checkpoint.every, step) || in->requests || is_last))
        o->flags |= DP_ORDER_SAVE;
    if (is_last || must_stop) {
        o->flags |= DP_ORDER_STOP;
        o->reason = is_last ? DP_STOP_COMPLETED : in->requests & DP_REQUEST_STOP ? DP_STOP_SIGNAL : DP_STOP_TIME;
    }
}
