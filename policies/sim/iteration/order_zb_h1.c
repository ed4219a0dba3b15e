/* SPDX-License-Identifier: BSD-3-Clause */
/* ZB-H1, the zero-bubble schedule with the memory of 1F1B (Qi, Wan, Huang, Lin 2023, arXiv:2401.10241,
 * section 2.1): backward is split into the gradient of the input (B), which the device before waits
 * for, and that of the weights (W), which nobody waits for. Forwards and B run as in 1F1B; device d
 * delays W by d microbatches, so that all devices hold the same number of microbatches, and the W that
 * are left fill the end. Bubble (D-1)(F + B - W) instead of (D-1)(F + B + W), their table 2. */
#include "policies/sim/iteration/order.h"

static void fill(const struct dp_sim_order *o, uint32_t device, struct dp_sim_op *out)
{
    uint32_t m = o->microbatches, ahead = o->n_devices - device - 1, fwd = 0, weight = 0;

    while (fwd < m && fwd < ahead)
        *out++ = (struct dp_sim_op){.mb = fwd++, .kind = DP_SIM_FORWARD};
    for (uint32_t bwd = 0; bwd < m; bwd++) {
        if (fwd < m)
            *out++ = (struct dp_sim_op){.mb = fwd++, .kind = DP_SIM_FORWARD};
        *out++ = (struct dp_sim_op){.mb = bwd, .kind = DP_SIM_BACKWARD};
        if (bwd >= device)
            *out++ = (struct dp_sim_op){.mb = weight++, .kind = DP_SIM_WEIGHT};
    }
    while (weight < m)
        *out++ = (struct dp_sim_op){.mb = weight++, .kind = DP_SIM_WEIGHT};
}

const struct dp_sim_scheduler dp_sim_zb_h1 = {
    .name = "zb-h1",
    .help = "zero-bubble with the memory of 1f1b",
    .is_split = true,
    .fill = fill,
};
