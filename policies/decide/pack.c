/* SPDX-License-Identifier: BSD-3-Clause */
/* See pack.h.
 *
 * A set of devices is tried by allowing only them. Beyond DP_PACK_ALL devices a prediction takes
 * milliseconds, so an even grid is tried, and between the smallest number on it that meets the reference
 * and the one below, the smallest is found by halving: more devices of the same kind rarely make it
 * slower. Where all slots are alike, so are all sets of as many of them but for what moves, and their
 * order is as good as any other; where they differ, the strongest first is tried as well.
 */
#include "policies/decide/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "policies/baselines/first_fit.h"
#include "policies/decide/pack_sets.h"
#include "policies/predict/answer.h"

/* Allowed devices in an order: the batch host's first, then those of slots that stay, then slot by slot. */
struct order {
    uint32_t n;
    uint32_t device[DP_MAX_WORKERS];
};

enum set_kind { SET_FIRST, SET_DEVICES, SET_SLOTS };

/* A set of devices: the first n of an order, those of the order with a bit, or all on a set of slots. */
struct set {
    enum set_kind kind;
    const struct order *order;
    uint32_t n, bits; /* SET_FIRST; SET_DEVICES, SET_SLOTS (dp_slot_sets) */
};

struct search {
    const struct dp_policy *policy;
    void *state;
    const struct dp_policy_in *in;
    const struct dp_pack_rule *rule;
    struct dp_policy_in part; /* in, with the devices of one option allowed */
    struct dp_device device[DP_MAX_WORKERS];
    struct order by_index, by_strength;
    struct order by_node; /* as order_of() says */
    struct dp_pack_hosts hosts;
    struct dp_slot_sets sets;
    struct set set[DP_PACK_OPTIONS]; /* of the options */
    struct dp_pack *out;
    struct dp_err broken; /* of the policy: then nothing it says counts; code DP_OK: it works */
};

struct strength {
    uint32_t slot, place; /* place: where both are equal */
    double speed;  /* of its allowed devices together */
    double memory; /* infinite where one has no limit */
};

static bool is_usable(const struct dp_policy_in *in, uint32_t device)
{
    return in->device[device].is_allowed && !in->current->gone[device];
}

static int by_strength(const void *a, const void *b)
{
    const struct strength *x = a, *y = b;

    if (x->speed != y->speed)
        return x->speed < y->speed ? 1 : -1;
    if (x->memory != y->memory)
        return x->memory < y->memory ? 1 : -1;
    return (x->place > y->place) - (x->place < y->place);
}

static void add_slot(const struct dp_policy_in *in, uint32_t slot, struct order *o)
{
    for (uint32_t d = 0; d < in->n_devices; d++)
        if (is_usable(in, d) && in->device[d].slot == slot)
            o->device[o->n++] = d;
}

/* Is it kept, whatever is packed? */
static bool is_kept(const struct search *t, uint32_t slot)
{
    return slot == t->in->batch_slot || (t->rule->stays && t->rule->stays[slot]);
}

/* Of slots that are equally strong those of nodes with many first. */
static void place_slots(const struct search *t, struct strength *slot)
{
    uint32_t order[DP_MAX_WORKERS], n = dp_pack_hosts_order(&t->hosts, UINT32_MAX, order);

    for (uint32_t s = 0; s < t->in->n_slots; s++)
        slot[s].slot = slot[s].place = s;
    for (uint32_t i = 0; i < n; i++)
        slot[order[i]].place = i;
}

static int make_orders(struct search *t, struct dp_err *err)
{
    const struct dp_policy_in *in = t->in;
    struct strength *slot = calloc(in->n_slots, sizeof *slot);

    if (!slot)
        return dp_err_set(err, DP_ENOMEM, "packing: out of memory");
    place_slots(t, slot);
    for (uint32_t d = 0; d < in->n_devices; d++)
        if (is_usable(in, d)) {
            slot[in->device[d].slot].speed += in->device[d].speed;
            slot[in->device[d].slot].memory +=
                in->device[d].mem_limit_bytes ? (double)in->device[d].mem_limit_bytes : 1e30;
        }
    qsort(slot, in->n_slots, sizeof *slot, by_strength);
    add_slot(in, in->batch_slot, &t->by_index);
    add_slot(in, in->batch_slot, &t->by_strength);
    for (uint32_t s = 0; s < in->n_slots; s++)
        if (s != in->batch_slot && is_kept(t, s)) {
            add_slot(in, s, &t->by_index);
            add_slot(in, s, &t->by_strength);
        }
    for (uint32_t s = 0; s < in->n_slots; s++) {
        if (!is_kept(t, s))
            add_slot(in, s, &t->by_index);
        if (!is_kept(t, slot[s].slot))
            add_slot(in, slot[s].slot, &t->by_strength);
    }
    free(slot);
    return 0;
}

