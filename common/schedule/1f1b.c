/* SPDX-License-Identifier: BSD-3-Clause */
/* 1F1B (PipeDream-Flush; Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1): device d of D runs
 * min(D - d - 1, m) forwards ahead, then one forward and one backward in turn, then the backwards that
 * are left. At most min(D - d, m) microbatches are kept.
 *
 * Each of r devices of a stage (PipeDream's 1F1B-RR) runs its own share of the microbatches, ceil(n / r) forwards
 * ahead where the later stages have n devices. So a backward waits for forwards of at most n microbatches later, and
 * those for backwards of more than n earlier than they are: no circle. */
#include "common/schedule/schedule.h"

static void fill(const struct dp_schedule_place *at, struct dp_action *out)
{
    const struct dp_schedule_share own = at->share;
    uint32_t ahead = (at->behind + own.step - 1) / own.step, fwd = 0;

    while (fwd < own.count && fwd < ahead)
        *out++ = (struct dp_action){.mb = own.first + own.step * fwd++, .kind = DP_ACTION_FORWARD};
    for (uint32_t bwd = 0; bwd < own.count; bwd++) {
        if (fwd < own.count)
            *out++ = (struct dp_action){.mb = own.first + own.step * fwd++, .kind = DP_ACTION_FORWARD};
        *out++ = (struct dp_action){.mb = own.first + own.step * bwd, .kind = DP_ACTION_BACKWARD};
    }
}

const struct dp_schedule_rule dp_schedule_1f1b = {
    .has_shares = true,
    .fill = fill,
};
