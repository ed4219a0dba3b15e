/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph file (policies/graph) as a case: it is planned, and the plan's stages become the layout. A layer
 * is a unit of the graph, what no plan parts; layers are ordered by stage, and within a stage as no edge
 * contradicts, so that policies can cut them anew.
 *
 * A border passes on whatever some unit before it puts out and some unit behind it takes, once,
 * however far it goes. A profile knows bytes: they go over the links. A file of costs knows the time that
 * each end of a transfer takes of its device, forward and backward together: half of it is booked on each way.
 */
#include "policies/sim/case/read_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/read/read.h"
#include "policies/graph/units.h"

#define DEFAULT_BYTES_PER_S 12e9 /* as dynpipe plan has it: PCIe 3.0 x16 */
#define MOST_BYTES 1e18 /* of all state together, or one number of a layer: below 2^62, so that no sum overflows */

static int no_memory(const struct dp_graph *g, struct dp_err *err)
{
    return dp_err_set(err, DP_ENOMEM, "graph of %u nodes: out of memory", g->n_nodes);
}

/* The stage of a unit is that of any of its nodes. */
int dp_sim_place_units(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_units *u, uint32_t *place,
                       uint32_t *count, struct dp_err *err)
{
    uint32_t *stage = calloc((size_t)u->n + 1, sizeof *stage), *next = calloc((size_t)p->n_stages + 1, sizeof *next);

    if (!stage || !next) {
        free(stage);
        free(next);
        return no_memory(g, err);
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (u->unit_of[i] != DP_NO_UNIT)
            stage[u->unit_of[i]] = p->stage_of[i];
    for (uint32_t i = 0; i < u->n; i++)
        next[stage[i] + 1]++;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        count[s] += next[s + 1];
        next[s + 1] += next[s];
    }
    for (uint32_t i = 0; i < u->n; i++)
        place[i] = next[stage[i]]++;
    free(stage);
    free(next);
    return 0;
}

/* Does the plan count transfers as time of its devices? Else they go over links. */
static bool is_busy_sending(const struct dp_graph_plan *p)
{
    return !dp_plan_has_links(p->algorithm);
}

static void add_node(const struct dp_graph *g, const struct dp_graph_plan *p, uint32_t i, struct dp_sim_layer *l)
{
    const struct dp_graph_node *n = &g->node[i];
    bool is_on_cpu = p->stage[p->stage_of[i]].is_cpu;

    l->fwd_ns += !is_on_cpu ? n->forward_ns : n->is_backward ? 0 : n->cpu_ns;
    l->bwd_input_ns += !is_on_cpu ? n->backward_ns : n->is_backward ? n->cpu_ns : 0;
    l->state_bytes += n->bytes + p->more_weights * n->param_bytes;
    l->act_bytes += n->kept_bytes;
    l->params += n->param_bytes / sizeof(float);
    l->grad_bytes += n->param_bytes;
}

/* What a node puts out passes the borders from its layer to the farthest one that takes it. passing[k]: change at
 * the border behind layer k. */
static void pass_on(const struct dp_graph *g, bool as_time, const struct dp_units *u, const uint32_t *place, int64_t *passing)
{
    for (uint32_t e = 0; e < g->n_edges;) {
        uint32_t from = g->edge[e].from, first, last;
        const struct dp_graph_node *n = &g->node[from];
        uint64_t cost = as_time ? n->send_ns : n->output_bytes;

        first = last = u->unit_of[from] == DP_NO_UNIT ? 0 : place[u->unit_of[from]];
        for (; e < g->n_edges && g->edge[e].from == from; e++) { /* edges are sorted */
            uint32_t unit = u->unit_of[g->edge[e].to], at = unit == DP_NO_UNIT ? first : place[unit];

            first = at < first ? at : first;
            last = at > last ? at : last;
        }
        if (u->unit_of[from] == DP_NO_UNIT)
            continue;
        passing[first] += (int64_t)cost;
        passing[last] -= (int64_t)cost;
    }
}

