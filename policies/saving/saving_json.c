/* SPDX-License-Identifier: BSD-3-Clause */
/* See saving_json.h. */
#include "policies/saving/saving_json.h"

#include <math.h>

static void put(json_t *o, const char *key, double value)
{
    json_object_set_new(o, key, isfinite(value) ? json_real(value) : json_null());
}

static json_t *way_json(const struct dp_saving *s, enum dp_way way, double tokens)
{
    json_t *o = json_object();

    put(o, "time_s", s->time_s[way]);
    put(o, "device_s", s->device_s[way]);
    put(o, "step_ms", s->step_s[way] > 0.0 ? 1e3 * s->step_s[way] : NAN);
    put(o, "tokens_per_device_s", tokens > 0.0 ? tokens / s->device_s[way] : NAN);
    return o;
}

json_t *dp_saving_json(const struct dp_saving *s, uint64_t steps, double tokens)
{
    json_t *o = json_object();

    json_object_set_new(o, "steps", json_integer((json_int_t)steps));
    json_object_set_new(o, "devices", json_integer(s->devices));
    json_object_set_new(o, "run", way_json(s, DP_WAY_RUN, tokens));
    json_object_set_new(o, "fixed", way_json(s, DP_WAY_FIXED, tokens));
    json_object_set_new(o, "balanced", way_json(s, DP_WAY_BALANCED, tokens));
    put(o, "later_percent", 100.0 * s->later);
    put(o, "device_s_percent", 100.0 * (s->device_s[DP_WAY_RUN] / s->device_s[DP_WAY_FIXED] - 1.0));
    put(o, "packing_percent", 100.0 * s->packing);
    put(o, "pruning_percent", 100.0 * s->pruning);
    put(o, "lent_device_s", s->lent_device_s);
    return o;
}

static json_t *row_json(const struct dp_trade *t, const struct dp_trade_row *r)
{
    double none = r->step_s > 0.0 ? 0.0 : NAN;
    json_t *o = json_object(), *why = json_string(r->why);

    json_object_set_new(o, "devices", json_integer(r->devices));
    if (r->slots)
        json_object_set_new(o, "slots", json_integer(r->slots));
    put(o, "step_ms", none + 1e3 * r->step_s);
    put(o, "time_s", none + r->time_s);
    put(o, "device_s", none + r->device_s);
    put(o, "later_percent", none + 100.0 * (r->time_s / t->fixed_s - 1.0));
    put(o, "device_s_percent", none + 100.0 * (r->device_s / t->fixed_device_s - 1.0));
    json_object_set_new(o, "chosen", json_boolean(r->is_chosen));
    json_object_set_new(o, "why", why ? why : json_string("?"));
    return o;
}

json_t *dp_trade_json(const struct dp_trade *t)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < t->n; i++)
        json_array_append_new(list, row_json(t, &t->row[i]));
    return list;
}