uint64_t dp_pack_limit_ns(const struct dp_pack_limits *limits, uint64_t reference_ns)
{
    double share = limits->max_slowdown / 100.0, limit;

    if (limits->reference == DP_REF_FIXED)
        limit = (double)reference_ns * (1.0 + share);
    else if (!(share > 0.0))
        return reference_ns;
    else if (share >= 1.0)
        return UINT64_MAX;
    else
        limit = (double)reference_ns / (1.0 - share);
    return limit >= 1.8e19 ? UINT64_MAX : (uint64_t)limit;
}

const char *dp_pack_allowed(uint64_t limit_ns, char out[DP_PACK_ALLOWED])
{
    if (limit_ns == UINT64_MAX)
        snprintf(out, DP_PACK_ALLOWED, "any time");
    else
        snprintf(out, DP_PACK_ALLOWED, "%.3f ms", (double)limit_ns / 1e6);
    return out;
}

static uint64_t limit_of(const struct search *t)
{
    const struct dp_pack_rule *r = t->rule;

    if (r->limits.reference == DP_REF_BEST)
        return dp_pack_limit_ns(&r->limits, t->out->fastest_ns);
    return r->reference_ns ? dp_pack_limit_ns(&r->limits, r->reference_ns) : 0;
}

/* The order of which a set has the first ones. By nodes it is another one for each number of them. */
static const struct order *order_of(struct search *t, const struct set *set)
{
    uint32_t slot[DP_MAX_WORKERS], n;

    if (set->order != &t->by_node)
        return set->order;
    t->by_node.n = 0;
    n = dp_pack_hosts_order(&t->hosts, set->n, slot);
    for (uint32_t i = 0; i < n; i++)
        add_slot(t->in, slot[i], &t->by_node);
    return &t->by_node;
}

static void allow(struct search *t, const struct set *set)
{
    const struct order *order = order_of(t, set);
    bool has[DP_MAX_WORKERS] = {false};

    if (set->kind == SET_SLOTS)
        dp_slot_sets_expand(&t->sets, set->bits, has);
    for (uint32_t d = 0; d < t->in->n_devices; d++)
        t->device[d].is_allowed = false;
    for (uint32_t i = 0; i < order->n; i++) {
        uint32_t d = order->device[i];

        if (set->kind == SET_FIRST)
            t->device[d].is_allowed = i < set->n;
        else if (set->kind == SET_DEVICES)
            t->device[d].is_allowed = set->bits >> i & 1;
        else
            t->device[d].is_allowed = has[t->in->device[d].slot];
    }
}

/* keep: = [DP_MAX_WORKERS] the slots of the devices that are allowed now, and those that are always kept. */
static void slots_of_allowed(const struct search *t, uint8_t *keep)
{
    memset(keep, 0, DP_MAX_WORKERS);
    for (uint32_t s = 0; s < t->in->n_slots; s++)
        keep[s] = is_kept(t, s);
    for (uint32_t d = 0; d < t->in->n_devices; d++)
        if (t->device[d].is_allowed)
            keep[t->device[d].slot] = 1;
}

static void count(const struct search *t, struct dp_pack_option *o)
{
    uint8_t keep[DP_MAX_WORKERS];

    slots_of_allowed(t, keep);
    for (uint32_t s = 0; s < t->in->n_slots; s++)
        o->slots += keep[s];
    o->used = dp_pack_hosts_used(&t->hosts, keep);
    for (uint32_t d = 0; d < t->in->n_devices; d++) {
        o->devices += t->device[d].is_allowed;
        o->devices_kept += is_usable(t->in, d) && keep[t->device[d].slot];
    }
}

