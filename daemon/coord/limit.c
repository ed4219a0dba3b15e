/* SPDX-License-Identifier: BSD-3-Clause */
/* How much time the job has left, for its workers: whoever leads them saves and stops before that is over
 * (worker/train/save_clock.h).
 *
 * Slurm's answer about the job is the only source, because a limit may be changed while the job runs and
 * the job's environment does not follow. What is told is a span, not a time of day: the worker's clock need
 * not be Slurm's. Told again to a worker that comes back; nothing is journalled, Slurm knows it.
 */
#include "daemon/coord/internal.h"

#include "common/clock.h"

#define SAME_NS (2 * DP_SECOND_NS) /* end times are whole seconds, read at any moment of one */

static bool is_same(uint64_t a_ns, uint64_t b_ns)
{
    return (a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns) < SAME_NS;
}

void dp_coord_time_left(struct dp_coord *c, uint64_t now_ns, uint64_t end_s, uint64_t left_ms)
{
    uint64_t end_ns = left_ms < (UINT64_MAX - now_ns) / DP_MS_NS ? now_ns + left_ms * DP_MS_NS : UINT64_MAX;

    c->job.end_s = end_s;
    if (c->limit.is_known && is_same(c->limit.end_ns, end_ns))
        return;
    c->limit.is_known = true;
    c->limit.end_ns = end_ns;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        c->worker[r].is_told_limit = false;
}

void coord_limit_tick(struct dp_coord *c, uint64_t now_ns)
{
    uint64_t end_ns = c->limit.end_ns;
    struct dp_msg_limit m = {.left_ms = DP_NO_TIME_LIMIT};
    uint8_t body[64];
    struct dp_writer w;

    if (!c->limit.is_known)
        return;
    if (end_ns != UINT64_MAX)
        m.left_ms = end_ns > now_ns ? (end_ns - now_ns) / DP_MS_NS : 0;
    dp_writer_init(&w, body, sizeof body);
    dp_msg_limit_encode(&w, &m);
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        if (c->worker[r].is_told_limit || !c->worker[r].is_connected || !coord_is_live(c, r))
            continue;
        c->ops.to_worker(c->arg, r, DP_MSG_LIMIT, body, dp_writer_used(&w));
        c->worker[r].is_told_limit = true;
    }
}
