/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradual global magnitude pruning, exact for any number of workers.
 *
 * Exactly k = round((1 - s) * prunable) weights survive: those of largest |w|, ties by smaller global
 * index. With blocks (prune.granularity 4x1, 32x32, ...) of k weights, round((1 - s) * prunable / k) of them: those
 * of largest L2 norm, in float, ties by smaller index of the block: of its matrix, then rows, then column.
 * The threshold is found by histograms of the bits of |w| (a float's magnitude orders like its bits without
 * the sign): level 1 counts by the top 11 bits, level 2 by the next 10, level 3 by the last 10, each summed
 * over the workers; no weight moves. Among weights equal to the threshold, those
 * with the smallest global index survive (counts per layer, in layer order).
 */
#ifndef DP_WORKER_SCHEME_PRUNE_RUN_H
#define DP_WORKER_SCHEME_PRUNE_RUN_H

#include "worker/scheme/scheme.h"

#define DP_PRUNE_BINS 2048 /* of the histogram that a threshold is searched in */

/* Prune the stage to the target; all workers call it at the same boundary. *reached: sparsity of the
 * whole model afterwards. sum NULL: this stage is the whole model. copies: pruned as well, NULL: none. */
int dp_prune_run(struct dp_stage *stage, const struct dp_scheme_copies *copies, const struct dp_train_config *config, double target,
                 dp_allreduce_fn *sum, void *arg, double *reached, struct dp_err *err);

#endif
