/* See pack.h.
 *
 * Up to DP_PACK_ALL devices every number is tried. Beyond that a prediction takes milliseconds, so an
 * even grid is tried, and between the smallest number on it that meets the reference and the one
 * below, the smallest is found by halving: more devices of the same kind rarely make it slower.
 */
#include "policies/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allowed devices in the order in which they are taken: the batch host's first, then slot by slot. */
static uint32_t device_order(const struct dp_policy_in *in, uint32_t *order)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < in->n_slots; i++) {
        uint32_t slot = i == 0 ? in->batch_slot : i <= in->batch_slot ? i - 1 : i;

        for (uint32_t d = 0; d < in->n_devices; d++)
            if (in->device[d].is_allowed && !in->current->gone[d] && in->device[d].slot == slot)
                order[n++] = d;
    }
    return n;
}

uint64_t dp_pack_limit_ns(uint64_t reference_ns, double max_slowdown)
{
    double limit;

    if (!(max_slowdown > 0.0))
        return reference_ns;
    if (max_slowdown >= 100.0)
        return UINT64_MAX;
    limit = (double)reference_ns / (1.0 - max_slowdown / 100.0);
    return limit >= 1.8e19 ? UINT64_MAX : (uint64_t)limit;
}

/* Slots of the first k devices, and the devices on them. */
static void count_slots(const struct dp_policy_in *in, const uint32_t *order, uint32_t n, uint32_t k,
                        struct dp_pack_option *o)
{
    uint32_t last = in->device[order[k - 1]].slot;

    o->devices = k;
    o->slots = 1;
    for (uint32_t i = 1; i < k; i++)
        o->slots += in->device[order[i]].slot != in->device[order[i - 1]].slot;
    for (o->devices_kept = k; o->devices_kept < n; o->devices_kept++)
        if (in->device[order[o->devices_kept]].slot != last)
            break;
}

struct search {
    const struct dp_policy *policy;
    void *state;
    const struct dp_policy_in *in;
    struct dp_policy_in part; /* in, with the devices of one option allowed */
    struct dp_device *device;
    uint32_t *order, n;
    struct dp_pack *out;
    struct dp_err broken; /* of the policy: then nothing it says counts; code DP_OK: it works */
};

static void allow_first(struct search *t, uint32_t k)
{
    for (uint32_t d = 0; d < t->in->n_devices; d++)
        t->device[d].is_allowed = false;
    for (uint32_t i = 0; i < k; i++)
        t->device[t->order[i]].is_allowed = true;
}

/* Predict the layout on the first k devices. */
static struct dp_pack_option *try_option(struct search *t, uint32_t k)
{
    struct dp_pack_option *o = &t->out->option[t->out->n_options++];
    struct dp_policy_out *layout = &t->out->best;
    struct dp_err err;

    count_slots(t->in, t->order, t->n, k, o);
    allow_first(t, k);
    if (t->broken.code != DP_OK)
        return o; /* not asked again */
    if (dp_policy_run(t->policy, t->state, &t->part, layout, &err) < 0) {
        o->iteration_ns = 0;
        if (dp_policy_is_broken(&err))
            t->broken = err;
        snprintf(o->why, sizeof o->why, "%.*s", (int)sizeof o->why - 1, err.text);
        return o;
    }
    o->iteration_ns = layout->iteration_ns ? layout->iteration_ns : 1;
    if (!t->out->fastest_ns || o->iteration_ns < t->out->fastest_ns)
        t->out->fastest_ns = o->iteration_ns;
    return o;
}

static void judge(const struct dp_pack_rule *rule, uint64_t limit_ns, struct dp_pack_option *o)
{
    if (!o->iteration_ns)
        return;
    if (o->devices_kept < rule->min_devices)
        snprintf(o->why, sizeof o->why, "fewer than %u devices", rule->min_devices);
    else if (limit_ns && o->iteration_ns > limit_ns)
        snprintf(o->why, sizeof o->why, "%.3f ms is slower than %.3f ms", (double)o->iteration_ns / 1e6,
                 (double)limit_ns / 1e6);
    else
        o->meets = true;
}

/* Does a beat b? Fewer slots where both meet the reference, else the faster one; on a tie the one with
 * more devices, which needs less memory on each. */
static bool is_better(const struct dp_pack_option *a, const struct dp_pack_option *b, bool has_limit)
{
    if (!b)
        return true;
    if (has_limit && a->meets != b->meets)
        return a->meets;
    if (has_limit && a->meets && a->slots != b->slots)
        return a->slots < b->slots;
    if (a->iteration_ns != b->iteration_ns)
        return a->iteration_ns < b->iteration_ns;
    return a->devices > b->devices;
}

