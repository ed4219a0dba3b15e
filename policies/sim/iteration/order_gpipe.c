/* SPDX-License-Identifier: BSD-3-Clause */
/* GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards; every microbatch is
 * kept. Backward runs over the microbatches in the order 0..m-1, as in common/schedule.c: gradients
 * add up in one order in every schedule of this project. */
#include "policies/sim/iteration/order.h"

static void fill(const struct dp_sim_order *o, uint32_t device, struct dp_sim_op *out)
{
    const struct dp_sim_share own = dp_sim_order_share(o, device);

    for (uint32_t i = 0; i < own.count; i++) {
        uint32_t mb = own.first + own.step * i;

        out[i] = (struct dp_sim_op){.mb = mb, .kind = DP_SIM_FORWARD};
        out[own.count + i] = (struct dp_sim_op){.mb = mb, .kind = DP_SIM_BACKWARD};
    }
}

const struct dp_sim_scheduler dp_sim_gpipe = {
    .name = "gpipe",
    .help = "all forwards, then all backwards",
    .fill = fill,
};
