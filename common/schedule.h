/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipeline schedules as data: which microbatch a stage works on, in which direction, in which order.
 *
 * Backward runs over the microbatches in the order 0..m-1 in every schedule and on every stage, so
 * gradients add up in the same order whatever the schedule and the number of stages.
 *
 * 1F1B (PipeDream-Flush; Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1): stage i of S runs
 * min(S - i - 1, m) forwards ahead, then one forward and one backward in turn, then the rest of the
 * backwards. At most min(S - i, m) microbatches are kept for backward.
 * GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards; m are kept.
 */
#ifndef DP_COMMON_SCHEDULE_H
#define DP_COMMON_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/msg.h"

struct dp_op {
    uint32_t mb;
    bool is_backward;
};

/* out: room for 2 * microbatches operations, all of them written.
 * stage: 0..n_stages-1. */
void dp_schedule_fill(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages, uint32_t microbatches,
                      struct dp_op *out);

/* Most microbatches that wait for their backward at once. */
uint32_t dp_schedule_in_flight(enum dp_schedule_kind kind, uint32_t stage, uint32_t n_stages,
                               uint32_t microbatches);

#endif
