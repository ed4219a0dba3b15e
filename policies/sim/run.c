/* SPDX-License-Identifier: BSD-3-Clause */
/* See run.h. A stretch whose stages, links and layout are those of the one before is not simulated
 * again. */
#include "policies/sim/run.h"

#include <stdlib.h>
#include <string.h>

#include "policies/sim/balance.h"

struct run {
    const struct dp_sim_case *c;
    struct dp_sim_layer *layer; /* [n_layers] as they are now */
    double *density;            /* [n_layers] */
    struct dp_sim_layout layout, before;
    struct dp_sim_stages stages, last; /* last: what `out` was computed from */
    struct dp_sim_out out;
    bool has_out;
    uint32_t allowed;     /* devices of a pipeline that policies may use */
    bool *is_given_back;  /* [replicas * devices] by number */
    uint32_t held;
    struct dp_sim_phase phase;
};

static void run_release(struct run *r)
{
    free(r->layer);
    free(r->density);
    free(r->is_given_back);
    free(r->out.device);
    dp_sim_layout_release(&r->layout);
    dp_sim_layout_release(&r->before);
    dp_sim_stages_release(&r->stages);
    dp_sim_stages_release(&r->last);
}

static int run_init(struct run *r, const struct dp_sim_case *c, struct dp_err *err)
{
    size_t all = (size_t)c->replicas * c->devices;

    memset(r, 0, sizeof *r);
    r->c = c;
    r->allowed = c->devices;
    r->held = c->replicas * c->devices;
    r->layer = calloc(c->n_layers, sizeof *r->layer);
    r->density = calloc(c->n_layers, sizeof *r->density);
    r->is_given_back = calloc(all, sizeof *r->is_given_back);
    r->out.device = calloc(all, sizeof *r->out.device);
    if (!r->layer || !r->density || !r->is_given_back || !r->out.device)
        return dp_err_set(err, DP_ENOMEM, "run of %u layers on %zu devices: out of memory", c->n_layers, all);
    for (uint32_t i = 0; i < c->n_layers; i++)
        r->density[i] = 1.0;
    if (dp_sim_layout_create(c, &r->layout, err) < 0 || dp_sim_layout_create(c, &r->before, err) < 0)
        return -1;
    return dp_sim_stages_create(c, &r->stages, err) < 0 ? -1 : dp_sim_stages_create(c, &r->last, err);
}

static int set_costs(struct run *r, const struct dp_sim_event *e, struct dp_err *err)
{
    const struct dp_sim_case *c = r->c;

    for (uint32_t i = 0; e && e->has_density && i < c->n_layers; i++)
        r->density[i] = e->densities ? e->densities[i] : e->density;
    if (e && e->layer)
        memcpy(r->layer, e->layer, c->n_layers * sizeof *r->layer);
    if (!c->kind_of || (e && !e->has_density))
        return 0;
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (dp_sim_cost_at(&c->kind[c->kind_of[i]], r->density[i], &r->layer[i], err) < 0)
            return dp_err_prefix(err, "layer %u", i);
    return 0;
}

static double density_of(const struct run *r)
{
    double params = 0, left = 0;

    for (uint32_t i = 0; i < r->c->n_layers; i++) {
        params += (double)r->layer[i].params;
        left += (double)r->layer[i].nnz;
    }
    return params > 0 ? left / params : 1.0;
}

/* Time and bytes to take layers from where they are to where they shall be. Devices send and receive at
 * the same time, one layer after the other; replicas move theirs beside each other. */
static void price_the_move(struct run *r, double *busy_ns /* [2][devices] of zeros */)
{
    const struct dp_sim_case *c = r->c;
    double longest = 0;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        uint32_t from = dp_sim_layout_owner(&r->before, i), to = dp_sim_layout_owner(&r->layout, i);

        if (from == to)
            continue;
        r->phase.moved_layers++;
        r->phase.moved_bytes += r->layer[i].state_bytes;
    }
    for (uint32_t q = 0; q < c->replicas && r->phase.moved_layers; q++) {
        memset(busy_ns, 0, 2 * (size_t)c->devices * sizeof *busy_ns);
        for (uint32_t i = 0; i < c->n_layers; i++) {
            uint32_t from = dp_sim_layout_owner(&r->before, i), to = dp_sim_layout_owner(&r->layout, i);
            const struct dp_sim_tier *tier = dp_sim_tier_between(c, q, from, to);
            double ns = (double)(dp_sim_transfer_ns(tier, (double)r->layer[i].state_bytes) + tier->latency_ns);

            if (from == to)
                continue;
            busy_ns[from] += ns;
            busy_ns[c->devices + to] += ns;
        }
        for (uint32_t d = 0; d < 2 * c->devices; d++)
            longest = busy_ns[d] > longest ? busy_ns[d] : longest;
    }
    r->phase.pause_ns += longest < DP_SIM_LONGEST_NS ? (uint64_t)longest : (uint64_t)DP_SIM_LONGEST_NS;
}

