/* SPDX-License-Identifier: BSD-3-Clause */
/* What all workers do at the boundary after an optimizer step, decided by the leader.
 *
 * The parts of an order are done in this sequence: schemes (worker/scheme/), hand over, evaluate, save, stop; where the run stops it
 * saves before it evaluates, because its job may be killed meanwhile.
 */
#ifndef DP_WORKER_STEP_STEP_ORDER_H
#define DP_WORKER_STEP_STEP_ORDER_H

#include "worker/scheme/scheme.h"

#define DP_SHADOW_WAITS 8u /* boundaries for a PREPARE that does not come to all: the hand-over itself waits, and says for whom */

/* Requests of any worker. */
enum dp_step_request {
    DP_REQUEST_SAVE = 1u << 0, /* SIGUSR1, or the daemon asked */
    DP_REQUEST_STOP = 1u << 1, /* SIGTERM: save and stop */
    DP_REQUEST_END = 1u << 2, /* the job's time is nearly over: save and stop */
    /* Of the hand-over that was announced (below). */
    DP_REQUEST_UNPREPARED = 1u << 3, /* this worker's daemon has not said what it is */
    DP_REQUEST_SHADOW = 1u << 4,     /* it has layers to copy while training goes on, or is not done with it */
    DP_REQUEST_UNSHADOW = 1u << 5,   /* that came to nothing here */
    DP_REQUEST_COPIES = 1u << 6, /* copies of layers are to begin, or to begin anew (worker/copies/) */
};
#define DP_REQUESTS_SAVE (DP_REQUEST_SAVE | DP_REQUEST_STOP | DP_REQUEST_END)

/* Layers that a hand-over moves may be copied before, while training goes on (worker/shadow/). The leader announces the hand-over, so
 * that each worker may look what it has to send; where that is much, all begin at one boundary, and the hand-over is ordered when none
 * has more to copy. */
enum dp_shadow_order {
    DP_SHADOW_NONE = 0, /* nothing is announced, or what was is handed over */
    DP_SHADOW_ANNOUNCE = 1,
    DP_SHADOW_BEGIN = 2,
    DP_SHADOW_GO_ON = 3,
    DP_SHADOW_DROP = 4, /* all forget what was copied */
};

enum dp_step_order_flag {
    DP_ORDER_SCHEME = 1u << 0, /* one of them at least is due */
    DP_ORDER_HANDOVER = 1u << 1,
    DP_ORDER_EVAL = 1u << 2,
    DP_ORDER_SAVE = 1u << 3,
    DP_ORDER_STOP = 1u << 4,
    DP_ORDER_COPIES = 1u << 5, /* all open the streams of copies anew; so they do where schemes or a hand-over change layers */
};

enum dp_stop_reason { DP_STOP_NOT = 0, DP_STOP_COMPLETED = 1, DP_STOP_SIGNAL = 2, DP_STOP_DIVERGED = 3, DP_STOP_TIME = 4 };

struct dp_step_order {
    uint64_t step; /* optimizer steps completed at the boundary */
    uint64_t epoch;
    uint32_t flags;  /* enum dp_step_order_flag */
    uint16_t reason; /* enum dp_stop_reason, with DP_ORDER_STOP */
    uint16_t shadow; /* enum dp_shadow_order */
    uint64_t migration; /* with DP_ORDER_HANDOVER, and of shadow */
    struct dp_scheme_order scheme[DP_N_SCHEMES]; /* with DP_ORDER_SCHEME */
    /* results of the step, the same bits on all workers */
    double loss;      /* mean over the step's tokens, nats */
    double grad_norm; /* of all gradients of the model, before clipping */
};

/* What was ordered last about copying. */
struct dp_step_shadow {
    bool is_allowed;    /* the pending hand-over may be announced */
    uint64_t migration; /* that was announced, or is copied; 0: none */
    bool is_copying;
    uint32_t n_waits;   /* boundaries since it was announced */
};

/* What the leader knows at this boundary. */
struct dp_step_order_input {
    uint32_t requests;
    uint64_t migration; /* 0: none pending */
    struct dp_step_shadow shadow;
    uint32_t n_layers;
    struct dp_reached reached; /* by the schemes */
    const double *measured;    /* [dp_schemes_measured()][n_layers], for them */
};

/* What the leader orders after `step` steps, given everybody's requests. Pure. */
void dp_step_order_decide(const struct dp_train_config *config, uint64_t step, const struct dp_step_order_input *in,
                          struct dp_step_order *order);

#endif
