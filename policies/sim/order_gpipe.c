/* GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards; every microbatch is
 * kept. Backward runs over the microbatches in the order 0..m-1, as in worker/schedule.c: gradients
 * add up in one order in every schedule of this project. */
#include "policies/sim/order.h"

static void fill(const struct dp_sim_order *o, uint32_t device, struct dp_sim_op *out)
{
    (void)device;
    for (uint32_t j = 0; j < o->microbatches; j++) {
        out[j] = (struct dp_sim_op){.mb = j, .kind = DP_SIM_FORWARD};
        out[o->microbatches + j] = (struct dp_sim_op){.mb = j, .kind = DP_SIM_BACKWARD};
    }
}

const struct dp_sim_scheduler dp_sim_gpipe = {
    .name = "gpipe",
    .help = "all forwards, then all backwards",
    .fill = fill,
};
