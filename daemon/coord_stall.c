/* Does anything still happen? A worker that hangs (stopped, a dead device, a file system that does not
 * answer) holds all the others for ever and loses no connection, so only silence shows it.
 *
 * After stall_s, and five steps at least, without a word of any worker all are asked (PING): a worker
 * that waits for another answers from within its wait, one that hangs does not. This only tells people
 * and starts no hand-over; nothing is killed, and a run that goes on is no longer stalled.
 */
#include "daemon/coord_internal.h"

#include <stdio.h>
#include <string.h>

#define PING_NS (5 * SECOND)   /* between two questions */
#define ANSWER_PING_NS (3 * SECOND)
#define FIRST_STEP_FACTOR 10.0 /* before any report: kernels are tuned, files are read */

void coord_stall_heard(struct dp_coord *c, uint64_t now_ns)
{
    if (c->stall.is_stalled)
        coord_note(c, now_ns, "goes on after %.0f s without a word",
                   (double)(now_ns - c->stall.heard_ns) / 1e9);
    c->stall.is_stalled = false;
    c->stall.heard_ns = now_ns;
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

    for (uint32_t r = c->n_workers; r-- > 0;)
        if (is_silent(c, r)) {
            silent++;
            first = r;
        }
    if (!silent)
        snprintf(out, cap, "stalled: no step is reported, and every worker answers");
    else
        snprintf(out, cap, "stalled: worker %u on %s does not answer%s", first,
                 c->slot[c->worker[first].slot].name, silent > 1 ? ", nor do others" : "");
}

static void ping(struct dp_coord *c, uint64_t now_ns)
{
    struct dp_msg_ping m = {.number = ++c->stall.ping};
    uint8_t body[64];
    struct dp_writer w;

    c->stall.sent_ns = now_ns;
    c->stall.was_answerable = false;
    dp_writer_init(&w, body, sizeof body);
    dp_msg_ping_encode(&w, &m);
    for (uint32_t r = 0; r < c->n_workers; r++)
        if (coord_is_live(c, r))
            c->ops.to_worker(c->arg, r, DP_MSG_PING, body, dp_writer_used(&w));
}

static bool is_quiet_for_long(const struct dp_coord *c, uint64_t now_ns)
{
    double patience_s = coord_patience_s(c, c->limits.stall_s) * (c->n_reports ? 1.0 : FIRST_STEP_FACTOR);
    uint64_t heard_ns = c->stall.heard_ns > c->last_change_ns ? c->stall.heard_ns : c->last_change_ns;

    return now_ns > heard_ns && (double)(now_ns - heard_ns) / 1e9 > patience_s;
}

void coord_stall_tick(struct dp_coord *c, uint64_t now_ns)
{
    if (!c->has_layout || c->failed[0] || c->is_completed || dp_coord_all_left(c) || !(c->limits.stall_s > 0.0))
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
        if (!c->stall.is_stalled)
            coord_note(c, now_ns, "%s", c->stall.text);
        c->stall.is_stalled = true;
    }
    if (now_ns - c->stall.sent_ns >= PING_NS)
        ping(c, now_ns);
}

void dp_coord_pong(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_pong *m)
{
    (void)now_ns;
    if (c->is_over || m->rank >= c->n_workers || m->number > c->stall.ping)
        c->n_ignored++;
    else
        c->worker[m->rank].answered_ping = m->number;
}
