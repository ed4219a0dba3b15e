/* SPDX-License-Identifier: BSD-3-Clause */
/* See chain_problem.h. Site policies get this, too: nothing here may need the rest of the library. */
#include "policies/chain_problem.h"

#include <stdlib.h>

#include "common/schedule/schedule.h"

struct dp_chain_problem *dp_chain_problem_create(const struct dp_policy_in *in, bool with_speed)
{
    struct dp_chain_problem *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->q = (struct dp_partition){.n = in->n_layers, .p = dp_policy_allowed(in, t->index), .weight = t->weight,
                                 .speed = with_speed ? t->speed : NULL, .fixed_bytes = t->fixed,
                                 .multi_bytes = t->multi, .copies = t->copies, .cap_bytes = t->cap,
                                 .depth = dp_schedule_depth(in->schedule, in->microbatches),
                                 .prefer = in->current->cut, .device = t->index};
    for (uint32_t i = 0; i < t->q.p; i++) {
        t->speed[i] = in->device[t->index[i]].speed;
        t->cap[i] = in->device[t->index[i]].mem_limit_bytes;
        t->copies[i] = dp_policy_in_flight(in, i, t->q.p);
    }
    for (uint32_t l = 0; l < in->n_layers; l++) {
        t->fixed[l] = in->layer[l].state_bytes;
        t->multi[l] = in->layer[l].act_bytes;
    }
    return t;
}
