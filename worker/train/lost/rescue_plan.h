/* SPDX-License-Identifier: BSD-3-Clause */
/* After a loss: may those who are left go on with the step that they are at, from the layers that they have?
 *
 * A step is ordered by the leader when all have given it their part of its sums. So whoever is left is at one of two boundaries: it has
 * done the newest step that was ordered, or it has all gradients of it and can do it now, with the order of one that heard it. So it is
 * with copies of others' layers (worker/copies/). If every layer is with one of them, no step is lost but the one
 * under way. Here is who has what, and what follows; rescue.c does it. */
#ifndef DP_WORKER_TRAIN_LOST_RESCUE_PLAN_H
#define DP_WORKER_TRAIN_LOST_RESCUE_PLAN_H

#include "common/run/layout.h"
#include "worker/step/step_order.h"

/* How far a worker has come. */
struct dp_standing {
    uint64_t step;   /* optimizer steps that its layers have done */
    uint64_t given;  /* newest step (from 1) of which it gave its part of the sums: the gradients are whole until its layers do it */
    struct dp_step_order order; /* the newest that it has; order.step 0: none */
    struct dp_reached reached;  /* by the schemes, before the boundary of that order */
    uint32_t done, told;        /* of order.flags, DP_ORDER_SCHEME left out: done here; and noted in the log by it, as the leader */
    uint32_t schemes_done, schemes_told; /* the same of order.scheme, a bit each */
};

#define DP_LAYER_SET_BYTES (DP_MAX_LAYERS / 8) /* a bit for each layer */

/* What one worker has to give. As it goes over the wire, between workers of one release. */
struct dp_rescue_offer {
    struct dp_standing standing;
    uint8_t layers[DP_LAYER_SET_BYTES]; /* that it has, at standing.step; bit index % 8 of byte index / 8 */
    uint8_t copies[DP_LAYER_SET_BYTES]; /* of others' layers, whole, at copies_step */
    uint64_t copies_step;
    uint8_t can_copies_step; /* and all gradients of the next step are there */
    uint8_t is_new; /* it was in no layout before this one, and knows nothing of the run */
};

/* What all of them do. */
struct dp_rescue_plan {
    uint8_t is_possible, has_new; /* has_new: somebody is */
    char why_not[250];
    uint64_t step; /* that they go on from: each layer has done so many */
    struct dp_step_order order; /* of that step; order.step 0: none was made yet */
    struct dp_reached reached;  /* before its boundary */
    uint32_t done, told;        /* of its flags: by all, or once for all; in the log */
    uint32_t schemes_missing;   /* bits: that nobody has applied */
    uint32_t schemes_catch_up;  /* that some have, and the others can do alone */
    uint32_t schemes_told;
    uint16_t provider[DP_MAX_LAYERS]; /* of each layer of the model: from its own layers, or where it has not that one, from its copies */
    uint32_t n_copies; /* of them are from copies */
};

/* offers: [layout->n_workers], those of workers that are gone in the layout, which is the next one, are not looked at. Whoever is at the
 * step before the plan's, with layers or copies, is to do that step on them. Pure; *plan: =. */
void dp_rescue_plan_make(const struct dp_rescue_offer *offers, const struct dp_layout *layout, struct dp_rescue_plan *plan);

/* layer: below DP_MAX_LAYERS. Sets begin as zeros. */
bool dp_layer_set_has(const uint8_t set[DP_LAYER_SET_BYTES], uint32_t layer);
void dp_layer_set_add(uint8_t set[DP_LAYER_SET_BYTES], uint32_t layer);

#endif
