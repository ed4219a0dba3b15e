/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout that a run begins with: that of pipeline.layout, else contiguous layers, the largest share of
 * parameters as small as possible, at least one layer for every worker. The same on all workers. */
#ifndef DP_WORKER_TRAIN_START_INITIAL_LAYOUT_H
#define DP_WORKER_TRAIN_START_INITIAL_LAYOUT_H

#include "common/run/layout.h"
#include "worker/model/train_config.h"

/* DP_EINVAL when there are more workers than layers, or pipeline.layout does not fit. */
int dp_layout_initial(const struct dp_train_config *config, uint32_t n_workers, struct dp_layout *out,
                      struct dp_err *err);

/* The same for given weights of n_layers layers. */
int dp_layout_min_max(const uint64_t *weight, uint32_t n_layers, uint32_t n_workers, struct dp_layout *out,
                      struct dp_err *err);

#endif
