/* SPDX-License-Identifier: BSD-3-Clause */
/* Does anything still happen? A worker that hangs (stopped, a dead device, a file system that does not
 * answer) holds all the others for ever and loses no connection, so only silence shows it.
 *
 * After stall_s, and five steps at least, without a word of any worker all are asked (PING): a worker
 * that waits for another answers from within its wait, one that hangs does not. This tells people and
 * starts no hand-over, and a run that goes on is no longer stalled.
 *
 * Where stall_end_s is set, a run that stays stalled for so long gives its devices back: Slurm ends the job
 * and puts it back into the queue, to go on from its newest checkpoint. SIGCONT and SIGTERM come first,
 * so workers that were only stopped still save. Nothing of it is journalled: ending a job twice does no harm,
 * and after a restart of this daemon the stall is found again.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

#define PING_NS (5 * DP_SECOND_NS)   /* between two questions */
#define ANSWER_PING_NS (3 * DP_SECOND_NS) /* one that waits for another worker answers at once; see above */
#define END_AGAIN_NS (30 * DP_SECOND_NS) /* after Slurm has refused, or said nothing */
#define FIRST_STEP_FACTOR 10.0 /* before any report: kernels are tuned, files are read */

void coord_stall_heard(struct dp_coord *c, uint64_t now_ns)
{
    if (c->stall.is_stalled)
        coord_note(c, now_ns, "goes on after %.0f s of silence",
                   (double)(now_ns - c->stall.heard_ns) / 1e9);
    c->stall.is_stalled = false;
    c->stall.heard_ns = now_ns;
}

/* A run that stalls before its first step after a requeue too would stall for ever. */
static bool may_requeue(const struct dp_coord *c)
{
    return c->reports.n > 0 || c->life.incarnation > 1 || c->job.restart_count == 0;
}

static void end_tick(struct dp_coord *c, uint64_t now_ns)
{
    double stalled_s = (double)(now_ns - c->stall.since_ns) / 1e9;

    if (!c->stall.is_stalled || !(c->limits.stall_end_s > 0.0) || stalled_s < c->limits.stall_end_s ||
        now_ns < c->stall.retry_ns)
        return;
    if (!c->stall.is_ending)
        coord_note(c, now_ns, "stalled for %.0f s: Slurm is asked to end the job%s", stalled_s,
                   may_requeue(c) ? " and to put it back into the queue" : "");
    c->stall.is_ending = true;
    c->stall.retry_ns = now_ns + END_AGAIN_NS;
    c->ops.requeue(c->arg, may_requeue(c));
}

void dp_coord_requeue_answer(struct dp_coord *c, uint64_t now_ns, int rc, const char *text)
{
    if (c->life.is_over)
        c->reports.n_ignored++;
    else
        coord_note(c, now_ns, "Slurm: %s%.200s", rc == 0 ? "the job was " : "", text ? text : "");
}

static bool is_silent(const struct dp_coord *c, uint32_t rank)
{
    return coord_is_live(c, rank) && c->worker[rank].answered_ping != c->stall.ping;
}

/* Who did not answer the newest question. */
static void name_the_silent(struct dp_coord *c)
{
    char *out = c->stall.text;
    size_t cap = sizeof c->stall.text;
    uint32_t silent = 0, first = 0;

    for (uint32_t r = c->train.n_workers; r-- > 0;)
        if (is_silent(c, r)) {
            silent++;
            first = r;
        }
    if (!silent)
        snprintf(out, cap, "stalled: no step is reported, and every worker answers");
    else
        snprintf(out, cap, "stalled: worker %u on %s does not answer%s", first,
                 c->slot[c->worker[first].slot].label, silent > 1 ? ", nor do others" : "");
}

void coord_stall_ping(struct dp_coord *c, uint32_t rank)
{
    struct dp_msg_ping m = {.number = c->stall.ping};
    uint8_t body[64];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    dp_msg_ping_encode(&w, &m);
    c->ops.to_worker(c->arg, rank, DP_MSG_PING, body, dp_writer_used(&w));
}

static void ping(struct dp_coord *c, uint64_t now_ns)
{
    c->stall.ping++;
    c->stall.sent_ns = now_ns;
    c->stall.was_answerable = false;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_is_live(c, r))
            coord_stall_ping(c, r);
}

static bool is_quiet_for_long(const struct dp_coord *c, uint64_t now_ns)
{
    double patience_s = coord_patience_s(c, c->limits.stall_s) * (c->reports.n ? 1.0 : FIRST_STEP_FACTOR);
    uint64_t heard_ns = c->stall.heard_ns > c->last_change_ns ? c->stall.heard_ns : c->last_change_ns;

    return now_ns > heard_ns && (double)(now_ns - heard_ns) / 1e9 > patience_s;
}

void coord_stall_tick(struct dp_coord *c, uint64_t now_ns)
{
    if (!c->train.has_layout || c->life.failed[0] || c->train.is_completed || dp_coord_all_left(c) || !(c->limits.stall_s > 0.0))
        return;
    if (!c->stall.is_asking && is_quiet_for_long(c, now_ns)) {
        c->stall.is_asking = true;
        ping(c, now_ns);
    }
    if (!c->stall.is_asking)
        return;
    if (!is_quiet_for_long(c, now_ns)) {
        c->stall.is_asking = false;
        return;
    }
    if (!c->stall.was_answerable && now_ns - c->stall.sent_ns >= ANSWER_PING_NS) {
        c->stall.was_answerable = true;
        name_the_silent(c);
        if (!c->stall.is_stalled) {
            coord_note(c, now_ns, "%s", c->stall.text);
            c->stall.since_ns = now_ns;
            c->stall.is_ending = false;
            c->stall.retry_ns = 0;
        }
        c->stall.is_stalled = true;
    }
    end_tick(c, now_ns);
    if (now_ns - c->stall.sent_ns >= PING_NS)
        ping(c, now_ns);
}

void dp_coord_pong(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_pong *m)
{
    (void)now_ns;
    if (c->life.is_over || m->rank >= c->train.n_workers || m->number > c->stall.ping)
        c->reports.n_ignored++;
    else
        c->worker[m->rank].answered_ping = m->number;
}