static void explain(const struct dp_pack_option *o, uint32_t n_slots, struct dp_pack *out)
{
    if (!out->limit_ns)
        snprintf(out->reason, sizeof out->reason,
                 "no reference yet: fastest of %u options, %.3f ms on %u devices", out->n_options,
                 (double)o->iteration_ns / 1e6, o->devices);
    else if (o->meets)
        snprintf(out->reason, sizeof out->reason,
                 "%u of %u slots are enough: %.3f ms predicted on %u devices, %.3f ms allowed, fastest %.3f ms",
                 o->slots, n_slots, (double)o->iteration_ns / 1e6, o->devices, (double)out->limit_ns / 1e6,
                 (double)out->fastest_ns / 1e6);
    else
        snprintf(out->reason, sizeof out->reason,
                 "nothing meets %.3f ms: fastest is %.3f ms on %u devices", (double)out->limit_ns / 1e6,
                 (double)o->iteration_ns / 1e6, o->devices);
}

static void try_grid(struct search *t)
{
    uint32_t steps = t->n <= DP_PACK_ALL ? t->n : DP_PACK_GRID;

    for (uint32_t i = 1; i <= steps; i++)
        try_option(t, (uint32_t)((uint64_t)t->n * i / steps));
}

/* The smallest number that meets the reference, between two neighbours of the grid. */
static void refine(struct search *t, const struct dp_pack_rule *rule)
{
    uint32_t low = 0, high = 0;

    if (t->n <= DP_PACK_ALL || !t->out->limit_ns)
        return;
    for (uint32_t i = 0; i < t->out->n_options && !high; i++) {
        if (t->out->option[i].meets)
            high = t->out->option[i].devices;
        else
            low = t->out->option[i].devices;
    }
    while (high > low + 1) {
        uint32_t k = low + (high - low) / 2;
        struct dp_pack_option *o = try_option(t, k);

        judge(rule, t->out->limit_ns, o);
        if (o->meets)
            high = k;
        else
            low = k;
    }
}

static int search(struct search *t, const struct dp_pack_rule *rule, struct dp_err *err)
{
    struct dp_pack *out = t->out;
    const struct dp_pack_option *chosen = NULL;

    try_grid(t);
    if (rule->reference == DP_REF_BEST)
        out->limit_ns = dp_pack_limit_ns(out->fastest_ns, rule->max_slowdown);
    else if (rule->reference_ns)
        out->limit_ns = dp_pack_limit_ns(rule->reference_ns, rule->max_slowdown);
    for (uint32_t i = 0; i < out->n_options; i++)
        judge(rule, out->limit_ns, &out->option[i]);
    refine(t, rule);
    if (t->broken.code != DP_OK) {
        if (err)
            *err = t->broken;
        return -1;
    }
    for (uint32_t i = 0; i < out->n_options; i++)
        if (out->option[i].iteration_ns && is_better(&out->option[i], chosen, out->limit_ns != 0))
            chosen = &out->option[i];
    if (!chosen)
        return dp_err_set(err, DP_EINVAL, "no number of devices has a layout: %s",
                          out->n_options ? out->option[out->n_options - 1].why : "no device is allowed");
    allow_first(t, chosen->devices);
    if (dp_policy_run(t->policy, t->state, &t->part, &out->best, err) < 0)
        return -1;
    out->devices = chosen->devices;
    out->slots = chosen->slots;
    for (uint32_t i = 0; i < chosen->devices; i++)
        out->keep_slot[t->in->device[t->order[i]].slot] = 1;
    out->keep_slot[t->in->batch_slot] = 1;
    explain(chosen, t->in->n_slots, out);
    return 0;
}

int dp_pack_choose(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                   const struct dp_pack_rule *rule, struct dp_pack *out, struct dp_err *err)
{
    struct search t = {.policy = policy, .state = state, .in = in, .part = *in, .out = out};
    int rc = -1;

    memset(out, 0, sizeof *out);
    t.device = calloc(in->n_devices, sizeof *t.device);
    t.order = calloc(in->n_devices, sizeof *t.order);
    if (!t.device || !t.order) {
        dp_err_set(err, DP_ENOMEM, "packing: out of memory");
    } else {
        memcpy(t.device, in->device, in->n_devices * sizeof *t.device);
        t.part.device = t.device;
        t.n = device_order(in, t.order);
        rc = search(&t, rule, err);
    }
    free(t.device);
    free(t.order);
    return rc;
}
