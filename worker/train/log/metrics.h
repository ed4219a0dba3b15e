/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker measures of itself, step by step, and the report that it makes of it.
 *
 * Every number in a report is a median over the optimizer steps of one window (lib/window.h), which lasts WELCOME.report_ms.
 * Costs are device time (laps of the backend: the thread's CPU time on backend cpu), so workers that share a core do not look slow;
 * waiting is measured apart. Each lap counts in one sum. Layers count their own (struct dp_layer: fwd_ns, bwd_input_ns, bwd_weight_ns);
 * dp_metrics_step() reads and resets those counters, after the laps have been collected.
 *
 * The cost of measuring is itself reported: thread CPU time spent in this file, what the trainer adds
 * with dp_metrics_add_overhead(), and the laps of each layer's kernels at the price of a clock read that was measured at
 * the start, which is what a lap costs a processor.
 */
#ifndef DP_WORKER_TRAIN_LOG_METRICS_H
#define DP_WORKER_TRAIN_LOG_METRICS_H

#include <stdbool.h>

#include "common/message/msg.h"
#include "worker/copies/copies.h"
#include "worker/step/pipeline.h"

struct dp_metrics;

/* One optimizer step, as the trainer saw it. */
struct dp_step_sample {
    uint64_t step;         /* optimizer steps completed, this one included */
    uint64_t epoch;        /* layout epoch that the step ran in; a new one begins a new window */
    uint64_t wall_ns;      /* from boundary to boundary */
    uint64_t wait_ns;      /* part of it spent waiting for other workers */
    uint64_t optimizer_ns; /* device time of clipping and AdamW */
    uint64_t rest_ns;      /* device time beside optimizer, pipeline and layers: sums */
    struct dp_pipeline_times pipeline; /* receive_ns: what a processor spends while it waits; 0 of another device */
    uint32_t microbatches; /* of the step */
    double loss;           /* nats per token; NaN where this worker does not know it */
    double grad_norm;      /* before clipping; NaN where unknown */
};

/* What is no layer and no optimizer: medians of the window, for the trace. */
struct dp_metrics_rest {
    uint64_t message_ns; /* device time at the stage's borders, one microbatch forward and back: messages, copies */
    uint64_t rest_ns;    /* device time of a step beside operations and optimizer: data, sums */
    uint64_t lost_ns;    /* wall time of a step in which this worker neither computed nor waited: others had its core */
};

/* report_ms: least time between two reports; dp_metrics_set_interval() changes it (WELCOME). */
struct dp_metrics *dp_metrics_create(uint32_t rank, uint32_t report_ms, struct dp_err *err);
void dp_metrics_destroy(struct dp_metrics *m);
void dp_metrics_set_interval(struct dp_metrics *m, uint32_t report_ms);

/* Take in one finished step: copies the sample, reads and resets the counters of the stage's layers. */
void dp_metrics_step(struct dp_metrics *m, const struct dp_step_sample *s, struct dp_stage *stage);

/* Forget the window and zero the layers' counters: after pruning, evaluation, a checkpoint or a
 * hand-over, whose costs must not show as the cost of a layer. */
void dp_metrics_reset(struct dp_metrics *m, struct dp_stage *stage);

/* Device time spent on measuring or reporting outside of this file. */
void dp_metrics_add_overhead(struct dp_metrics *m, uint64_t ns);

/* Is it time to report? False while no step was taken in since the last report. */
bool dp_metrics_is_due(const struct dp_metrics *m, uint64_t now_ns);

/* The report of the window so far, which goes on; NULL while no step is in it. Borrowed until the next
 * call with m. */
const struct dp_msg_report *dp_metrics_window(struct dp_metrics *m, struct dp_stage *stage);

/* For the next report: memory_need.h, memory_limit.h. */
void dp_metrics_set_memory(struct dp_metrics *m, uint64_t need_bytes, uint64_t job_bytes);

/* Likewise, of copies of layers here and elsewhere. Without it a report says that there are none. */
void dp_metrics_set_copies(struct dp_metrics *m, const struct dp_copies_cost *cost);

/* Build the report of the window and begin a new one. Borrowed until the next call with m. */
const struct dp_msg_report *dp_metrics_report(struct dp_metrics *m, uint64_t now_ns, struct dp_stage *stage);

/* The rest of the window of the last report or window. Borrowed likewise. */
const struct dp_metrics_rest *dp_metrics_get_rest(const struct dp_metrics *m);

#endif
