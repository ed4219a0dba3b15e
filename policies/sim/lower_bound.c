/* See iteration.h. Both bounds hold for any order of the operations:
 *
 *   a device d starts when the first microbatch has come through the stages before its first one, does
 *   all its work, and - where backward is one operation - ends with a backward of that first stage,
 *   whose gradient still has to pass the stages before it;
 *   one microbatch passes every stage forward and back.
 */
#include "policies/sim/iteration.h"

struct way {
    uint64_t fwd_ns, bwd_ns; /* through the stages so far, messages included */
};

static void pass(struct way *w, const struct dp_sim_in *in, uint32_t k, bool is_split, uint64_t message_ns)
{
    w->fwd_ns += in->stage[k].fwd_ns + message_ns;
    w->bwd_ns += in->stage[k].bwd_input_ns + (is_split ? 0 : in->stage[k].bwd_weight_ns) + message_ns;
}

uint64_t dp_sim_lower_bound(const struct dp_sim_in *in)
{
    const struct dp_sim_order *o = dp_sim_program_order(in->program);
    uint32_t d = o->n_devices, n = d * o->chunks;
    struct way before = {0, 0};
    uint64_t bound = 0, opt = 0;

    for (uint32_t k = 0; k < n; k++) {
        uint64_t message_ns = k + 1 < n && d > 1 ? in->link[k].send_ns + in->link[k].latency_ns : 0, busy = 0, device_opt = 0;

        for (uint32_t c = k; k < d && c < n; c += d) {
            const struct dp_sim_stage *g = &in->stage[c];

            busy += o->microbatches * (g->fwd_ns + g->bwd_input_ns + g->bwd_weight_ns);
            device_opt += g->opt_ns;
        }
        if (k < d && before.fwd_ns + busy + (o->is_split ? 0 : before.bwd_ns) > bound)
            bound = before.fwd_ns + busy + (o->is_split ? 0 : before.bwd_ns);
        opt = device_opt > opt ? device_opt : opt;
        pass(&before, in, k, o->is_split, message_ns);
    }
    if (before.fwd_ns + before.bwd_ns > bound)
        bound = before.fwd_ns + before.bwd_ns;
    return bound + in->norm_ns + opt;
}
