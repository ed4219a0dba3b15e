/* SPDX-License-Identifier: BSD-3-Clause */
/* What people and programs see of promise.c: `promise` of status, explain and report. */
#include "daemon/coord/internal.h"

#include <stdio.h>

void coord_promise_state(const struct dp_coord *c, char *out, size_t cap)
{
    const struct coord_promise *p = &c->promise;
    char why[256];

    if (p->is_backing)
        snprintf(out, cap, "training; a trial failed and is taken back: %s", p->out.text);
    else if (p->now.is_trial)
        snprintf(out, cap, "training on fewer %ss, as a trial: the others leave when a step takes no longer than is allowed",
                 coord_slot_word(c));
    else if (p->is_stopped)
        snprintf(out, cap, "training; packing is stopped: %s", p->why);
    else if (coord_mode(c) == DP_MODE_RELEASE && coord_has_outdated(c, why, sizeof why))
        snprintf(out, cap, "training; packing waits: %s", why);
    else
        snprintf(out, cap, "training");
}

static const char *verdict(const struct dp_coord *c)
{
    return c->last_commit_id ? dp_promise_name(c->promise.verdict) : "none";
}

/* Nodes whose cores the workers do not have to themselves. */
static json_t *shared_json(const struct dp_coord *c)
{
    json_t *a = json_array();

    for (uint32_t s = 0; s < c->n_slots; s++) {
        double factor = coord_correct_sharing(c, s);

        if (factor > 1.0)
            json_array_append_new(a, json_pack("{s:s,s:f}", "node", c->slot[s].name, "factor", factor));
    }
    return a;
}

static json_t *correction_json(const struct dp_coord *c)
{
    const struct dp_correction *k = &c->promise.correction;
    json_t *a;

    if (!c->promise.is_corrected)
        return json_null();
    a = json_array();
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (k->slot[s] > 1.0)
            json_array_append_new(a, json_pack("{s:s,s:f}", "node", c->slot[s].name, "factor", k->slot[s]));
    return json_pack("{s:o,s:o,s:o,s:o}", "shared", a, "links", coord_link_json(c, &k->links), "link_ms", coord_ms(k->link_ns),
                     "rest_ms", coord_ms(k->rest_ns));
}

/* As measured now, slow or not. */
static json_t *measured_links_json(const struct dp_coord *c)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < c->links.n; i++) {
        const struct coord_pair *p = &c->links.pair[i];

        if (p->n >= COORD_MEDIAN && p->b < c->n_slots)
            json_array_append_new(a, json_pack("{s:s,s:s,s:f}", "from", c->slot[p->a].name, "to", c->slot[p->b].name, "ms",
                                               (double)coord_link_median_ns(p) / 1e6));
    }
    return a;
}

json_t *coord_promise_json(const struct dp_coord *c, uint64_t now_ns)
{
    const struct coord_promise *p = &c->promise;
    struct dp_measured now;
    json_t *o = json_object();

    coord_measured(c, &now);
    json_object_set_new(o, "verdict", json_string(verdict(c)));
    json_object_set_new(o, "text", json_string(p->out.text));
    json_object_set_new(o, "trial", json_boolean(coord_promise_is_deciding(c)));
    json_object_set_new(o, "measured_ms", coord_ms(now.ns));
    json_object_set_new(o, "expected_ms", coord_ms(p->now.expected_ns));
    json_object_set_new(o, "allowed_ms", coord_ms(p->allowed_ns));
    json_object_set_new(o, "packing_stopped", json_boolean(p->is_stopped));
    json_object_set_new(o, "why", json_string(p->is_stopped ? p->why : ""));
    json_object_set_new(o, "stopped_until_s", p->is_stopped ? json_real(coord_seconds(c, p->until_ns)) : json_null());
    json_object_set_new(o, "balancing_pauses_until_s",
                        coord_balance_is_paused(c, now_ns) ? json_real(coord_seconds(c, c->balance.until_ns)) : json_null());
    json_object_set_new(o, "correction", correction_json(c));
    json_object_set_new(o, "shared", shared_json(c));
    json_object_set_new(o, "links", measured_links_json(c));
    return o;
}
