/* SPDX-License-Identifier: BSD-3-Clause */
/* GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards; every microbatch is
 * kept. Backward runs over the microbatches in the order 0..m-1, too: gradients add up in one order in
 * every schedule of this project. */
#include "common/schedule/schedule.h"

static void fill(const struct dp_schedule_place *at, struct dp_action *out)
{
    const struct dp_schedule_share own = at->share;

    for (uint32_t i = 0; i < own.count; i++) {
        uint32_t mb = own.first + own.step * i;

        out[i] = (struct dp_action){.mb = mb, .kind = DP_ACTION_FORWARD};
        out[own.count + i] = (struct dp_action){.mb = mb, .kind = DP_ACTION_BACKWARD};
    }
}

const struct dp_schedule_rule dp_schedule_gpipe = {
    .has_shares = true,
    .keeps_all = true,
    .fill = fill,
};
