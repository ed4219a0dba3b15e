/* SPDX-License-Identifier: BSD-3-Clause */
/* See stages.h. */
#include "policies/sim/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int dp_sim_layout_create(const struct dp_sim_case *c, struct dp_sim_layout *out, struct dp_err *err)
{
    size_t stages = (size_t)c->devices * c->chunks;

    out->n_used = out->n_stages = 0;
    out->used = calloc(c->devices, sizeof *out->used);
    out->cut = calloc(stages + 1, sizeof *out->cut);
    out->stage_of = calloc(stages, sizeof *out->stage_of);
    if (out->used && out->cut && out->stage_of)
        return 0;
    dp_sim_layout_release(out);
    return dp_err_set(err, DP_ENOMEM, "layout over %zu stages: out of memory", stages);
}

void dp_sim_layout_release(struct dp_sim_layout *l)
{
    free(l->used);
    free(l->cut);
    free(l->stage_of);
    memset(l, 0, sizeof *l);
}

void dp_sim_layout_copy(const struct dp_sim_case *c, const struct dp_sim_layout *from, struct dp_sim_layout *to)
{
    size_t stages = (size_t)c->devices * c->chunks;

    to->n_used = from->n_used;
    to->n_stages = from->n_stages;
    memcpy(to->used, from->used, c->devices * sizeof *to->used);
    memcpy(to->cut, from->cut, (stages + 1) * sizeof *to->cut);
    memcpy(to->stage_of, from->stage_of, stages * sizeof *to->stage_of);
}

/* Stages of several devices: what the case says of them. */
static int set_wide(const struct dp_sim_case *c, struct dp_sim_layout *l, struct dp_err *err)
{
    l->n_used = 0;
    l->n_stages = c->n_count;
    for (uint32_t s = 0; s < c->n_count; s++) {
        l->cut[s + 1] = l->cut[s] + c->count[s];
        for (uint32_t i = 0; i < c->width[s]; i++) {
            if (l->n_used == c->devices)
                return dp_err_set(err, DP_EINVAL, "layout of more than %u devices", c->devices);
            l->used[l->n_used] = c->place[l->n_used];
            l->stage_of[l->n_used++] = s;
        }
    }
    return 0;
}

int dp_sim_layout_set(const struct dp_sim_case *c, const uint32_t *count, uint32_t n_count, struct dp_sim_layout *l,
                      struct dp_err *err)
{
    uint64_t sum = 0, most = (uint64_t)c->devices * c->chunks;
    uint32_t v = 0;

    if (n_count < 1 || n_count > most || n_count % c->chunks)
        return dp_err_set(err, DP_EINVAL, "layout of %u stages; there are %u devices with %u chunks each", n_count, c->devices,
                          c->chunks);
    for (uint32_t i = 0; i < n_count; i++)
        sum += count[i];
    if (sum != c->n_layers)
        return dp_err_set(err, DP_EINVAL, "layout of %llu layers; the model has %u", (unsigned long long)sum, c->n_layers);
    if (c->width)
        return set_wide(c, l, err);
    l->n_used = 0;
    for (uint32_t i = 0; i < n_count; i++) {
        if (c->chunks == 1 && !count[i])
            continue;
        l->cut[v + 1] = l->cut[v] + count[i];
        l->stage_of[v] = v;
        v++;
        if (c->chunks == 1)
            l->used[l->n_used++] = i;
    }
    for (uint32_t d = 0; c->chunks > 1 && d < n_count / c->chunks; d++)
        l->used[l->n_used++] = d;
    l->n_stages = v;
    return 0;
}

uint32_t dp_sim_layout_stage(const struct dp_sim_layout *l, uint32_t layer)
{
    uint32_t low = 0, high = l->n_stages; /* the stage is in [low, high) */

    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;

        if (l->cut[mid] <= layer)
            low = mid;
        else
            high = mid;
    }
    return low;
}

uint32_t dp_sim_layout_owner(const struct dp_sim_layout *l, uint32_t layer)
{
    return l->used[dp_sim_layout_stage(l, layer) % l->n_used];
}