/* returns: false: more than can be simulated. */
static bool multiply(uint64_t *v, uint64_t times)
{
    if ((double)*v * (double)times > MOST_BYTES)
        return false;
    *v *= times;
    return true;
}

/* The plan's own: a stage goes forward again out of its inputs, and then keeps all of one microbatch; a microbatch is several of
 * the file. returns: false: more than can be simulated. */
static bool change_layers(const struct dp_graph_plan *p, const uint32_t *count, struct dp_sim_layer *layer)
{
    uint64_t each = p->microbatch > 1 ? p->microbatch : 1, inputs = 0;

    for (uint32_t s = 0, k = 0; s < p->n_stages; s++)
        for (uint32_t end = k + count[s]; k < end; k++) {
            struct dp_sim_layer *l = &layer[k];

            if (p->recomputes) {
                l->bwd_input_ns += l->fwd_ns;
                if (!multiply(&l->act_bytes, each))
                    return false;
                l->state_bytes += l->act_bytes;
                l->act_bytes = k + count[s] == end ? inputs : 0;
                l->wgrad_bytes = 0;
            }
            inputs = l->output_bytes;
            if (!multiply(&l->fwd_ns, each) || !multiply(&l->bwd_input_ns, each) || !multiply(&l->bwd_weight_ns, each) ||
                !multiply(&l->act_bytes, each) || !multiply(&l->wgrad_bytes, each) || !multiply(&l->output_bytes, each))
                return false;
        }
    return true;
}

static int fill_layers(const struct dp_graph *g, const struct dp_graph_plan *p, struct dp_sim_case *c, struct dp_err *err)
{
    struct dp_sim_event *e = c->event;
    struct dp_units u;
    uint32_t *place = NULL;
    int64_t *passing = NULL, now = 0;
    double state = 0;
    int rc = -1;

    if (dp_units_create(&u, g, err) < 0)
        return -1;
    c->n_layers = u.n;
    e->layer = calloc((size_t)u.n + 1, sizeof *e->layer);
    place = calloc((size_t)u.n + 1, sizeof *place);
    passing = calloc((size_t)u.n + 1, sizeof *passing);
    if (!e->layer || !place || !passing) {
        no_memory(g, err);
        goto out;
    }
    if (dp_sim_place_units(g, p, &u, place, e->count, err) < 0)
        goto out;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (u.unit_of[i] != DP_NO_UNIT)
            add_node(g, p, i, &e->layer[place[u.unit_of[i]]]);
    pass_on(g, is_busy_sending(p), &u, place, passing);
    for (uint32_t k = 0; k < u.n; k++) {
        struct dp_sim_layer *l = &e->layer[k];

        now += passing[k];
        if (is_busy_sending(p))
            l->message_ns = (uint64_t)now / 2;
        else
            l->output_bytes = (uint64_t)now;
        l->bwd_weight_ns = l->bwd_input_ns / 2;
        l->bwd_input_ns -= l->bwd_weight_ns;
        l->wgrad_bytes = l->act_bytes;
        l->nnz = l->params;
    }
    if (!change_layers(p, e->count, e->layer))
        state = INFINITY;
    for (uint32_t k = 0; k < u.n; k++)
        state += (double)e->layer[k].state_bytes;
    rc = state <= MOST_BYTES ? 0 : dp_err_set(err, DP_EINVAL, "%.3g bytes of state; at most %.3g can be simulated", state, MOST_BYTES);
out:
    free(place);
    free(passing);
    dp_units_release(&u);
    return rc;
}

static bool is_wide(const struct dp_graph_plan *p, const struct dp_plan_hierarchical *net)
{
    for (uint32_t s = 0; s < p->n_stages; s++)
        if (p->stage[s].replicas > 1)
            return true;
    return dp_plan_has_links(p->algorithm) && net->n_levels > 1; /* whose devices are not in a row */
}

/* Devices of each stage. Two levels: a group of stages has machines of its own, and on each of them every stage of it
 * as many devices; microbatches go round the machines first. */
