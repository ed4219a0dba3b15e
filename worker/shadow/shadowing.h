/* SPDX-License-Identifier: BSD-3-Clause */
/* Layers of a hand-over that is to come, copied while training goes on.
 *
 * The destination makes a shadow of each layer that it is to have. Between two steps, when nothing changes a layer, its source sends
 * a few units more of its state (weights and moments, from where they lie into where they will lie). From then on the source sends
 * their gradients after each backward, and the destination does the optimizer's step again on what it has, with the same kernel and
 * the same scalars, which all workers know from the step's order. So at each boundary every unit that was copied is bit for bit what
 * it is at its source. When all of them are, the workers hand over at the next boundary: what is left of the transfer then is the
 * check. Nothing of this is decided by anybody but the vote of that hand-over: a shadowing may be dropped at any boundary.
 *
 *   boundary k       source: states of units a..b ------> destination: into the shadow
 *   step             forward, backward; the states have arrived
 *   before the sum   source: gradients of 0..b ---------> destination: into the shadow
 *   after the order  source: its own step                 destination: the same step on 0..b
 *   boundary k + 1   source: states of units b..c ------> ...
 *
 * Where pruning or freezing is due at a boundary no more state goes. The source tells what it left of each layer (a new head, a bit for
 * each block), before its next gradients the destination does the same to what it has, and answers whether it could (change.c).
 *
 * All workers call these functions at the same places of the same steps; who neither sends nor receives does nothing in them.
 *
 * A unit of which this end cannot make anything (no memory, a damaged message) is taken and forgotten, so that the other end need not
 * wait: dp_shadowing_failure(), and the leader has all drop it.
 */
#ifndef DP_WORKER_SHADOW_SHADOWING_H
#define DP_WORKER_SHADOW_SHADOWING_H

#include "common/run/layout.h"
#include "worker/model/stage.h"
#include "worker/net/transport.h"

struct dp_shadowing;

/* All borrowed for the life of the object; what they point to may not be replaced meanwhile. */
struct dp_shadowing_args {
    struct dp_transport *transport;
    uint32_t rank;
    const struct dp_layout *layout; /* in force */
    const struct dp_layout *next;   /* copied where it is needed */
    struct dp_stage *stage;
    const struct dp_train_config *config;
    struct dp_backend *backend;
    const struct dp_tune *tune;
    uint64_t migration;
    uint64_t step;            /* optimizer steps completed at this boundary */
    uint64_t room_bytes;      /* that shadows and buffers may take here; UINT64_MAX: no limit */
};

/* Begin, at a boundary. Heads of layers are on their way then. NULL with DP_ENOMEM, or a message that could not be begun: the run ends. */
struct dp_shadowing *dp_shadowing_create(const struct dp_shadowing_args *args, struct dp_err *err);

/* After the backwards of step `step` (from 0), when the device is done with the gradients and before their sum: the layers' gradients
 * as the optimizer will have them. step_ns: what the last step took. Waits for what was copied at the boundary before. -1: the run
 * cannot go on (a peer is gone). */
int dp_shadowing_gradients(struct dp_shadowing *s, uint64_t step, uint64_t step_ns, struct dp_err *err);

/* At the boundary behind it. grad_scale: as for dp_stage_step(). goes_on: copy more; false: the last call, before a hand-over or the
 * end of it. */
int dp_shadowing_boundary(struct dp_shadowing *s, uint64_t step, double grad_scale, bool goes_on, struct dp_err *err);

/* At a boundary at which a scheme changes layers, behind dp_shadowing_boundary() with goes_on false: before it does, */
int dp_shadowing_before_change(struct dp_shadowing *s, struct dp_err *err);
/* what it leaves of a param of this worker's stage, before it is taken (dp_chosen_fn of scheme.h; arg: the shadowing), */
int dp_shadowing_chosen(void *arg, const struct dp_layer *layer, const struct dp_param *param, const uint64_t *bits, int64_t n,
                        struct dp_err *err);
/* and after it. step: optimizer steps completed. Waits for nothing. */
int dp_shadowing_changed(struct dp_shadowing *s, uint64_t step, struct dp_err *err);
/* Both ends: the destination has done the same afterwards, or has failed, and both know. dp_shadowing_gradients() begins with it, so only
 * a hand-over at the same boundary calls it. Waits for the other ends. */
int dp_shadowing_follow(struct dp_shadowing *s, struct dp_err *err);

/* Is every unit of this worker's layers copied, in and out? */
bool dp_shadowing_is_complete(const struct dp_shadowing *s);
/* It is of no use any more: why, or NULL. */
const char *dp_shadowing_failure(const struct dp_shadowing *s);

/* For the hand-over, after the last boundary. Has it all of that layer? The same at both ends. s NULL: no. */
bool dp_shadowing_has(const struct dp_shadowing *s, uint32_t layer);
/* The shadow of a layer that it has, with a head as the source has it now. The caller owns it. NULL and DP_ECORRUPT: it is another
 * layer's head. What dp_layer_part.is_replayed says of its parts is there. */
struct dp_layer *dp_shadowing_take(struct dp_shadowing *s, uint32_t layer, const uint8_t *head, size_t bytes, struct dp_err *err);

/* What was done so far. */
struct dp_shadowing_sums {
    uint64_t sent_bytes, received_bytes;
    uint64_t busy_ns;   /* of this worker, which training did not have */
    uint32_t n_steps;
    uint32_t n_changes; /* boundaries at which layers were changed */
};
/* Of all its streams. s NULL: nothing. */
struct dp_shadowing_sums dp_shadowing_total(const struct dp_shadowing *s);

/* Shadows that were not taken are destroyed; messages that are on their way are waited for where is_in_step (all workers end it at
 * this boundary), else given up. NULL is fine. */
void dp_shadowing_destroy(struct dp_shadowing *s, bool is_in_step);

#endif