int dp_sim_stages_create(const struct dp_sim_case *c, struct dp_sim_stages *out, struct dp_err *err)
{
    size_t v = (size_t)c->devices * c->chunks;

    memset(out, 0, sizeof *out);
    out->room = (uint32_t)v;
    out->stage = calloc(c->replicas * v, sizeof *out->stage);
    out->link = calloc(c->replicas * v, sizeof *out->link);
    out->reduce_ns = calloc(v, sizeof *out->reduce_ns);
    if (out->stage && out->link && out->reduce_ns)
        return 0;
    dp_sim_stages_release(out);
    return dp_err_set(err, DP_ENOMEM, "%u replicas of %zu stages: out of memory", c->replicas, v);
}

void dp_sim_stages_release(struct dp_sim_stages *s)
{
    dp_sim_program_destroy(s->program);
    free(s->stage);
    free(s->link);
    free(s->reduce_ns);
    memset(s, 0, sizeof *s);
}

/* Pairs of devices of neighbouring stages may be more than stages. */
static int make_links(const struct dp_sim_case *c, struct dp_sim_stages *s, struct dp_err *err)
{
    uint32_t n = dp_sim_program_links(s->program);

    if (n <= s->room)
        return 0;
    free(s->link);
    s->link = calloc((size_t)c->replicas * n, sizeof *s->link);
    s->room = s->link ? n : 0;
    return s->link ? 0 : dp_err_set(err, DP_ENOMEM, "%u links: out of memory", n);
}

static int make_program(const struct dp_sim_case *c, uint32_t n_used, struct dp_sim_stages *s, struct dp_err *err)
{
    struct dp_sim_actions actions;
    int rc;

    if (s->program && s->made_for == n_used)
        return 0;
    dp_sim_program_destroy(s->program);
    s->program = NULL;
    if (c->width)
        rc = dp_sim_actions_create_wide(c->schedule, c->n_count, c->width, c->microbatches, &actions, err);
    else
        rc = dp_sim_actions_create(c->schedule, n_used, c->chunks, c->microbatches, &actions, err);
    if (rc < 0)
        return -1;
    s->program = dp_sim_program_create(&actions, err);
    s->made_for = n_used;
    return s->program ? make_links(c, s, err) : -1;
}

static uint64_t at_speed(uint64_t ns, double speed)
{
    return speed == 1.0 ? ns : (uint64_t)ceil((double)ns / speed);
}

/* The layers of one stage together, on a device of speed 1. Those below `live` only go forward. */
static struct dp_sim_layer sum_layers(const struct dp_sim_layer *layer, uint32_t live, uint32_t first, uint32_t end)
{
    struct dp_sim_layer sum = {0};

    for (uint32_t i = first; i < end; i++) {
        sum.fwd_ns += layer[i].fwd_ns;
        sum.bwd_input_ns += layer[i].bwd_input_ns;
        sum.bwd_weight_ns += layer[i].bwd_weight_ns;
        sum.opt_ns += layer[i].opt_ns;
        sum.state_bytes += layer[i].state_bytes;
        sum.act_bytes += layer[i].act_bytes;
        sum.wgrad_bytes += layer[i].wgrad_bytes;
        sum.grad_bytes += i < live ? 0 : layer[i].grad_bytes;
    }
    return sum;
}

static struct dp_sim_stage on_device(const struct dp_sim_case *c, const struct dp_sim_layer *sum, uint32_t replica, uint32_t device)
{
    double speed = c->speed ? c->speed[(size_t)replica * c->devices + device] : 1.0;

    return (struct dp_sim_stage){
        .fwd_ns = at_speed(sum->fwd_ns, speed),
        .bwd_input_ns = at_speed(sum->bwd_input_ns, speed),
        .bwd_weight_ns = at_speed(sum->bwd_weight_ns, speed),
        .opt_ns = at_speed(sum->opt_ns, speed),
        .state_bytes = sum->state_bytes,
        .act_bytes = sum->act_bytes,
        .wgrad_bytes = sum->wgrad_bytes,
    };
}

