/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of a case cut anew for the least simulated iteration: what counts where messages take long to arrive, since that
 * costs no device and no link any time, but makes the pipeline wait. */
#ifndef DP_POLICIES_SIM_RECUT_H
#define DP_POLICIES_SIM_RECUT_H

#include "policies/sim/case/case.h"

struct dp_sim_recut {
    uint64_t iteration_ns;
    uint32_t n_tried;
    bool is_exact; /* every layout was tried */
};

/* c: devices that are alike, one chunk, one replica, no stages of several devices; layers as its first event has them, and its
 * `count` to begin with; = the best one found. Every layout is simulated where they are few, else cuts are moved, stages
 * joined and parted, as long as that helps and is not too much. Where a layout fits into memory, one that does comes out.
 * returns 0 or -1. */
int dp_sim_recut_run(struct dp_sim_case *c, struct dp_sim_recut *out, struct dp_err *err);

#endif