static int place_replicas(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_plan_hierarchical *net,
                          struct dp_sim_case *c, struct dp_err *err)
{
    uint32_t machine = 0, slot = 0, n = 0;

    c->width = calloc(p->n_stages, sizeof *c->width);
    c->place = calloc(p->n_devices, sizeof *c->place);
    if (!c->width || !c->place)
        return no_memory(g, err);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const struct dp_graph_stage *t = &p->stage[s];
        uint32_t machines = net->n_levels > 1 ? t->machines : 1;

        if (s && t->group != t[-1].group) {
            machine += t[-1].machines;
            slot = 0;
        }
        c->width[s] = t->replicas;
        for (uint32_t i = 0; i < t->replicas; i++)
            c->place[n++] = (machine + i % machines) * net->devices[0] + slot + i / machines;
        slot += t->replicas / machines;
    }
    if (net->n_levels > 1) {
        c->devices_per_node = net->devices[0];
        c->between.bytes_per_s = net->bytes_per_s[1];
    }
    return 0;
}

/* Some for each device, and the same number for every replica of a stage where that is not many more. */
static uint32_t choose_microbatches(const struct dp_graph_plan *p, uint32_t devices)
{
    uint64_t least = (uint64_t)DP_PLAN_MICROBATCHES * devices, n = 1;

    for (uint32_t s = 0; s < p->n_stages && n <= 4 * least; s++) {
        uint64_t a = n, b = p->stage[s].replicas;

        while (b) {
            uint64_t rest = a % b;

            a = b;
            b = rest;
        }
        n *= p->stage[s].replicas / a;
    }
    n = n <= 4 * least ? (least + n - 1) / n * n : least;
    n = n > DP_SIM_MAX_MICROBATCHES ? least : n;
    return n < DP_SIM_MAX_MICROBATCHES ? (uint32_t)n : DP_SIM_MAX_MICROBATCHES;
}

/* Device i of the case has stage i of the plan. CPUs have times of their own. */
static int take_speeds(const struct dp_graph *g, const struct dp_graph_plan *p, const double *speed, struct dp_sim_case *c,
                       struct dp_err *err)
{
    c->speed = calloc((size_t)c->devices * c->replicas, sizeof *c->speed);
    if (!c->speed)
        return no_memory(g, err);
    for (uint32_t i = 0; i < c->devices * c->replicas; i++)
        c->speed[i] = i < p->n_stages && !p->stage[i].is_cpu ? speed[p->stage[i].accelerator] : 1;
    return 0;
}

/* What was assumed of what the file does not say. */
static const char *source_text(const struct dp_graph *g)
{
    if (g->is_piper)
        return "a file of Piper: a third of a layer's time is forward, half of its backward is the gradient of the weights";
    if (g->kind == DP_GRAPH_PROFILE)
        return "a profile: half of a backward is the gradient of the weights, state is 4 times the parameters";
    return "a file of costs: half of each transfer is forward, half backward";
}

int dp_sim_from_plan(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_plan_hierarchical *net, const double *speed,
                     struct dp_sim_case *c, struct dp_err *err)
{
    bool wide = is_wide(p, net);
    uint32_t most = wide ? p->n_stages : c->devices * c->chunks;
    struct dp_sim_event *e = calloc(1, sizeof *e);

    if (!e)
        return no_memory(g, err);
    c->event = e;
    c->n_events = 1;
    e->iteration = 1;
    e->has_pause = true;
    if (p->n_stages > most || (c->chunks > 1 && p->n_stages != most))
        return dp_err_set(err, DP_EINVAL, "the plan has %u stages for %u devices of %u chunks", p->n_stages, c->devices, c->chunks);
    e->n_count = most;
    e->count = calloc(most, sizeof *e->count);
    c->count = calloc(most, sizeof *c->count);
    if (!e->count || !c->count)
        return no_memory(g, err);
    if (!c->microbatches)
        c->microbatches = choose_microbatches(p, wide ? p->n_devices : c->devices);
    if (p->microbatch > 1)
        c->microbatches = (c->microbatches + p->microbatch - 1) / p->microbatch;
    c->inside.bytes_per_s = c->between.bytes_per_s = is_busy_sending(p) ? 0 : net->bytes_per_s[0];
    if (speed && take_speeds(g, p, speed, c, err) < 0)
        return -1;
    if ((wide && place_replicas(g, p, net, c, err) < 0) || fill_layers(g, p, c, err) < 0)
        return -1;
    c->n_count = most;
    memcpy(c->count, e->count, most * sizeof *c->count);
    snprintf(c->name, sizeof c->name, "graph of %u nodes in %u stages", g->n_nodes, p->n_stages);
    snprintf(c->source, sizeof c->source, "%s; %s", source_text(g), p->why);
    return 0;
}