/* A ring over n devices at the pace of its slowest tier. */
static uint64_t ring_ns(const struct dp_sim_case *c, const struct dp_sim_tier *tier, uint32_t n, uint64_t grad_bytes)
{
    double part = (double)grad_bytes / c->buckets / n;

    return grad_bytes && n > 1 ? 2 * (uint64_t)(n - 1) * (dp_sim_transfer_ns(tier, part) + tier->latency_ns) : 0;
}

static uint64_t reduce_ns(const struct dp_sim_case *c, uint32_t device, uint64_t grad_bytes)
{
    const struct dp_sim_tier *tier = &c->inside;

    for (uint32_t r = 1; r < c->replicas; r++)
        if (dp_sim_node(c, r, device) != dp_sim_node(c, 0, device))
            tier = &c->between;
    return ring_ns(c, tier, c->replicas, grad_bytes);
}

static uint64_t norm_ns(const struct dp_sim_case *c, const struct dp_sim_layout *l)
{
    uint64_t n = (uint64_t)c->replicas * l->n_used, levels = 0;
    bool is_one_node = dp_sim_node(c, c->replicas - 1, l->used[l->n_used - 1]) == dp_sim_node(c, 0, l->used[0]);

    for (uint32_t i = 1; c->width && i < l->n_used; i++) /* in no order */
        is_one_node = is_one_node && dp_sim_node(c, 0, l->used[i]) == dp_sim_node(c, 0, l->used[0]);
    while ((1ull << levels) < n)
        levels++;
    return 2 * levels * (is_one_node ? c->inside.latency_ns : c->between.latency_ns);
}

/* A message over the border behind stage s, whose bytes are what the last layer before it puts out. */
static struct dp_sim_link link_behind(const struct dp_sim_layer *layer, const struct dp_sim_layout *l, uint32_t s,
                                      const struct dp_sim_tier *tier)
{
    uint64_t bytes = l->cut[s + 1] ? layer[l->cut[s + 1] - 1].output_bytes : 0;

    return (struct dp_sim_link){.send_ns = dp_sim_transfer_ns(tier, (double)bytes), .latency_ns = tier->latency_ns};
}

/* A device handles a message at each of its ends: the sender before it leaves, the receiver before it
 * computes on it (the overhead of the LogP models, Culler et al. 1993). Forward and, over borders with a layer before them that
 * learns, backward alike. */
static void add_messages(const struct dp_sim_layer *layer, uint32_t live, const struct dp_sim_layout *l, struct dp_sim_layer *sum,
                         uint32_t s)
{
    const uint32_t border[] = {s > 0 ? l->cut[s] : 0, s + 1 < l->n_stages ? l->cut[s + 1] : 0};

    for (int i = 0; i < 2 && l->n_used > 1; i++) {
        uint64_t ns = border[i] ? layer[border[i] - 1].message_ns : 0;

        sum->fwd_ns += ns;
        sum->bwd_input_ns += border[i] > live ? ns : 0;
    }
}

/* Of one replica: all operations and messages after each other, in ns. */
static double all_in_a_row(const struct dp_sim_in *in, uint32_t replica, uint32_t v)
{
    const struct dp_sim_actions *o = dp_sim_program_order(in->program);
    uint32_t n_links = dp_sim_program_links(in->program), m = o->microbatches;
    double sum = 0;

    for (uint32_t k = 0; k < v; k++) {
        const struct dp_sim_stage *g = &in->stage[(size_t)replica * v + k];
        uint32_t share = o->n_wide ? dp_sim_actions_share(o, k).count : m;

        sum += share * ((double)g->fwd_ns + (double)g->bwd_input_ns + (double)g->bwd_weight_ns) + (double)g->opt_ns;
    }
    for (uint32_t i = 0; !o->n_wide && i < n_links; i++) {
        const struct dp_sim_link *l = &in->link[(size_t)replica * n_links + i];

        sum += 2.0 * m * ((double)l->send_ns + (double)l->latency_ns);
    }
    for (uint32_t s = 0; s + 1 < o->n_wide; s++) /* each microbatch goes over one of the links there */
        for (uint32_t mb = 0; mb < m; mb++) {
            const struct dp_sim_link *l = &in->link[dp_sim_program_link(in->program, s, mb)];

            sum += 2 * ((double)l->send_ns + (double)l->latency_ns);
        }
    return sum;
}

