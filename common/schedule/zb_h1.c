/* SPDX-License-Identifier: BSD-3-Clause */
/* ZB-H1, the zero-bubble schedule with the memory of 1F1B (Qi, Wan, Huang, Lin 2023, arXiv:2401.10241,
 * section 2.1): backward is split into the gradient of the input (B), which the device before waits
 * for, and that of the weights (W), which nobody waits for. Forwards and B run as in 1F1B; device d
 * delays W by d microbatches, so that all devices hold the same number of microbatches, and the W that
 * are left fill the end. Bubble (D-1)(F + B - W) instead of (D-1)(F + B + W), their table 2. */
#include "common/schedule/schedule.h"

static void fill(const struct dp_schedule_place *at, struct dp_action *out)
{
    uint32_t m = at->microbatches, ahead = at->behind, fwd = 0, weight = 0;

    while (fwd < m && fwd < ahead)
        *out++ = (struct dp_action){.mb = fwd++, .kind = DP_ACTION_FORWARD};
    for (uint32_t bwd = 0; bwd < m; bwd++) {
        if (fwd < m)
            *out++ = (struct dp_action){.mb = fwd++, .kind = DP_ACTION_FORWARD};
        *out++ = (struct dp_action){.mb = bwd, .kind = DP_ACTION_BACKWARD};
        if (bwd >= at->device)
            *out++ = (struct dp_action){.mb = weight++, .kind = DP_ACTION_WEIGHT};
    }
    while (weight < m)
        *out++ = (struct dp_action){.mb = weight++, .kind = DP_ACTION_WEIGHT};
}

const struct dp_schedule_rule dp_schedule_zb_h1 = {
    .is_split = true,
    .fill = fill,
};
