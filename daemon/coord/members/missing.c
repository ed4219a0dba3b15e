/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is not there: nodes of which nothing is heard, since when, and why as far as the daemon knows.
 *
 * Before the layout is known these are the nodes without any worker, as long as workers are missing: which rank
 * will come from where only its HELLO says. Later they are the nodes whose workers are in the layout and have lost
 * their way here. Only people are told; nothing is decided by it.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

#define NOTE_AFTER_NS (3 * DP_SECOND_NS) /* a daemon that restarts is back by then; so are slow starters */

static uint32_t n_known(const struct dp_coord *c)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        n += c->worker[r].is_known;
    return n;
}

static bool is_away(const struct dp_coord *c, uint32_t rank, uint32_t slot)
{
    const struct coord_worker *w = &c->worker[rank];

    return w->slot == slot && coord_is_live(c, rank) && !w->is_connected;
}

static bool has_worker(const struct dp_coord *c, uint32_t slot)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->worker[r].is_known && c->worker[r].slot == slot)
            return true;
    return false;
}

bool coord_is_missing(const struct dp_coord *c, uint32_t slot)
{
    if (!c->train.has_shape || c->slot[slot].state != SLOT_ACTIVE || c->life.is_over || c->life.failed[0])
        return false;
    if (!c->train.has_layout)
        return n_known(c) < c->train.n_workers && !has_worker(c, slot);
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (is_away(c, r, slot))
            return true;
    return false;
}

void dp_coord_node_trouble(struct dp_coord *c, const char *node, const char *text)
{
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (!strcmp(c->slot[s].name, node))
            snprintf(c->slot[s].trouble, sizeof c->slot[s].trouble, "%s", text);
}

bool dp_coord_is_node_missing(const struct dp_coord *c, const char *node)
{
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (!strcmp(c->slot[s].name, node) && coord_is_missing(c, s))
            return true;
    return false;
}

static const char *reason(const struct coord_slot *s)
{
    return s->trouble[0] ? s->trouble : "no reason is known yet";
}

void coord_missing_tick(struct dp_coord *c, uint64_t now_ns)
{
    for (uint32_t i = 0; i < c->n_slots; i++) {
        struct coord_slot *s = &c->slot[i];

        if (!coord_is_missing(c, i)) {
            if (s->is_missing_noted && !c->life.is_over)
                coord_note(c, now_ns, "%s is back after %.0f s", s->label, (double)(now_ns - s->missing_ns) / 1e9);
            s->missing_ns = 0;
            s->is_missing_noted = false;
            s->trouble[0] = '\0';
            continue;
        }
        if (!s->missing_ns)
            s->missing_ns = now_ns;
        if (!s->is_missing_noted && now_ns - s->missing_ns >= NOTE_AFTER_NS) {
            s->is_missing_noted = true;
            coord_note(c, now_ns, "nothing from %s: %.180s", s->label, reason(s));
        }
    }
}

void coord_missing_text(const struct dp_coord *c, uint64_t now_ns, char *out, size_t cap)
{
    const struct coord_slot *first = NULL;
    uint32_t n = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < c->n_slots; i++)
        if (c->slot[i].missing_ns && coord_is_missing(c, i) && n++ == 0)
            first = &c->slot[i];
    if (!first)
        return;
    snprintf(out, cap, "nothing from %s for %.0f s: %s", first->label, (double)(now_ns - first->missing_ns) / 1e9,
             reason(first));
    if (n > 1)
        snprintf(out + strlen(out), cap - strlen(out), "; nor from %u other nodes", n - 1);
}

json_t *coord_missing_json(const struct dp_coord *c, uint64_t now_ns)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < c->n_slots; i++) {
        const struct coord_slot *s = &c->slot[i];
        json_t *ranks, *text;

        if (!s->missing_ns || !coord_is_missing(c, i))
            continue;
        ranks = json_array();
        for (uint32_t r = 0; c->train.has_layout && r < c->train.n_workers; r++)
            if (is_away(c, r, i))
                json_array_append_new(ranks, json_integer(r));
        text = json_string(reason(s)); /* NULL: it quotes bytes that are no UTF-8 */
        json_array_append_new(list, json_pack("{s:s, s:o, s:f, s:o}", "node", s->name, "ranks", ranks, "for_s",
                                              (double)(now_ns - s->missing_ns) / 1e9, "text",
                                              text ? text : json_string("see the daemon's log")));
    }
    return list;
}
