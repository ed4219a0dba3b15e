/* SPDX-License-Identifier: BSD-3-Clause */
/* See pack_sets.h. */
#include "policies/decide/pack_sets.h"

#include <stdlib.h>
#include <string.h>

/* Rounding of doubles must not raise a lower bound. */
#define ROUND 1e-9

struct work {
    double microbatch_ns, heaviest_ns; /* forward and back, on speed 1 */
    double opt_ns, bytes;
};

static bool is_usable(const struct dp_policy_in *in, uint32_t device)
{
    return in->device[device].is_allowed && !in->current->gone[device];
}

static struct work work_of(const struct dp_policy_in *in)
{
    struct work w = {0};

    for (uint32_t l = 0; l < in->n_layers; l++) {
        const struct dp_layer_load *k = &in->layer[l];
        double ns = (double)k->fwd_ns + (double)k->bwd_input_ns + (double)k->bwd_weight_ns;

        w.microbatch_ns += ns;
        w.heaviest_ns = ns > w.heaviest_ns ? ns : w.heaviest_ns;
        w.opt_ns += in->layer_opt_ns ? (double)in->layer_opt_ns[l] : 0.0;
        w.bytes += (double)k->state_bytes + (double)k->act_bytes;
    }
    return w;
}

/* device: [n] in the order of the pipeline. */
static uint64_t bound_of(const struct dp_policy_in *in, const struct work *w, const uint32_t *device, uint32_t n)
{
    double m = in->microbatches, weights = 0.0, speed = 0.0, fastest = 0.0, bytes = 0.0, ns;
    bool is_limited = true;

    for (uint32_t i = n; i-- > 0;) {
        const struct dp_device *d = &in->device[device[i]];

        if (d->speed > weights)
            weights += (d->speed - weights) / m;
        speed += d->speed;
        fastest = d->speed > fastest ? d->speed : fastest;
        bytes += (double)d->mem_limit_bytes;
        is_limited = is_limited && d->mem_limit_bytes;
    }
    if (!n || (is_limited && bytes < w->bytes * (1.0 - ROUND)))
        return UINT64_MAX;
    ns = w->microbatch_ns / weights;
    if (ns < w->microbatch_ns / fastest)
        ns = w->microbatch_ns / fastest;
    if (ns < m * w->heaviest_ns / fastest)
        ns = m * w->heaviest_ns / fastest;
    return (uint64_t)((ns + w->opt_ns / speed) * (1.0 - ROUND));
}

uint64_t dp_pack_bound_ns(const struct dp_policy_in *in)
{
    uint32_t device[DP_MAX_WORKERS], n = dp_policy_allowed(in, device);
    struct work w = work_of(in);

    return bound_of(in, &w, device, n);
}

/* --- kinds of slots --- */

/* The first usable device of the slot from d on, n_devices: none. */
static uint32_t next_in(const struct dp_policy_in *in, uint32_t slot, uint32_t d)
{
    while (d < in->n_devices && !(in->device[d].slot == slot && is_usable(in, d)))
        d++;
    return d;
}

static bool are_alike(const struct dp_policy_in *in, uint32_t slot, uint32_t other)
{
    uint32_t a = next_in(in, slot, 0), b = next_in(in, other, 0);

    while (a < in->n_devices && b < in->n_devices) {
        if (in->device[a].speed != in->device[b].speed ||
            in->device[a].mem_limit_bytes != in->device[b].mem_limit_bytes)
            return false;
        a = next_in(in, slot, a + 1);
        b = next_in(in, other, b + 1);
    }
    return a == in->n_devices && b == in->n_devices;
}

static void count_sets(struct dp_slot_sets *t)
{
    t->n = 1;
    for (uint32_t k = 0; k < t->n_kinds && t->n; k++)
        t->n = t->n * (t->size[k] + 1) <= DP_SLOT_SETS ? t->n * (t->size[k] + 1) : 0;
}

/* Where the sets become too many on the way, it ends with n 0. */
static void find_kinds(struct dp_slot_sets *t, const struct dp_policy_in *in, const uint32_t *order, uint32_t n_order, bool merge)
{
    uint32_t first[DP_MAX_WORKERS]; /* slot of each kind */

    t->n_kinds = 0;
    t->n = 1;
    for (uint32_t s = 0; s < in->n_slots; s++)
        t->kind[s] = DP_NO_KIND;
    for (uint32_t i = 0; i < n_order && t->n; i++) {
        uint32_t s = order[i], k = merge ? 0 : t->n_kinds;

        if (t->is_kept[s] || next_in(in, s, 0) == in->n_devices)
            continue;
        while (k < t->n_kinds && !are_alike(in, s, first[k]))
            k++;
        if (k == t->n_kinds) {
            first[k] = s;
            t->size[t->n_kinds++] = 0;
        }
        t->kind[s] = k;
        t->place[s] = t->size[k]++;
        count_sets(t);
    }
}

