/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of all layers on other workers, never a step behind, so that a lost worker costs no step.
 *
 * Each worker's layers are followed by a worker on another node (common/run/copy_place.h), by the same streams as those of a hand-over
 * that is copied while training goes on (worker/shadow/), without an end: the state of each unit once, its gradients after each backward,
 * and the optimizer's step again, with the same kernels. A layer all of whose units have arrived is a whole copy. The holder waits for
 * the gradients of a step before it gives its own part of the step's sums. So when the leader orders a step, every whole copy in the
 * run can do it, whoever is lost then.
 *
 *   boundary k       opening: owner: heads ------------> holder: what it has already goes on, for the rest a copy is made
 *   step             forward, backward                   answers: of which layers it wants the state
 *   before the sum   owner: gradients -----------------> holder: they have all arrived
 *   after the order  owner: its own step                 the same step on its copies
 *   boundary k + 1   schemes on both; then the owner sends more of the state
 *
 * Now and then, so seldom that it costs a thousandth of a step, the owner sends a check of one of its layers with its gradients. A
 * whole copy that has another one is no copy any more, says so, and begins anew: what is not the layer is not what a run goes on from.
 *
 * All members of the run call these functions at the same places of the same steps, and open the streams anew at a boundary at which
 * layers changed: pruned, frozen, handed over. Copies that can go on do, whole or not; the others begin anew. A copy that comes to
 * nothing here (no memory, a damaged message) asks for that by dp_copies_want_opening(), and after three times is left out; training
 * goes on.
 *
 * Not thread-safe. Errors of -1 end the run, or lead to a regroup: a peer is gone, or there is no memory for tables. */
#ifndef DP_WORKER_COPIES_COPIES_H
#define DP_WORKER_COPIES_COPIES_H

#include "common/run/copy_place.h"
#include "worker/model/stage.h"
#include "worker/net/transport.h"

struct dp_copies; /* NULL: this run has none. Functions that say so take it */

struct dp_copies_args {
    struct dp_transport *transport; /* all borrowed for the life of the object */
    uint32_t rank;
    const struct dp_train_config *config;
    struct dp_backend *backend;
    const struct dp_tune *tune;
};

/* Holds nothing. NULL with DP_ENOMEM. */
struct dp_copies *dp_copies_create(const struct dp_copies_args *args, struct dp_err *err);
/* Messages under way are given up; where all end in good order, dp_copies_settle() comes before. NULL is fine. */
void dp_copies_destroy(struct dp_copies *c);

/* Where streams are opened: at a boundary, after all that changes layers. Copied. */
struct dp_copies_opening {
    const struct dp_layout *layout; /* in force */
    const struct dp_copy_place *place; /* that all have computed alike for it */
    struct dp_stage *stage;  /* borrowed until the next opening */
    uint64_t step;           /* optimizer steps completed */
    uint64_t room_bytes;     /* that more copies and buffers may take here than there are; UINT64_MAX: no limit */
    bool are_changed;        /* at this boundary a scheme may have changed layers: what is no whole copy begins anew; as on all others */
};
/* Collective: heads of layers are on their way then. Copies that this worker still has to hold, of that step, stay as they are, and what
 * is missing of them comes; others are dropped. After dp_copies_settle() or dp_copies_break_off(). */
int dp_copies_open(struct dp_copies *c, const struct dp_copies_opening *at, struct dp_err *err);

/* After the backwards of step `step` (from 0), when the device is done with the gradients and before their sum. squares: of each of this
 * worker's layers' gradients, dp_stage_grad_squares(). step_ns: what the last step took, for the pace of states and checks. Returns when
 * all gradients of what is held here have arrived. */
int dp_copies_gradients(struct dp_copies *c, uint64_t step, uint64_t step_ns, const double *squares, struct dp_err *err);
/* When the step is ordered: do it on all that is held here. grad_scale: as for dp_stage_step(). */
int dp_copies_step_again(struct dp_copies *c, uint64_t step, double grad_scale, struct dp_err *err);
/* At the end of the boundary, unless streams were opened there: more of the state. Waits for nothing. */
int dp_copies_send_states(struct dp_copies *c, struct dp_err *err);
/* At a boundary at which something changes layers or the layout, before that; and before the end: no message is under way then. */
int dp_copies_settle(struct dp_copies *c, struct dp_err *err);

