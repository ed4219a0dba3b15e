/* See saving_json.h. */
#include "policies/saving_json.h"

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
