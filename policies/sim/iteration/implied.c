/* SPDX-License-Identifier: BSD-3-Clause */
/* See implied.h. */
#include "policies/sim/iteration/implied.h"

#include "common/numbers.h"

/* A message that is ready goes over a link. returns: when it arrives. */
static inline uint64_t send(uint64_t ready, uint64_t *free_at, const struct dp_sim_link *link)
{
    *free_at = dp_most_u64(ready, *free_at) + link->send_ns;
    return *free_at + link->latency_ns;
}

static struct dp_sim_span *note(struct dp_sim_span *span, uint32_t stage, uint32_t mb, enum dp_action_kind kind,
                                uint64_t end, uint64_t took)
{
    *span = (struct dp_sim_span){.device = stage, .place = stage, .mb = mb, .kind = kind, .start_ns = end - took, .end_ns = end};
    return span + 1;
}

uint32_t dp_sim_implied_run(const struct dp_sim_implied *r, uint64_t *done, struct dp_sim_span *span)
{
    uint32_t n = r->n_stages, m = r->microbatches, ran = 0;

    for (uint32_t j = 0; j < m + n; j++) {
        uint32_t end = j < m ? n : n - (j - m);
        uint32_t begin = j < n ? n - j : 0;

        for (uint32_t s = begin < r->first_live ? r->first_live : begin; s < end; s++, ran++) {
            r->now[s] = done[n + s] = dp_most_u64(r->gradient[s], r->now[s]) + r->bwd_ns[s];
            if (s > r->first_live)
                r->gradient[s - 1] = send(r->now[s], &r->back_free[s], &r->link[s - 1]);
            if (span)
                span = note(span, s, j - (n - s), DP_ACTION_BACKWARD, r->now[s], r->bwd_ns[s]);
        }
        for (uint32_t s = 0; s < n && j < m; s++, ran++) {
            r->now[s] = done[s] = dp_most_u64(r->activation[s], r->now[s]) + r->fwd_ns[s];
            if (s + 1 < n)
                r->activation[s + 1] = send(r->now[s], &r->forth_free[s], &r->link[s]);
            if (span)
                span = note(span, s, j, DP_ACTION_FORWARD, r->now[s], r->fwd_ns[s]);
        }
    }
    return ran;
}