void dp_slot_sets_init(struct dp_slot_sets *sets, const struct dp_policy_in *in, const struct dp_pack_hosts *hosts, const uint8_t *stays)
{
    uint32_t order[DP_MAX_WORKERS], n = dp_pack_hosts_order(hosts, UINT32_MAX, order);

    for (; !hosts->n && n < in->n_slots; n++)
        order[n] = n;
    memset(sets, 0, sizeof *sets);
    sets->n_slots = in->n_slots;
    for (uint32_t s = 0; s < in->n_slots; s++)
        sets->is_kept[s] = s == in->batch_slot || (stays && stays[s]);
    find_kinds(sets, in, order, n, false);
    if (!sets->n)
        find_kinds(sets, in, order, n, true);
}

void dp_slot_sets_expand(const struct dp_slot_sets *sets, uint32_t set, bool *has)
{
    uint32_t taken[DP_MAX_WORKERS];

    for (uint32_t k = 0; k < sets->n_kinds; k++) {
        taken[k] = set % (sets->size[k] + 1);
        set /= sets->size[k] + 1;
    }
    for (uint32_t s = 0; s < sets->n_slots; s++)
        has[s] = sets->is_kept[s] || (sets->kind[s] != DP_NO_KIND && sets->place[s] < taken[sets->kind[s]]);
}

/* --- the order in which to ask --- */

static int by_slots(const void *a, const void *b)
{
    const struct dp_slot_set *x = a, *y = b;

    if (x->slots != y->slots)
        return x->slots < y->slots ? -1 : 1;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    if (dp_pack_hosts_compare(x->used, y->used))
        return dp_pack_hosts_compare(x->used, y->used);
    return (x->set > y->set) - (x->set < y->set);
}

static int by_device_time(const void *a, const void *b)
{
    const struct dp_slot_set *x = a, *y = b;
    double p = (double)x->bound_ns * x->devices, q = (double)y->bound_ns * y->devices;

    return p != q ? (p > q) - (p < q) : by_slots(a, b);
}

static struct dp_slot_set look_at(const struct dp_slot_sets *sets, const struct dp_policy_in *in, const struct dp_pack_hosts *hosts,
                                  const struct work *w, uint32_t set)
{
    struct dp_slot_set out = {.set = set};
    bool has[DP_MAX_WORKERS];
    uint8_t keep[DP_MAX_WORKERS];
    uint32_t device[DP_MAX_WORKERS];

    dp_slot_sets_expand(sets, set, has);
    for (uint32_t s = 0; s < in->n_slots; s++) {
        out.slots += has[s];
        keep[s] = has[s];
    }
    out.used = dp_pack_hosts_used(hosts, keep);
    for (uint32_t d = 0; d < in->n_devices; d++)
        if (has[in->device[d].slot] && is_usable(in, d))
            device[out.devices++] = d;
    out.bound_ns = bound_of(in, w, device, out.devices);
    return out;
}

int dp_slot_sets_rank(const struct dp_slot_sets *sets, const struct dp_policy_in *in, const struct dp_pack_hosts *hosts,
                      uint32_t min_devices, uint64_t limit_ns, bool by_efficiency, struct dp_slot_set **list, uint32_t *n,
                      struct dp_err *err)
{
    struct work w = work_of(in);

    *n = 0;
    *list = sets->n ? calloc(sets->n, sizeof **list) : NULL;
    if (!*list)
        return sets->n ? dp_err_set(err, DP_ENOMEM, "packing: out of memory") : 0;
    for (uint32_t set = 0; set < sets->n; set++) {
        struct dp_slot_set s = look_at(sets, in, hosts, &w, set);

        if (s.devices >= min_devices && s.bound_ns <= limit_ns && s.bound_ns != UINT64_MAX)
            (*list)[(*n)++] = s;
    }
    qsort(*list, *n, sizeof **list, by_efficiency ? by_device_time : by_slots);
    return 0;
}
