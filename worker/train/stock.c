/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: memory for the layers that a pending hand-over brings here, made ready while training goes on. It begins when
 * PREPARE is there, a step or two before the boundary at which all stand still. */
#include "worker/train/trainer_internal.h"

#include <inttypes.h>

#include "common/log.h"
#include "worker/model/model.h"
#include "worker/model/param.h"

/* Arrays of a layer that is dense and learns: more no layer has, whatever PREPARE says. */
static uint64_t most_bytes(const struct dp_trainer *t, uint32_t layer)
{
    struct dp_param_spec spec[DP_LAYER_MAX_PARAMS];
    uint32_t n = dp_model_specs(t->config, layer, spec);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++)
        bytes += (uint64_t)spec[i].rows * (uint64_t)spec[i].cols * sizeof(float) * DP_PARAM_ALL;
    return bytes;
}

/* What is to be asked for, 0: nothing, or there is no room, as the hand-over will say. A layer whose whole copy is here has its memory. */
static uint64_t wanted(struct dp_trainer *t, const struct dp_msg_prepare *p)
{
    uint64_t bytes, most = 0, limit = dp_trainer_memory_limit(t), held = dp_stage_bytes(t->stage, NULL);
    struct dp_layout next;
    struct dp_moves moves;

    if (dp_member_next_layout(p, &t->layout, true, &next, NULL) < 0)
        return 0;
    dp_layout_moves(&t->layout, &next, &moves);
    for (uint32_t i = 0; i < moves.n; i++)
        if (moves.move[i].to == t->rank && !dp_copies_has(t->copies, moves.move[i].layer))
            most += most_bytes(t, moves.move[i].layer);
    bytes = p->coming_bytes < most ? p->coming_bytes : most;
    held += dp_stage_activation_growth(t->config, t->be, &t->layout, &next, t->rank, t->reached.frozen);
    if (bytes < DP_STOCKING_LEAST || (limit && (held > limit || bytes > limit - held)))
        return 0;
    return bytes;
}

void dp_trainer_stock(struct dp_trainer *t)
{
    const struct dp_msg_prepare *p = dp_control_prepare(t->control);
    struct dp_err err = {0};
    uint64_t bytes;

    if (t->stocking && (!p || p->migration != t->stocked)) /* it was aborted, and another one may be pending */
        dp_trainer_stock_end(t);
    if (!p || p->migration == t->stocked || t->is_joining)
        return;
    t->stocked = p->migration;
    bytes = t->be->ops->stock ? wanted(t, p) : 0;
    if (!bytes)
        return;
    t->stocking = dp_stocking_begin(t->be, bytes, &err);
    if (!t->stocking) /* the hand-over asks for it again, and says so if it gets none */
        dp_debug("worker %u: hand-over %" PRIu64 ": %s", t->rank, t->stocked, err.text);
    else
        dp_debug("worker %u: hand-over %" PRIu64 ": %" PRIu64 " bytes are made ready for layers that come", t->rank, t->stocked, bytes);
}

void dp_trainer_stock_end(struct dp_trainer *t)
{
    if (t->stocking)
        dp_debug("worker %u: hand-over %" PRIu64 ": %" PRIu64 " bytes were made ready, and not needed", t->rank, t->stocked,
                 dp_stocking_left(t->stocking));
    dp_stocking_destroy(t->stocking);
    t->stocking = NULL;
}