/* Has a copy come to nothing here since the last opening? NULL: no. */
bool dp_copies_want_opening(const struct dp_copies *c);
/* Why, for people, once: the text until the next call, or NULL. *layer: which. */
const char *dp_copies_take_trouble(struct dp_copies *c, uint32_t *layer);

/* For a scheme (scheme.h): whole copies that it changes as it changes layers. Where an entry becomes NULL, that copy could not be
 * changed, and is dropped at the opening that follows. Borrowed until then, or until the next call or dp_copies_break_off(). NULL: none. */
uint32_t dp_copies_list(struct dp_copies *c, struct dp_layer ***list);

/* ---- in a hand-over (worker/handover/), behind dp_copies_settle() ---- */

/* Is that layer of this worker followed by that worker, with a copy of which all has been sent? Only its holder knows whether it came to
 * anything. NULL: no. */
bool dp_copies_is_followed(const struct dp_copies *c, uint32_t layer, uint32_t by);
/* The whole copy of that layer here, after so many steps, with its owner's head of now and zero gradients. Borrowed: it stays a copy
 * until dp_copies_give(). NULL: none of that head is here, or the device failed. c NULL: none. */
struct dp_layer *dp_copies_lend(struct dp_copies *c, uint32_t layer, uint64_t step, const uint8_t *head, size_t bytes);
/* What was lent is a layer, and the borrower's. */
void dp_copies_give(struct dp_copies *c, uint32_t layer);
/* It is not what its layer is, by their digests: no copy any more; begun anew at the next opening. Borrowed it is no more. */
void dp_copies_differ(struct dp_copies *c, uint32_t layer);

/* No room for a layer that comes: copies are let go of, so many that their bytes are there, those that are not whole first. Streams end
 * with that, until the opening at the end of this boundary, at which copies begin anew where there is room. keep: [layers], true: not that
 * one; those that are lent are among them. returns: bytes; 0: all together are fewer, and nothing has changed. c NULL: 0. */
uint64_t dp_copies_give_up(struct dp_copies *c, uint64_t bytes, const bool *keep);

/* ---- when a worker is lost ---- */

/* A peer is gone, or the run regroups: messages under way are given up, and whatever is no whole copy. Gradients of step
 * dp_copies_step() are kept where dp_copies_gradients() had returned 0 for it. NULL is fine. */
void dp_copies_break_off(struct dp_copies *c);
/* Steps that its whole copies have done. NULL: 0. */
uint64_t dp_copies_step(const struct dp_copies *c);
/* Can it do that step: are its gradients here, and is it the next one? NULL: no. */
bool dp_copies_can_step(const struct dp_copies *c, uint64_t step);
/* Is there a whole copy of that layer here? NULL: no. */
bool dp_copies_has(const struct dp_copies *c, uint32_t layer);
/* A whole copy, with zero gradients, as a stage takes it; the caller owns it from now on. In the head of a tied model the copy of wte
 * has no content: dp_layer_tied_set() from the embedding. NULL with the reason; it is gone then. */
struct dp_layer *dp_copies_take(struct dp_copies *c, uint32_t layer, struct dp_err *err);

/* ---- what it costs ---- */

struct dp_copies_cost {
    uint32_t n_own, n_own_whole;   /* layers of this worker that are to be copied elsewhere; and that are, all of them sent */
    uint32_t n_held, n_held_whole; /* copies of others' layers here */
    uint32_t holder;               /* of this worker's layers; DP_COPY_NOWHERE: nobody */
    uint64_t held_bytes;           /* of copies, and of buffers for gradients on their way */
    uint64_t coming_bytes;         /* part of it: of copies that are not whole, some of which is not resident yet */
    uint64_t step_bytes;           /* sent in the last step, gradients and states */
};
/* NULL: all 0, holder DP_COPY_NOWHERE. */
struct dp_copies_cost dp_copies_info(const struct dp_copies *c);

#endif
