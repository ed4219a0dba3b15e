/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker reports of its steps: medians over a window of them.
 *
 * A window holds the newest DP_WINDOW_STEPS optimizer steps since the last report, as their owner measured them. All costs are
 * device time, so workers that share a core do not look slow; waiting is told apart. Steps of another layout, or of other layers,
 * begin a new window: a median over both would be the cost of neither.
 *
 * A step costs a few stores for each layer; medians are taken when a report is made.
 */
#ifndef DP_LIB_WINDOW_H
#define DP_LIB_WINDOW_H

#include <stdbool.h>

#include "common/message/msg.h"

#define DP_WINDOW_STEPS 64 /* that medians are taken over at most; 512 bytes for each layer and part */

/* One optimizer step; or the medians of a window, with step, epoch, loss and grad_norm of its newest one. */
struct dp_window_step {
    uint64_t step;         /* optimizer steps completed, this one included */
    uint64_t epoch;        /* layout epoch that the step ran in */
    uint64_t wall_ns;      /* from boundary to boundary */
    uint64_t wait_ns;      /* part of it spent waiting for other workers */
    uint64_t optimizer_ns; /* device time */
    uint64_t busy_ns;      /* device time of layers and optimizer */
    uint64_t lost_ns;      /* wall time in which this worker neither computed nor waited */
    uint64_t ahead_ns, held_ns; /* as in REPORT; 0: not known in this step. Their medians: 0 where that is most of them */
    uint64_t message_ns;   /* device time at the stage's borders, one microbatch forward and back */
    uint64_t rest_ns;      /* device time beside operations and optimizer */
    double loss;           /* nats per token; NaN where this worker does not know it */
    double grad_norm;      /* before clipping; NaN where unknown */
};

struct dp_window;

/* report_ms: least time between two reports; dp_window_set_interval() changes it (WELCOME). NULL with DP_ENOMEM. */
struct dp_window *dp_window_create(uint32_t rank, uint32_t report_ms, struct dp_err *err);
void dp_window_destroy(struct dp_window *w); /* NULL is fine */
void dp_window_set_interval(struct dp_window *w, uint32_t report_ms);

/* Take in a finished step and what this worker's layers cost in it: load[n], for layers first to first + n - 1, of one microbatch;
 * n at most DP_MAX_LAYERS. Both are copied. Without memory for so many layers the window has none of them. */
void dp_window_add(struct dp_window *w, const struct dp_window_step *step, uint32_t first, const struct dp_layer_load *load,
                   uint32_t n);

/* Begin a new window: what came between two steps (pruning, an evaluation, a hand-over) must not show as the cost of a layer. */
void dp_window_forget(struct dp_window *w);

/* Device time that was spent on measuring. */
void dp_window_add_overhead(struct dp_window *w, uint64_t ns);
/* The same of a step of this window, with more_ns that came since. */
uint64_t dp_window_overhead_ns(const struct dp_window *w, uint64_t more_ns);

/* Has it no step? */
bool dp_window_is_empty(const struct dp_window *w);
/* Is it time to report? False while no step was taken in since the last report. */
bool dp_window_is_due(const struct dp_window *w, uint64_t now_ns);
/* A report was made at now_ns: begin a new window. */
void dp_window_reported(struct dp_window *w, uint64_t now_ns);

/* The report of the window so far, which goes on; of no step where none is in it. Layers: their median times, and the rest as it was
 * in the newest step. Zero are mem_bytes, need_bytes and job_bytes, which the caller knows. Borrowed until the next call with w, and
 * to be changed at will. */
struct dp_msg_report *dp_window_report(struct dp_window *w);

/* The medians of the last report. Borrowed for the life of the window. */
const struct dp_window_step *dp_window_medians(const struct dp_window *w);

#endif
