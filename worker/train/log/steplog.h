/* SPDX-License-Identifier: BSD-3-Clause */
/* What the leader writes about each step: a JSON line in a file, and a line for people now and then.
 *
 * Numbers in the file have 17 significant digits, so two runs can be compared bit by bit. Lines:
 *   {"step", "loss", "bits_per_byte", "grad_norm", "lr", "sparsity", "frozen", "tokens_per_s", "step_ms",
 *    "wait_ms", "layout", "epoch", "workers"}
 *   {"event": "pruned|frozen|eval|saved|resumed|complete|handover|aborted|stopped|regrouped", "step", "value", "text"}
 * Behind "regrouped", where its step is that of a checkpoint, steps come again that are there already: with the same losses, and
 * other times.
 */
#ifndef DP_WORKER_TRAIN_LOG_STEPLOG_H
#define DP_WORKER_TRAIN_LOG_STEPLOG_H

#include <stdbool.h>

#include "common/run/layout.h"
#include "worker/model/train_config.h"

struct dp_steplog;

struct dp_step_line {
    uint64_t step; /* completed */
    double loss, grad_norm, lr, sparsity;
    uint32_t frozen; /* layers that only go forward */
    uint64_t step_ns, wait_ns;
    const struct dp_layout *layout;
};

enum dp_steplog_how {
    DP_STEPLOG_NEW,
    DP_STEPLOG_APPEND,    /* a resumed run goes on in its file */
    DP_STEPLOG_TAKE_OVER, /* so does one that has lost its leader: without the file, which is said, where it cannot be opened */
};

/* bytes_per_token: 0 where unknown. What was written last is ended by a line's end where the writer did not come to that. */
struct dp_steplog *dp_steplog_open(const struct dp_train_config *config, double bytes_per_token, enum dp_steplog_how how,
                                   struct dp_err *err);
void dp_steplog_close(struct dp_steplog *log);

/* A line of JSON for every step where there is a file; one on the terminal for the first and the last step and every
 * output.every-th. What cannot be written is lost, training goes on. */
void dp_steplog_step(struct dp_steplog *log, const struct dp_step_line *line);
/* The step of the newest line of a step in the file: that this log wrote, or found when it took over. 0: none, or not known. */
uint64_t dp_steplog_newest(const struct dp_steplog *log);
/* value NaN: none. The text goes to the terminal too. */
void dp_steplog_event(struct dp_steplog *log, const char *event, uint64_t step, double value,
                      const char *text);
/* Nats per token as bits per byte; NaN where the bytes are unknown. */
double dp_steplog_bits(const struct dp_steplog *log, double loss);

#endif