static int plan(struct dp_graph *g, const struct dp_plan_hierarchical *net, struct dp_graph_plan *p, struct dp_err *err)
{
    if (g->kind == DP_GRAPH_PROFILE)
        return dp_plan_hierarchical_find(g, net, p, err);
    return dp_plan_maxload_find(g, &(struct dp_plan_maxload){.n_accel = net->devices[0], .accel_bytes = g->accel_bytes}, p, err);
}

static int take_shape(const struct dp_graph *g, const struct dp_sim_override *with, struct dp_sim_case *c, struct dp_err *err)
{
    c->devices = with && with->devices ? with->devices : g->n_accel;
    c->chunks = with && with->chunks ? with->chunks : 1;
    c->replicas = with && with->replicas ? with->replicas : 1;
    c->buckets = with && with->buckets ? with->buckets : 1;
    if (!c->devices)
        return dp_err_set(err, DP_EINVAL, "the graph does not say how many devices there are; use --devices=N");
    if (dp_sim_case_check_shape(c, err) < 0)
        return -1;
    c->iterations = 1;
    c->microbatches = with && with->microbatches ? with->microbatches : g->microbatches;
    return with && with->schedule ? dp_schedule_find(with->schedule, &c->schedule, err) : 0;
}

/* May stages have replicas? Not where something is asked for that only pipelines of single devices know. */
static bool may_replicate(const struct dp_sim_override *with, const struct dp_sim_case *c)
{
    bool wants_single = with && (with->is_straight || with->policy || with->change);

    return !wants_single && c->chunks == 1 && c->replicas == 1 && dp_schedules[c->schedule].rule->has_shares;
}

int dp_sim_read_graph(const char *name, const char *text, size_t bytes, const struct dp_sim_override *with, struct dp_sim_case *c,
                      struct dp_err *err)
{
    struct dp_plan_hierarchical net = {.n_levels = 1, .accel_bytes = UINT64_MAX};
    struct dp_graph_plan p = {0};
    struct dp_graph g;
    int rc = dp_graph_parse(name, text, bytes, &g, err);

    if (rc == 0) {
        rc = take_shape(&g, with, c, err);
        net.devices[0] = c->devices * c->chunks;
        net.bytes_per_s[0] = with && with->bytes_per_s > 0 ? with->bytes_per_s : g.bytes_per_s > 0 ? g.bytes_per_s : DEFAULT_BYTES_PER_S;
        net.accel_bytes = g.accel_bytes;
        net.is_straight = !may_replicate(with, c);
        if (with && with->devices_per_node && !net.is_straight && net.accel_bytes == UINT64_MAX) {
            net.n_levels = 2; /* machines of so many */
            net.devices[1] = net.devices[0] / with->devices_per_node;
            net.devices[0] = with->devices_per_node;
            net.bytes_per_s[1] = net.bytes_per_s[0];
        }
        net.microbatches = c->microbatches ? c->microbatches : DP_PLAN_MICROBATCHES * c->devices * c->chunks;
        if (rc == 0)
            rc = plan(&g, &net, &p, err);
        if (rc == 0)
            rc = dp_sim_from_plan(&g, &p, &net, NULL, c, err);
        if (rc < 0)
            dp_err_prefix(err, "%s", name);
    }
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
    return rc;
}