/* Nodes that own layers. */
static uint32_t nodes_of(const struct dp_policy_in *in, const struct dp_layout *l)
{
    uint8_t is_used[DP_MAX_WORKERS] = {0};
    uint32_t n = 0;

    for (uint32_t d = 0; d < in->n_devices; d++) {
        uint32_t slot = in->device[d].slot, node = in->slot_host ? in->slot_host[slot] : slot;

        n += l->cut[d + 1] > l->cut[d] && !is_used[node];
        is_used[node] |= l->cut[d + 1] > l->cut[d];
    }
    return n;
}

/* Predict the policy's layout on a set of devices. */
static struct dp_pack_option *try_set(struct search *t, struct set s)
{
    struct dp_pack_option *o = &t->out->option[t->out->n_options];
    struct dp_policy_out *layout = &t->out->best;
    struct dp_err err;

    t->set[t->out->n_options++] = s;
    allow(t, &s);
    count(t, o);
    if (t->broken.code != DP_OK)
        return o; /* not asked again */
    if (dp_policy_run(t->policy, t->state, &t->part, layout, &err) < 0) {
        if (dp_policy_is_broken(&err))
            t->broken = err;
        snprintf(o->why, sizeof o->why, "%.*s", (int)sizeof o->why - 1, err.text);
        return o;
    }
    o->iteration_ns = layout->iteration_ns ? layout->iteration_ns : 1;
    o->nodes = nodes_of(t->in, &layout->layout);
    if (!t->out->fastest_ns || o->iteration_ns < t->out->fastest_ns)
        t->out->fastest_ns = o->iteration_ns;
    return o;
}

static void judge(const struct search *t, struct dp_pack_option *o)
{
    uint64_t limit_ns = t->out->limit_ns;
    char allowed[DP_PACK_ALLOWED];

    if (!o->iteration_ns)
        return;
    if (o->devices_kept < t->rule->limits.min_devices)
        snprintf(o->why, sizeof o->why, "fewer than %u devices", t->rule->limits.min_devices);
    else if (o->nodes < t->rule->limits.min_nodes)
        snprintf(o->why, sizeof o->why, "on fewer than %u nodes, which copies of layers need", t->rule->limits.min_nodes);
    else if (limit_ns && o->iteration_ns > limit_ns)
        snprintf(o->why, sizeof o->why, "%.3f ms a step predicted, %s allowed", (double)o->iteration_ns / 1e6,
                 dp_pack_allowed(limit_ns, allowed));
    else
        o->meets = true;
}

static void try_sets(struct search *t, enum set_kind kind, uint32_t n)
{
    for (uint32_t bits = kind == SET_DEVICES; bits < n; bits++)
        try_set(t, (struct set){.kind = kind, .order = &t->by_index, .bits = bits});
}

static void try_grid(struct search *t, const struct order *order)
{
    uint32_t steps = order->n <= DP_PACK_ALL ? order->n : DP_PACK_GRID;

    for (uint32_t i = 1; i <= steps; i++)
        try_set(t, (struct set){.order = order, .n = (uint32_t)((uint64_t)order->n * i / steps)});
}

static struct dp_pack_used used_by(struct search *t, const struct order *order, uint32_t n)
{
    uint8_t keep[DP_MAX_WORKERS];

    allow(t, &(struct set){.order = order, .n = n});
    slots_of_allowed(t, keep);
    return dp_pack_hosts_used(&t->hosts, keep);
}

/* Where slots share nodes: as many devices that leave more nodes than the first ones do. Where the smallest number is searched for
 * between two, all of that grid. */
static void try_nodes(struct search *t)
{
    uint32_t n = t->by_index.n, steps = n <= DP_PACK_ALL ? n : DP_PACK_GRID;

    for (uint32_t i = 1; i <= steps && t->hosts.n > 1; i++) {
        uint32_t k = (uint32_t)((uint64_t)n * i / steps);

        if (n > DP_PACK_ALL || dp_pack_hosts_compare(used_by(t, &t->by_node, k), used_by(t, &t->by_index, k)) < 0)
            try_set(t, (struct set){.order = &t->by_node, .n = k});
    }
}

