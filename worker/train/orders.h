/* SPDX-License-Identifier: BSD-3-Clause */
/* What all workers do at the boundary after an optimizer step, decided by rank 0.
 *
 * After the last backward of a step each worker tells rank 0 its part: wishes (a signal arrived),
 * the squares of its layers' gradients, the losses of the microbatches where it holds the head. Rank
 * 0 adds up in layer and microbatch order, decides, and answers all with one order. So a step
 * costs one round trip, and whatever changes the run (pruning, hand-over, checkpoint, end) happens on
 * all workers after the same step.
 *
 * The parts of an order are done in this sequence: prune, hand over, evaluate, save, stop; where the run stops it
 * saves before it evaluates, because its job may be killed meanwhile.
 */
#ifndef DP_WORKER_TRAIN_ORDERS_H
#define DP_WORKER_TRAIN_ORDERS_H

#include "worker/model/train_config.h"
#include "worker/net/collectives.h"

/* Wishes of any worker. */
enum dp_wish {
    DP_WISH_SAVE = 1u << 0, /* SIGUSR1, or the daemon asked */
    DP_WISH_STOP = 1u << 1, /* SIGTERM: save and stop */
    DP_WISH_END = 1u << 2,  /* the job's time is nearly over: save and stop */
};

enum dp_order_flag {
    DP_ORDER_PRUNE = 1u << 0,
    DP_ORDER_HANDOVER = 1u << 1,
    DP_ORDER_EVAL = 1u << 2,
    DP_ORDER_SAVE = 1u << 3,
    DP_ORDER_STOP = 1u << 4,
};

enum dp_stop_reason { DP_STOP_NOT = 0, DP_STOP_COMPLETED = 1, DP_STOP_SIGNAL = 2, DP_STOP_DIVERGED = 3, DP_STOP_TIME = 4 };

struct dp_order {
    uint64_t step; /* optimizer steps completed at the boundary */
    uint64_t epoch;
    uint32_t flags;  /* enum dp_order_flag */
    uint32_t reason; /* enum dp_stop_reason, with DP_ORDER_STOP */
    double target;   /* sparsity, with DP_ORDER_PRUNE */
    uint64_t migration;
    /* results of the step, the same bits on all workers */
    double loss;      /* mean over the step's tokens, nats */
    double grad_norm; /* of all gradients of the model, before clipping */
};

/* Rank 0's own wishes at this boundary. */
struct dp_order_input {
    uint32_t wishes;
    uint64_t migration; /* 0: none pending */
};

/* This worker's part of the step. */
struct dp_step_part {
    uint32_t wishes;
    const double *squares; /* of its layers, in order; NULL without layers */
    const double *losses;  /* [microbatches] sum over tokens; used where it holds the head */
};

/* What rank 0 orders after `step` steps, given everybody's wishes. Pure. */
void dp_order_decide(const struct dp_train_config *config, uint64_t step, const struct dp_order_input *in,
                     struct dp_order *order);

/* One round: part in, order out; collective. migration: a hand-over that rank 0's daemon prepares, 0 on
 * the others. DP_EPROTO when an order names another step or epoch than this worker is in. */
int dp_orders_run(struct dp_collectives *s, const struct dp_train_config *config, uint64_t step,
                  const struct dp_step_part *part, uint64_t migration, struct dp_order *order,
                  struct dp_err *err);

#endif
