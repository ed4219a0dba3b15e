/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of a run over its steps, for the curves of `dynpipe watch`. */
#ifndef DP_CLI_ASK_HISTORY_H
#define DP_CLI_ASK_HISTORY_H

#include <jansson.h>
#include <stddef.h>

enum { DP_HISTORY_CAP = 4096 };

struct dp_sample {
    double step, loss, tokens_per_s, sparsity;
};

/* Grows to its cap; then every other sample goes, so that it always spans the whole run. */
struct dp_history {
    size_t n;
    struct dp_sample sample[DP_HISTORY_CAP];
};

/* Add what a run's document says, unless its step has been seen. A document that brings
 * samples[]{step, loss} fills an empty history first. */
void dp_history_add(struct dp_history *h, const json_t *run);

/* Mean loss in `columns` equal ranges of steps from the first to the last sample; a range without a
 * sample takes its left neighbour's. NaN where nothing is known. */
void dp_history_loss(const struct dp_history *h, double *out, size_t columns);

/* Devices held at `columns` equally spaced times of the run's dp_run_held() up to its time now. */
void dp_history_held(const json_t *run, double *out, size_t columns);

/* Time of the document in the run's own clock (the one of dp_run_held()); NaN when unknown. */
double dp_history_now(const json_t *run);

#endif