static int move(struct run *r, const struct dp_sim_event *e, struct dp_err *err)
{
    const struct dp_sim_case *c = r->c;
    double *busy_ns;

    dp_sim_layout_copy(c, &r->layout, &r->before);
    r->phase.pause_ns += e->overhead_ns;
    if (e->devices)
        r->allowed = e->devices;
    if (e->count) {
        if (dp_sim_layout_set(c, e->count, e->n_count, &r->layout, err) < 0)
            return -1;
    } else if (e->policy[0]) {
        if (dp_sim_balance(c, r->layer, e->policy, r->allowed, &r->layout, err) < 0)
            return -1;
    }
    if (e->has_pause) {
        r->phase.pause_ns += e->pause_ns;
        return 0;
    }
    busy_ns = calloc(2 * (size_t)c->devices, sizeof *busy_ns);
    if (!busy_ns)
        return dp_err_set(err, DP_ENOMEM, "hand-over between %u devices: out of memory", c->devices);
    price_the_move(r, busy_ns);
    free(busy_ns);
    return 0;
}

static bool is_used(const struct run *r, uint32_t device)
{
    for (uint32_t i = 0; i < r->layout.n_used; i++)
        if (r->layout.used[i] == device)
            return true;
    return false;
}

/* Give back what owns nothing: single devices, or nodes on which no device owns anything. */
static int release(struct run *r, enum dp_sim_release how, struct dp_err *err)
{
    const struct dp_sim_case *c = r->c;
    uint32_t all = c->replicas * c->devices, nodes = c->devices_per_node ? (all - 1) / c->devices_per_node + 1 : 1;
    bool *is_busy = calloc(how == DP_SIM_RELEASE_NODES ? nodes : all, sizeof *is_busy);

    if (!is_busy)
        return dp_err_set(err, DP_ENOMEM, "release of devices: out of memory");
    for (uint32_t q = 0; q < c->replicas; q++)
        for (uint32_t i = 0; i < r->layout.n_used; i++) {
            uint32_t d = r->layout.used[i];

            is_busy[how == DP_SIM_RELEASE_NODES ? dp_sim_node(c, q, d) : dp_sim_device_number(c, q, d)] = true;
        }
    r->held = 0;
    for (uint32_t q = 0; q < c->replicas; q++)
        for (uint32_t d = 0; d < c->devices; d++) {
            uint32_t number = dp_sim_device_number(c, q, d);
            bool keeps = is_busy[how == DP_SIM_RELEASE_NODES ? dp_sim_node(c, q, d) : number];

            r->is_given_back[number] |= !keeps;
            r->held += !r->is_given_back[number];
        }
    free(is_busy);
    return 0;
}

static int check_given_back(const struct run *r, struct dp_err *err)
{
    const struct dp_sim_case *c = r->c;

    for (uint32_t q = 0; q < c->replicas; q++)
        for (uint32_t d = 0; d < c->devices; d++)
            if (r->is_given_back[dp_sim_device_number(c, q, d)] && is_used(r, d))
                return dp_err_set(err, DP_EINVAL, "the layout uses device %u, which was given back", d);
    return 0;
}

static int apply(struct run *r, const struct dp_sim_event *e, struct dp_err *err)
{
    if (set_costs(r, e, err) < 0 || move(r, e, err) < 0)
        return -1;
    if (r->held < r->c->replicas * r->c->devices && (e->count || e->policy[0]) && check_given_back(r, err) < 0)
        return -1;
    if (e->release != DP_SIM_RELEASE_NONE && release(r, e->release, err) < 0)
        return -1;
    if (e->measured_ns) {
        r->phase.measured_ns = e->measured_ns;
        r->phase.lost = e->lost;
    }
    return 0;
}

static bool is_same(const struct dp_sim_case *c, const struct dp_sim_stages *a, const struct dp_sim_stages *b)
{
    size_t v = (size_t)a->made_for * c->chunks;

    return a->made_for == b->made_for && !memcmp(a->stage, b->stage, c->replicas * v * sizeof *a->stage) &&
           !memcmp(a->link, b->link, c->replicas * v * sizeof *a->link) &&
           !memcmp(a->reduce_ns, b->reduce_ns, v * sizeof *a->reduce_ns) && a->in.norm_ns == b->in.norm_ns;
}

