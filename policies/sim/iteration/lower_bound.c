/* SPDX-License-Identifier: BSD-3-Clause */
/* See iteration.h. Both bounds hold for any order of the actions:
 *
 *   a device d starts when the first microbatch has come through the stages before its first one, does
 *   all its work, and - where backward is one operation - ends with a backward of that first stage,
 *   whose gradient still has to pass the stages before it;
 *   one microbatch passes every stage forward and back.
 *
 * Stages that only go forward have no part in the way back.
 */
#include "policies/sim/iteration/iteration.h"

struct way {
    uint64_t fwd_ns, bwd_ns; /* through the stages so far, messages included */
};

/* The quickest of places first .. end - 1, each of which is the whole stage for some microbatches. */
static struct way quickest(const struct dp_sim_in *in, uint32_t first, uint32_t end, bool is_split)
{
    struct way least = {UINT64_MAX, UINT64_MAX};

    for (uint32_t k = first; k < end; k++) {
        const struct dp_sim_stage *g = &in->stage[k];
        uint64_t bwd = g->bwd_input_ns + (is_split ? 0 : g->bwd_weight_ns);

        least.fwd_ns = g->fwd_ns < least.fwd_ns ? g->fwd_ns : least.fwd_ns;
        least.bwd_ns = bwd < least.bwd_ns ? bwd : least.bwd_ns;
    }
    return least;
}

/* The quickest message from places first .. end - 1 to the next stage. */
static uint64_t quickest_message(const struct dp_sim_in *in, const struct dp_sim_actions *o, uint32_t first, uint32_t end)
{
    uint32_t from = first, to = end, n = o->n_devices * o->chunks;
    uint64_t least = UINT64_MAX;

    if (end == n || o->n_devices == 1)
        return 0;
    if (o->n_wide) {
        from = dp_sim_program_link(in->program, o->stage_of[first], 0);
        to = from + dp_sim_program_pairs(in->program, o->stage_of[first]);
    }
    for (uint32_t i = from; i < to; i++) {
        uint64_t ns = in->link[i].send_ns + in->link[i].latency_ns;

        least = ns < least ? ns : least;
    }
    return least;
}

/* What device d computes; opt: = of it in the optimizer. */
static uint64_t busy(const struct dp_sim_in *in, const struct dp_sim_actions *o, uint32_t d, uint64_t *opt)
{
    uint64_t ns = 0;

    *opt = 0;
    for (uint32_t c = d; c < o->n_devices * o->chunks; c += o->n_devices) {
        const struct dp_sim_stage *g = &in->stage[c];

        ns += dp_sim_actions_share(o, d).count * (g->fwd_ns + g->bwd_input_ns + g->bwd_weight_ns);
        *opt += g->opt_ns;
    }
    return ns;
}

uint64_t dp_sim_lower_bound(const struct dp_sim_in *in)
{
    const struct dp_sim_actions *o = dp_sim_program_order(in->program);
    uint32_t n = o->n_devices * o->chunks, first_live = dp_sim_first_live(in);
    struct way before = {0, 0};
    uint64_t bound = 0, most_opt = 0;

    for (uint32_t k = 0, end; k < n; k = end) {
        uint64_t message_ns, opt, ns;
        struct way through;

        end = o->n_wide ? o->begin[o->stage_of[k] + 1] : k + 1;
        for (uint32_t d = k; d < end && d < o->n_devices; d++) {
            ns = before.fwd_ns + busy(in, o, d, &opt) + (o->is_split ? 0 : before.bwd_ns);
            /* a device for which no microbatch is left waits for none */
            bound = ns > bound && dp_sim_actions_share(o, d).count ? ns : bound;
            most_opt = opt > most_opt ? opt : most_opt;
        }
        message_ns = quickest_message(in, o, k, end);
        through = quickest(in, k, end, o->is_split);
        before.fwd_ns += through.fwd_ns + message_ns;
        if ((o->n_wide ? o->stage_of[k] : k) >= first_live)
            before.bwd_ns += through.bwd_ns + message_ns;
    }
    if (before.fwd_ns + before.bwd_ns > bound)
        bound = before.fwd_ns + before.bwd_ns;
    return bound + in->norm_ns + most_opt;
}