/* That is longer than any iteration: does it fit into 64 bits? */
static int check_length(const struct dp_sim_case *c, const struct dp_sim_in *in, uint32_t v, struct dp_err *err)
{
    double ns = (double)in->norm_ns, most = 0;

    for (uint32_t k = 0; in->reduce_ns && k < v; k++)
        ns += (double)in->reduce_ns[k] * c->buckets;
    for (uint32_t r = 0; r < c->replicas; r++)
        most = fmax(most, all_in_a_row(in, r, v));
    if (ns + most > DP_SIM_LONGEST_NS)
        return dp_err_set(err, DP_EINVAL, "an iteration could take %.3g s; at most %.3g s can be simulated", (ns + most) * 1e-9,
                          DP_SIM_LONGEST_NS * 1e-9);
    return 0;
}

/* Links behind the devices of stage s, and their all-reduce, where stages have several devices. */
static void join_devices(const struct dp_sim_case *c, const struct dp_sim_layer *layer, uint32_t live, const struct dp_sim_layout *l,
                         uint32_t s, struct dp_sim_stages *out)
{
    const struct dp_sim_actions *o = dp_sim_program_order(out->program);
    const struct dp_sim_tier *ring = &c->inside;
    struct dp_sim_layer sum = sum_layers(layer, live, l->cut[s], l->cut[s + 1]);
    uint32_t first = o->begin[s], end = o->begin[s + 1];

    for (uint32_t mb = 0; s + 1 < l->n_stages && mb < dp_sim_program_pairs(out->program, s); mb++) {
        uint32_t from = l->used[dp_sim_program_device(out->program, s, mb)], to = l->used[dp_sim_program_device(out->program, s + 1, mb)];

        out->link[dp_sim_program_link(out->program, s, mb)] = link_behind(layer, l, s, dp_sim_tier_between(c, 0, from, to));
    }
    for (uint32_t d = first; d < end; d++)
        if (dp_sim_node(c, 0, l->used[d]) != dp_sim_node(c, 0, l->used[first]))
            ring = &c->between;
    for (uint32_t d = first; d < end; d++)
        out->reduce_ns[d] = ring_ns(c, ring, end - first, sum.grad_bytes);
}

int dp_sim_stages_fill(const struct dp_sim_case *c, const struct dp_sim_layer *layer, const struct dp_sim_layout *l,
                       struct dp_sim_stages *s, struct dp_err *err)
{
    uint32_t v = l->n_used * c->chunks, live = dp_sim_forward_only(layer, c->n_layers);

    if (make_program(c, l->n_used, s, err) < 0)
        return -1;
    for (uint32_t k = 0; k < v; k++) {
        uint32_t stage = l->stage_of[k], device = l->used[k % l->n_used], next = l->used[(k + 1) % l->n_used];
        struct dp_sim_layer sum = sum_layers(layer, live, l->cut[stage], l->cut[stage + 1]);

        add_messages(layer, live, l, &sum, stage);
        for (uint32_t r = 0; r < c->replicas; r++) {
            s->stage[(size_t)r * v + k] = on_device(c, &sum, r, device);
            if (!c->width)
                s->link[(size_t)r * v + k] = link_behind(layer, l, k, dp_sim_tier_between(c, r, device, next));
        }
        s->reduce_ns[k] = reduce_ns(c, device, sum.grad_bytes);
    }
    for (uint32_t stage = 0; c->width && stage < l->n_stages; stage++)
        join_devices(c, layer, live, l, stage, s);
    s->in = (struct dp_sim_in){
        .program = s->program,
        .replicas = c->replicas,
        .stage = s->stage,
        .link = s->link,
        .reduce_ns = c->replicas > 1 || c->width ? s->reduce_ns : NULL,
        .buckets = c->buckets,
        .norm_ns = norm_ns(c, l),
    };
    return check_length(c, &s->in, v, err);
}
