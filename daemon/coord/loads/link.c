/* SPDX-License-Identifier: BSD-3-Clause */
/* How long messages between two slots take, beyond what is configured.
 *
 * Clocks of two nodes cannot be compared. So each worker measures two times on its own: from sending the first
 * activation of a step until its gradient is back (ahead), and from receiving that activation until its gradient is
 * sent (held). What a worker's ahead is longer than the next one's held, both messages took together; half of it
 * counts as one. A worker measures neither when the message was there before it waited: then nobody knows for how
 * long, and the link held nobody up there.
 *
 * Only neighbours exchange messages, so only the links of layouts that were in force are known; they stay known when
 * a layout avoids them, or the next prediction would go back to them. `dynpipe resume` forgets those.
 */
#include "daemon/coord/internal.h"

#include <string.h>

#define LEAST 0.02 /* of a step: less is no slow link */

static struct coord_pair *pair_of(struct dp_coord *c, uint32_t a, uint32_t b)
{
    uint32_t low = a < b ? a : b, high = a < b ? b : a;

    for (uint32_t i = 0; i < c->links.n; i++)
        if (c->links.pair[i].a == low && c->links.pair[i].b == high)
            return &c->links.pair[i];
    if (c->links.n == DP_LINKS_MAX)
        return NULL;
    c->links.pair[c->links.n] = (struct coord_pair){.a = (uint16_t)low, .b = (uint16_t)high};
    return &c->links.pair[c->links.n++];
}

static uint64_t configured_ns(const struct dp_coord *c)
{
    double s = c->limits.link_latency_s;

    if (c->limits.link_bytes_per_s > 0.0)
        s += (double)c->train.stage_message_bytes / c->limits.link_bytes_per_s;
    return (uint64_t)(s * 1e9);
}

static bool has_reported(const struct dp_coord *c, uint32_t rank)
{
    return c->worker[rank].n_reports > c->limits.warmup_reports;
}

void coord_link_report(struct dp_coord *c, const struct dp_msg_report *m)
{
    struct coord_worker *w = &c->worker[m->rank];
    int before = m->n_layers ? dp_layout_prev(&c->layout, m->rank) : -1;
    uint64_t one_ns, usual_ns = configured_ns(c);
    struct coord_pair *p;

    w->ahead_ns = m->ahead_ns;
    w->held_ns = m->held_ns;
    if (before < 0 || !w->held_ns || !c->worker[before].ahead_ns || c->worker[before].slot == w->slot ||
        !has_reported(c, m->rank) || !has_reported(c, (uint32_t)before))
        return;
    p = pair_of(c, c->worker[before].slot, w->slot);
    if (!p)
        return;
    one_ns = c->worker[before].ahead_ns > w->held_ns ? (c->worker[before].ahead_ns - w->held_ns) / 2 : 0;
    one_ns = one_ns > usual_ns ? one_ns - usual_ns : 0;
    p->ns[p->n++ % COORD_SHARED] = one_ns < UINT32_MAX ? (uint32_t)one_ns : UINT32_MAX;
}

uint32_t coord_link_median_ns(const struct coord_pair *p)
{
    uint32_t n = p->n < COORD_SHARED ? p->n : COORD_SHARED, v[COORD_SHARED];

    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;

        for (; k > 0 && v[k - 1] > p->ns[i]; k--)
            v[k] = v[k - 1];
        v[k] = p->ns[i];
    }
    return v[n / 2];
}

void coord_link_fill(const struct dp_coord *c, uint64_t step_ns, struct dp_links *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < c->links.n; i++) {
        const struct coord_pair *p = &c->links.pair[i];
        uint32_t ns = p->n >= COORD_MEDIAN ? coord_link_median_ns(p) : 0;

        if (p->n >= COORD_MEDIAN)
            dp_links_set(out, p->a, p->b, (double)ns < LEAST * (double)step_ns ? 0 : ns);
    }
}

void coord_link_forget(struct dp_coord *c)
{
    c->links.n = 0;
}

json_t *coord_link_json(const struct dp_coord *c, const struct dp_links *l)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < l->n; i++)
        if (l->link[i].ns && l->link[i].b < c->n_slots)
            json_array_append_new(a, json_pack("{s:s,s:s,s:f}", "from", c->slot[l->link[i].a].name, "to",
                                               c->slot[l->link[i].b].name, "ms", (double)l->link[i].ns / 1e6));
    return a;
}
