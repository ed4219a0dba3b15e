/* 1F1B (PipeDream-Flush; Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1): device d of D runs
 * min(D - d - 1, m) forwards ahead, then one forward and one backward in turn, then the backwards that
 * are left. At most min(D - d, m) microbatches are kept. The same list as worker/schedule.c, which
 * tests/unit/test_schedule.c compares. */
#include "policies/sim/order.h"

static void fill(const struct dp_sim_order *o, uint32_t device, struct dp_sim_op *out)
{
    uint32_t m = o->microbatches, ahead = o->n_devices - device - 1, fwd = 0;

    while (fwd < m && fwd < ahead)
        *out++ = (struct dp_sim_op){.mb = fwd++, .kind = DP_SIM_FORWARD};
    for (uint32_t bwd = 0; bwd < m; bwd++) {
        if (fwd < m)
            *out++ = (struct dp_sim_op){.mb = fwd++, .kind = DP_SIM_FORWARD};
        *out++ = (struct dp_sim_op){.mb = bwd, .kind = DP_SIM_BACKWARD};
    }
}

const struct dp_sim_scheduler dp_sim_1f1b = {
    .name = "1f1b",
    .help = "one forward, one backward",
    .fill = fill,
};
