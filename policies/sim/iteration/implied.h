/* SPDX-License-Identifier: BSD-3-Clause */
/* A 1F1B pipeline of one device a stage, run without lists of its operations: what program.c runs where these would be too
 * many. The same start and end of every operation.
 *
 * In round j stage s of S runs the backward of microbatch j - (S - s) and then the forward of microbatch j, as far as
 * these exist. That is its list (common/schedule/1f1b.c): S - 1 - s forwards ahead, then a forward and a backward in turn. The
 * gradient for a backward left the stage behind it one round earlier, the activation for a forward the stage before it in this
 * round: a run needs no more than what arrives next. */
#ifndef DP_POLICIES_SIM_ITERATION_IMPLIED_H
#define DP_POLICIES_SIM_ITERATION_IMPLIED_H

#include "policies/sim/iteration/program.h"

struct dp_sim_implied {
    uint32_t n_stages, microbatches;
    uint32_t first_live; /* stages below it only go forward */
    const uint64_t *fwd_ns, *bwd_ns; /* [n_stages] */
    const struct dp_sim_link *link;  /* [n_stages] behind each; nothing behind the last one: its costs are 0 */
    /* What changes, [n_stages] of zeros each: end of a stage's last operation, arrival of its next activation and gradient,
     * and when its links to the next and to the stage before are free. */
    uint64_t *now, *activation, *gradient, *forth_free, *back_free;
};

/* done: [2][n_stages] = end of the last forward and backward, 0 where there is none; span: [2 n_stages microbatches] =, or
 * NULL. returns: how many operations ran. */
uint32_t dp_sim_implied_run(const struct dp_sim_implied *r, uint64_t *done, struct dp_sim_span *span);

#endif