/* The smallest number that meets the reference, between two neighbours of an order's grid. */
static void refine(struct search *t, const struct order *order)
{
    uint32_t low = 0, high = 0;

    if (t->by_index.n <= DP_PACK_ALL || !t->out->limit_ns)
        return;
    for (uint32_t i = 0; i < t->out->n_options && !high; i++) {
        if (t->set[i].order != order || t->set[i].kind != SET_FIRST)
            continue;
        if (t->out->option[i].meets)
            high = t->set[i].n;
        else
            low = t->set[i].n;
    }
    while (high > low + 1) {
        uint32_t k = low + (high - low) / 2;
        struct dp_pack_option *o = try_set(t, (struct set){.order = order, .n = k});

        judge(t, o);
        if (o->meets)
            high = k;
        else
            low = k;
    }
}

/* Time of all kept devices for one step: what throughput for each of them is the reciprocal of. */
static double device_time(const struct dp_pack_option *o)
{
    return (double)o->iteration_ns * o->devices_kept;
}

/* Does a beat b? What meets the reference before what does not; then the objective, else the faster one;
 * on a tie the one with more devices, which needs less memory on each. */
static bool is_better(const struct search *t, const struct dp_pack_option *a, const struct dp_pack_option *b)
{
    if (!b)
        return true;
    if (t->out->limit_ns && a->meets != b->meets)
        return a->meets;
    if (t->out->limit_ns && a->meets) {
        if (t->rule->limits.objective == DP_OBJ_EFFICIENCY && device_time(a) != device_time(b))
            return device_time(a) < device_time(b);
        if (a->slots != b->slots)
            return a->slots < b->slots;
    }
    if (a->iteration_ns != b->iteration_ns)
        return a->iteration_ns < b->iteration_ns;
    return a->devices > b->devices;
}

static const struct dp_pack_option *best_option(const struct search *t)
{
    const struct dp_pack_option *best = NULL;

    for (uint32_t i = 0; i < t->out->n_options; i++)
        if (t->out->option[i].iteration_ns && is_better(t, &t->out->option[i], best))
            best = &t->out->option[i];
    return best;
}

/* Is o as good as the best, but for so little time that nobody keeps a node for it? */
static bool is_equal(const struct dp_pack_option *o, const struct dp_pack_option *best)
{
    return o->meets && o->slots == best->slots && o->devices_kept == best->devices_kept &&
           (double)o->iteration_ns <= (double)best->iteration_ns * (1.0 + DP_PACK_EQUAL);
}

/* Of those that are as good as the best one that which leaves the most nodes to others; of several the fastest. */
static const struct dp_pack_option *emptiest_option(const struct search *t, const struct dp_pack_option *best)
{
    const struct dp_pack_option *out = best;

    for (uint32_t i = 0; best && best->meets && t->hosts.n && t->out->limit_ns && i < t->out->n_options; i++) {
        const struct dp_pack_option *o = &t->out->option[i];
        int by_nodes = dp_pack_hosts_compare(o->used, out->used);

        if (is_equal(o, best) && (by_nodes < 0 || (by_nodes == 0 && is_better(t, o, out))))
            out = o;
    }
    return out;
}

/* Could a set of slots, as good as its bound, beat the best answer so far? */
static bool can_beat(const struct search *t, const struct dp_slot_set *s, const struct dp_pack_option *best)
{
    if (!best || !best->meets)
        return true;
    if (t->rule->limits.objective == DP_OBJ_EFFICIENCY)
        return (double)s->bound_ns * s->devices < device_time(best);
    return s->slots < best->slots || (s->slots == best->slots && s->bound_ns < best->iteration_ns);
}

/* Ask about sets of slots in the order of what they could be at best, until none can beat the best answer or
 * the questions are used up; where fewer slots are what counts, half of those left for each number of slots. */
static void ask_about(struct search *t, const struct dp_slot_set *list, uint32_t n)
{
    const struct dp_pack_option *best = best_option(t);
    uint32_t devices = t->by_index.n, left = devices > 16 ? DP_PACK_ASKS * 16 / devices : DP_PACK_ASKS;
    uint32_t share = left / 2;

    for (uint32_t i = 0; i < n && left && can_beat(t, &list[i], best); i++) {
        struct dp_pack_option *o;

        if (t->rule->limits.objective == DP_OBJ_DEVICES && i && list[i].slots != list[i - 1].slots)
            share = left / 2;
        else if (t->rule->limits.objective == DP_OBJ_DEVICES && !share)
            continue;
        o = try_set(t, (struct set){.kind = SET_SLOTS, .order = &t->by_index, .bits = list[i].set});
        judge(t, o);
        if (o->iteration_ns && is_better(t, o, best))
            best = o;
        left--;
        share -= share > 0;
    }
}

