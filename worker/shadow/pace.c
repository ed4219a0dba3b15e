/* SPDX-License-Identifier: BSD-3-Clause */
/* See pace.h. */
#include "worker/shadow/pace.h"

#define WEIGHT 0.25 /* of the newest measurement in the mean: a slow step of a busy machine is one of several */

void dp_pace_measured(struct dp_pace *p, uint64_t bytes, uint64_t busy_ns)
{
    double now;

    if (bytes == 0 || busy_ns == 0)
        return;
    now = (double)bytes / (double)busy_ns;
    p->bytes_ns = p->bytes_ns > 0 ? p->bytes_ns + WEIGHT * (now - p->bytes_ns) : now;
}

uint64_t dp_pace_budget(const struct dp_pace *p, uint64_t step_ns, uint64_t gradient_bytes)
{
    double rate = p->bytes_ns > 0 ? p->bytes_ns : DP_PACE_FIRST_BYTES_NS;
    double bytes = DP_PACE_SHARE * (double)step_ns * rate;

    if (p->max_bytes_ns > 0 && bytes > p->max_bytes_ns * (double)step_ns)
        bytes = p->max_bytes_ns * (double)step_ns;
    return bytes > (double)gradient_bytes ? (uint64_t)(bytes - (double)gradient_bytes) : 0;
}

bool dp_pace_is_worth(uint64_t bytes, uint64_t step_ns)
{
    double pause_ns = (double)bytes / DP_PACE_FIRST_BYTES_NS;

    return pause_ns > (double)DP_PACE_PAUSE_NS && pause_ns > DP_PACE_SHARE * (double)step_ns;
}