static void remember(const struct dp_sim_case *c, const struct dp_sim_stages *from, struct dp_sim_stages *to)
{
    size_t v = (size_t)from->made_for * c->chunks;

    to->made_for = from->made_for;
    to->in.norm_ns = from->in.norm_ns;
    memcpy(to->stage, from->stage, c->replicas * v * sizeof *to->stage);
    memcpy(to->link, from->link, c->replicas * v * sizeof *to->link);
    memcpy(to->reduce_ns, from->reduce_ns, v * sizeof *to->reduce_ns);
}

static int check_memory(const struct run *r, struct dp_err *err)
{
    for (uint32_t i = 0; r->c->memory_bytes && i < r->c->replicas * r->layout.n_used; i++)
        if (r->out.device[i].mem_bytes > r->c->memory_bytes)
            return dp_err_set(err, DP_ENOMEM, "device %u would need %.1f MiB of its %.1f MiB",
                              r->layout.used[i % r->layout.n_used], (double)r->out.device[i].mem_bytes / 1048576.0,
                              (double)r->c->memory_bytes / 1048576.0);
    return 0;
}

static int simulate(struct run *r, struct dp_sim_totals *t, struct dp_err *err)
{
    if (dp_sim_stages_fill(r->c, r->layer, &r->layout, &r->stages, err) < 0)
        return -1;
    if (r->has_out && is_same(r->c, &r->stages, &r->last))
        return 0;
    if (dp_sim_iterate(&r->stages.in, &r->out, err) < 0 || check_memory(r, err) < 0)
        return -1;
    r->has_out = !r->c->width; /* which has one stretch */
    if (r->has_out)
        remember(r->c, &r->stages, &r->last);
    t->simulated++;
    return 0;
}

/* Iterations first .. end - 1. */
static int stretch(struct run *r, uint64_t first, uint64_t end, dp_sim_phase_fn on_phase, void *arg, struct dp_sim_totals *t,
                   struct dp_err *err)
{
    struct dp_sim_phase *p = &r->phase;
    double iteration_s, pause_s = (double)p->pause_ns * 1e-9, tokens, time_s;

    if (simulate(r, t, err) < 0)
        return dp_err_prefix(err, "iteration %llu", (unsigned long long)first);
    iteration_s = (double)r->out.iteration_ns * 1e-9;
    tokens = (double)r->c->tokens * r->c->microbatches * r->c->replicas;
    time_s = pause_s + (double)(end - first) * iteration_s;
    p->first = first;
    p->n = end - first;
    p->layout = &r->layout;
    p->in = &r->stages.in;
    p->out = &r->out;
    p->held = r->held;
    p->density = density_of(r);
    p->tokens_per_s = iteration_s > 0 ? tokens / iteration_s : 0;
    p->device_s = r->held * time_s;
    t->iterations += p->n;
    t->time_s += time_s;
    t->pause_s += pause_s;
    t->tokens += tokens * (double)p->n;
    t->device_s += p->device_s;
    if (on_phase && on_phase(arg, p, err) < 0)
        return -1;
    p->pause_ns = p->moved_bytes = p->measured_ns = 0;
    p->moved_layers = 0;
    return 0;
}

static int all_stretches(struct run *r, dp_sim_phase_fn on_phase, void *arg, struct dp_sim_totals *t, struct dp_err *err)
{
    const struct dp_sim_case *c = r->c;
    uint64_t first = 1;

    for (uint32_t i = 0; i < c->n_events; i++) {
        const struct dp_sim_event *e = &c->event[i];

        if (e->iteration > first && stretch(r, first, e->iteration, on_phase, arg, t, err) < 0)
            return -1;
        first = e->iteration;
        if (apply(r, e, err) < 0)
            return dp_err_prefix(err, "event %u", i);
    }
    return stretch(r, first, c->iterations + 1, on_phase, arg, t, err);
}

/* The layout and the costs to begin with. In a recorded run both come with the event before iteration 1. */
static int begin(struct run *r, struct dp_err *err)
{
    const struct dp_sim_case *c = r->c;
    const struct dp_sim_event *e = c->n_events && c->event[0].iteration == 1 ? c->event : NULL;

    if (set_costs(r, NULL, err) < 0 || (e && e->layer && set_costs(r, e, err) < 0))
        return -1;
    if (c->count)
        return dp_sim_layout_set(c, c->count, c->n_count, &r->layout, err);
    return dp_sim_balance(c, r->layer, c->policy[0] ? c->policy : "uniform", c->devices, &r->layout, err);
}

int dp_sim_run(const struct dp_sim_case *c, dp_sim_phase_fn on_phase, void *arg, struct dp_sim_totals *out, struct dp_err *err)
{
    struct run r;
    int rc = run_init(&r, c, err);

    memset(out, 0, sizeof *out);
    if (rc == 0)
        rc = begin(&r, err);
    if (rc == 0)
        rc = all_stretches(&r, on_phase, arg, out, err);
    run_release(&r);
    return rc;
}