/* The bound on the number of slots; and the sets of slots that the orders do not come to, if there are any. */
static int search_sets(struct search *t, bool is_all, struct dp_err *err)
{
    struct dp_pack *out = t->out;
    struct dp_slot_set *list;
    uint32_t n;

    if (!out->limit_ns || !t->sets.n)
        return 0;
    if (dp_slot_sets_rank(&t->sets, t->in, &t->hosts, t->rule->limits.min_devices, out->limit_ns,
                          t->rule->limits.objective == DP_OBJ_EFFICIENCY, &list, &n, err) < 0)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        if (!i || list[i].slots < out->least_slots)
            out->least_slots = list[i].slots;
    if (!is_all)
        ask_about(t, list, n);
    free(list);
    return 0;
}

static void explain(const struct search *t, const struct dp_pack_option *o)
{
    struct dp_pack *out = t->out;
    double ms = (double)o->iteration_ns / 1e6, fastest = (double)out->fastest_ns / 1e6;
    const char *slots = t->rule->is_sliced ? "slices" : "nodes";
    char bound[32] = "", nodes[48] = "", allowed[DP_PACK_ALLOWED];

    dp_pack_allowed(out->limit_ns, allowed);
    if (out->least_slots)
        snprintf(bound, sizeof bound, " (bound: %u)", out->least_slots);
    if (t->hosts.n > 1)
        snprintf(nodes, sizeof nodes, ", on %u of %u nodes", o->used.nodes, t->hosts.n);
    if (!out->limit_ns)
        snprintf(out->reason, sizeof out->reason, "no reference yet: fastest of %u options, %.3f ms a step predicted on %u device%s",
                 out->n_options, ms, o->devices, dp_plural(o->devices));
    else if (o->meets && t->rule->limits.objective == DP_OBJ_EFFICIENCY)
        snprintf(out->reason, sizeof out->reason,
                 "%u of %u %s are the most efficient%s: %.3f ms a step predicted on %u device%s, %.3f device-ms a step, "
                 "%s allowed, fastest %.3f ms",
                 o->slots, t->in->n_slots, slots, nodes, ms, o->devices, dp_plural(o->devices), device_time(o) / 1e6, allowed, fastest);
    else if (o->meets)
        snprintf(out->reason, sizeof out->reason,
                 "%u of %u %s are enough%s%s: %.3f ms a step predicted on %u device%s, %s allowed, fastest %.3f ms",
                 o->slots, t->in->n_slots, slots, bound, nodes, ms, o->devices, dp_plural(o->devices), allowed, fastest);
    else
        snprintf(out->reason, sizeof out->reason, "nothing meets %s: fastest is %.3f ms a step predicted on %u device%s", allowed, ms,
                 o->devices, dp_plural(o->devices));
}

/* The policy's layout on the chosen set, and the slots that stay. */
static int settle(struct search *t, const struct dp_pack_option *o, struct dp_err *err)
{
    allow(t, &t->set[o - t->out->option]);
    if (dp_policy_run(t->policy, t->state, &t->part, &t->out->best, err) < 0)
        return -1;
    t->out->devices = o->devices;
    t->out->slots = o->slots;
    slots_of_allowed(t, t->out->keep_slot);
    return 0;
}

/* Devices of one speed and memory, as many on each slot, and links likewise: then it counts how many are taken, not
 * which. */
static bool are_alike(const struct search *t)
{
    const struct order *o = &t->by_index;
    uint32_t on_slot[DP_MAX_WORKERS] = {0};

    if (t->in->links)
        return false;
    for (uint32_t i = 0; i < o->n; i++) {
        const struct dp_device *first = &t->in->device[o->device[0]], *d = &t->in->device[o->device[i]];

        if (d->speed != first->speed || d->mem_limit_bytes != first->mem_limit_bytes)
            return false;
        on_slot[d->slot]++;
    }
    for (uint32_t s = 0; s < t->in->n_slots; s++)
        if (on_slot[s] != on_slot[t->in->batch_slot] && (on_slot[s] || s == t->in->batch_slot))
            return false;
    return o->n && on_slot[t->in->batch_slot];
}

/* returns: are these all sets of slots, or all but for what makes no difference? */
static bool try_options(struct search *t, bool has_two)
{
    bool is_all = true;

    if (are_alike(t)) {
        try_grid(t, &t->by_index);
        try_nodes(t);
        return true;
    }
    if (t->by_index.n <= DP_PACK_SETS) {
        try_sets(t, SET_DEVICES, 1u << t->by_index.n);
        return true;
    }
    is_all = t->sets.n && t->sets.n <= 1u << DP_PACK_SETS;
    if (is_all)
        try_sets(t, SET_SLOTS, t->sets.n);
    try_grid(t, &t->by_index);
    try_nodes(t);
    if (has_two)
        try_grid(t, &t->by_strength);
    return is_all;
}

static int choose_set(struct search *t, struct dp_err *err)
{
    bool has_two = memcmp(&t->by_index, &t->by_strength, sizeof t->by_index) != 0, is_all;
    const struct dp_pack_option *chosen;
    struct dp_pack *out = t->out;

    is_all = try_options(t, has_two);
    out->limit_ns = limit_of(t);
    for (uint32_t i = 0; i < out->n_options; i++)
        judge(t, &out->option[i]);
    refine(t, &t->by_index);
    refine(t, &t->by_node);
    if (has_two)
        refine(t, &t->by_strength);
    if (search_sets(t, is_all, err) < 0)
        return -1;
    if (t->broken.code != DP_OK) {
        if (err)
            *err = t->broken;
        return -1;
    }
    chosen = emptiest_option(t, best_option(t));
    if (!chosen)
        return dp_err_set(err, DP_EINVAL, "no number of devices has a layout: %s",
                          out->n_options ? out->option[out->n_options - 1].why : "no device is allowed");
    explain(t, chosen);
    return settle(t, chosen, err);
}

/* DynMo's merges as they are, where they can be carried out; else all devices, and why. */
static int choose_first_fit(struct search *t, struct dp_err *err)
{
    struct dp_first_fit *f = malloc(sizeof *f);
    struct dp_pack *out = t->out;
    int rc = 0;

    if (!f)
        return dp_err_set(err, DP_ENOMEM, "packing: out of memory");
    try_set(t, (struct set){.order = &t->by_index, .n = t->by_index.n});
    if (t->broken.code != DP_OK) {
        if (err)
            *err = t->broken;
        rc = -1;
    } else if (dp_first_fit_pack(t->in, t->rule->limits.min_devices, f, err) < 0) {
        rc = -1;
    } else if (f->is_possible) {
        memcpy(&out->best, &f->out, sizeof out->best);
        out->devices = f->devices;
        for (uint32_t d = 0; d < t->in->n_devices; d++)
            t->device[d].is_allowed = f->out.layout.cut[d + 1] > f->out.layout.cut[d];
        slots_of_allowed(t, out->keep_slot);
        for (uint32_t s = 0; s < t->in->n_slots; s++)
            out->slots += out->keep_slot[s];
        out->limit_ns = f->out.iteration_ns; /* it knows no reference: what it takes is allowed */
    } else if (out->option[0].iteration_ns) {
        rc = settle(t, &out->option[0], err);
    } else {
        rc = dp_err_set(err, DP_EINVAL, "%s", out->option[0].why);
    }
    snprintf(out->reason, sizeof out->reason, "%s", f->reason);
    free(f);
    return rc;
}

int dp_pack_choose(const struct dp_policy *policy, void *state, const struct dp_policy_in *in,
                   const struct dp_pack_rule *rule, struct dp_pack *out, struct dp_err *err)
{
    struct search *t = calloc(1, sizeof *t);
    int rc = -1;

    memset(out, 0, sizeof *out);
    if (!t)
        return dp_err_set(err, DP_ENOMEM, "packing: out of memory");
    t->policy = policy;
    t->state = state;
    t->in = in;
    t->rule = rule;
    t->part = *in;
    t->out = out;
    memcpy(t->device, in->device, in->n_devices * sizeof *t->device);
    t->part.device = t->device;
    dp_pack_hosts_init(&t->hosts, in);
    dp_slot_sets_init(&t->sets, in, &t->hosts, rule->stays);
    if (make_orders(t, err) == 0)
        rc = rule->limits.packing == DP_PACKING_FIRST_FIT ? choose_first_fit(t, err) : choose_set(t, err);
    free(t);
    return rc;
}
