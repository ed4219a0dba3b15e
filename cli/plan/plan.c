/* SPDX-License-Identifier: BSD-3-Clause */
/* dynpipe plan: which nodes of a graph to which devices, and what to expect of it. The work is done in
 * policies/graph; this file asks, and puts the answer into a document. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/json.h"
#include "policies/graph/papers/papers.h"
#include "policies/graph/read/read.h"
#include "policies/saving/saving_json.h"
#include "policies/sim/case/read_graph.h"
#include "policies/sim/replan.h"
#include "policies/sim/run.h"

/* A list of names for each stage. */
static void add_names(const struct dp_graph *g, const struct dp_graph_plan *p, json_t *stages)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        json_t *name = json_string(g->node[i].name); /* NULL where it is no UTF-8 */

        json_array_append_new(json_object_get(json_array_get(stages, p->stage_of[i]), "nodes"), name ? name : json_sprintf("#%u", i));
    }
}

static void set_ns(json_t *o, const char *key, uint64_t ns)
{
    json_object_set_new(o, key, ns ? json_integer((json_int_t)ns) : json_null());
}

json_t *dp_plan_stages_json(const struct dp_graph *g, const struct dp_plan_problem *q, const struct dp_graph_plan *p,
                            const struct dp_classes *classes)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->n_stages; i++) {
        const struct dp_graph_stage *s = &p->stage[i];
        json_t *o = json_pack("{s:i, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "stage", (int)i, "device",
                              s->is_cpu ? "cpu" : "accelerator", "replicas", (int)s->replicas, "machines",
                              (int)s->machines, "compute_ns", (json_int_t)s->compute_ns, "traffic_ns",
                              (json_int_t)s->traffic_ns, "sync_ns", (json_int_t)s->sync_ns, "load_ns",
                              (json_int_t)s->load_ns, "memory_bytes", (json_int_t)s->bytes);

        if (classes->n)
            json_object_set_new(o, "class", json_string(classes->of[s->device_class].name));
        if (q->speed && !s->is_cpu) {
            json_object_set_new(o, "accelerator", json_integer(s->accelerator));
            json_object_set_new(o, "speed", json_real(q->speed[s->accelerator]));
        }
        json_object_set_new(o, "load_percent",
                            json_real(p->load_ns ? 100.0 * (double)s->load_ns / (double)p->load_ns : 0.0));
        json_object_set_new(o, "nodes", json_array());
        json_array_append_new(list, o);
    }
    add_names(g, p, list);
    return list;
}

static json_t *devices(const struct dp_graph *g, const struct dp_plan_problem *q)
{
    json_t *o = json_object(), *bandwidth = json_array(), *speed = json_array(), *latency = json_array();

    json_object_set_new(
        o, "accelerators",
        json_integer(q->n_levels > 1 ? (json_int_t)q->devices[0] * q->devices[1] : q->devices[0]));
    json_object_set_new(o, "machines", json_integer(q->n_levels > 1 ? q->devices[1] : 1));
    json_object_set_new(o, "cpus", json_integer(q->n_cpus));
    json_object_set_new(o, "memory_bytes",
                        q->memory_bytes == UINT64_MAX || q->classes.n ? json_null()
                                                      : json_integer((json_int_t)q->memory_bytes));
    for (uint32_t l = 0; g->kind == DP_GRAPH_PROFILE && !q->classes.n && l < q->n_levels; l++)
        json_array_append_new(bandwidth, json_real(q->bytes_per_s[l]));
    for (uint32_t i = 0; q->speed && i < q->devices[0]; i++)
        json_array_append_new(speed, json_real(q->speed[i]));
    json_object_set_new(o, "speed", speed);
    json_object_set_new(o, "bandwidth_bytes_per_s", bandwidth);
    for (uint32_t l = 0; l < q->n_levels; l++)
        json_array_append_new(latency, json_real((double)q->latency_ns[l] * 1e-3));
    json_object_set_new(o, "latency_us", latency);
    json_object_set_new(o, "bandwidth_is_default",
                        json_boolean(g->kind == DP_GRAPH_PROFILE && !q->has_bandwidth && !(g->bytes_per_s > 0) && !q->is_described));
    json_object_set_new(o, "classes", dp_plan_classes_json(&q->classes));
    json_object_set_new(o, "between_bytes_per_s", q->classes.n ? json_real(q->classes.between_bytes_per_s) : json_null());
    return o;
}

static int take_iteration(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    json_t *o = arg;
    double bubble = 0;

    (void)err;
    for (uint32_t i = 0; i < p->layout->n_used; i++)
        bubble += p->out->device[i].bubble / p->layout->n_used;
    json_object_set_new(o, "iteration_ns", json_integer((json_int_t)p->out->iteration_ns));
    json_object_set_new(o, "lower_bound_ns", json_integer((json_int_t)dp_sim_lower_bound(p->in)));
    json_object_set_new(o, "bubble_percent", json_real(100 * bubble));
    return 0;
}

uint32_t dp_plan_microbatches(const struct dp_plan_problem *q)
{
    return q->microbatches ? q->microbatches : DP_PLAN_MICROBATCHES * q->devices[0] * (q->n_levels > 1 ? q->devices[1] : 1);
}

bool dp_plan_has_latency(const struct dp_plan_problem *q)
{
    return q->latency_ns[0] || (q->n_levels > 1 && q->latency_ns[1]);
}

struct dp_plan_hierarchical dp_plan_network(const struct dp_plan_problem *q)
{
    struct dp_plan_hierarchical h = {.n_levels = q->n_levels, .accel_bytes = q->memory_bytes, .is_straight = q->is_straight};

    memcpy(h.devices, q->devices, sizeof h.devices);
    memcpy(h.bytes_per_s, q->bytes_per_s, sizeof h.bytes_per_s);
    h.microbatches = dp_plan_microbatches(q);
    return h;
}

/* One iteration of 1F1B, as the simulator sees it: filling and draining the pipeline, transfers on links, gradients
 * of replicas once. microbatches: =. returns 0, or -1: too large. */
static int simulate(const struct dp_graph *g, const struct dp_plan_problem *q, const struct dp_graph_plan *p,
                    dp_sim_phase_fn on_phase, void *arg, uint32_t *microbatches)
{
    const struct dp_plan_hierarchical net = dp_plan_network(q);
    uint32_t devices = !dp_plan_has_links(p->algorithm) ? p->n_stages : q->devices[0] * (q->n_levels > 1 ? q->devices[1] : 1);
    struct dp_sim_case c = {.schedule = DP_SCHED_1F1B, .devices = devices, .chunks = 1, .replicas = 1, .buckets = 1,
                            .iterations = 1, .microbatches = q->microbatches};
    struct dp_sim_totals totals;
    struct dp_err err;
    int rc;

    if (q->classes.n) /* whose links differ */
        return -1;
    c.inside.latency_ns = q->latency_ns[0];
    c.between.latency_ns = q->latency_ns[q->n_levels > 1];
    rc = dp_sim_from_plan(g, p, &net, q->speed, &c, &err);
    if (rc == 0)
        rc = dp_sim_case_check(&c, &err);
    if (rc == 0)
        rc = dp_sim_run(&c, on_phase, arg, &totals, &err);
    *microbatches = c.microbatches;
    dp_sim_case_release(&c);
    return rc;
}

static json_t *prediction(const struct dp_graph *g, const struct dp_plan_problem *q, const struct dp_graph_plan *p)
{
    json_t *o = json_object();
    uint32_t microbatches;

    if (simulate(g, q, p, take_iteration, o, &microbatches) < 0) {
        json_decref(o);
        return json_null();
    }
    json_object_set_new(o, "schedule", json_string("1f1b"));
    json_object_set_new(o, "microbatches", json_integer(microbatches));
    return o;
}

static int note_iteration(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    (void)err;
    *(uint64_t *)arg = p->out->iteration_ns;
    return 0;
}

uint64_t dp_plan_iteration_ns(const struct dp_graph *g, const struct dp_plan_problem *q, const struct dp_graph_plan *p)
{
    uint32_t microbatches;
    uint64_t ns = 0;

    return simulate(g, q, p, note_iteration, &ns, &microbatches) < 0 ? 0 : ns;
}

/* Its name, where the bound comes from a node. */
static json_t *bound_node(const struct dp_graph *g, const struct dp_graph_plan *p)
{
    json_t *name = p->bound_by == DP_PLAN_BOUND_STAGE ? json_string(g->node[p->bound_node].name) : NULL;

    return name ? name : json_null();
}

json_t *dp_plan_document(const struct dp_cli *cli, const struct dp_graph *g, const struct dp_plan_problem *q,
                         const struct dp_graph_plan *p, const struct dp_trade *trade, json_t *costs)
{
    json_t *o = json_object(), *file = json_string(cli->file), *policy = cli->policy ? json_string(cli->policy) : NULL;
    const struct dp_classes *classes = q->hetpipe ? &q->hetpipe->kind[q->hetpipe->slowest].devices : &q->classes;
    double load = (double)p->load_ns;

    json_object_set_new(o, "file", file ? file : json_null());
    json_object_set_new(o, "format", json_string(g->is_piper ? "piper" : g->kind == DP_GRAPH_PROFILE ? "profile" : "costs"));
    json_object_set_new(o, "nodes", json_integer(g->n_nodes));
    json_object_set_new(o, "edges", json_integer(g->n_edges));
    json_object_set_new(o, "units", json_integer(p->n_units));
    json_object_set_new(o, "ideals", p->n_ideals ? json_integer(p->n_ideals) : json_null());
    json_object_set_new(o, "devices", devices(g, q));
    json_object_set(o, "costs", costs ? costs : json_null());
    json_object_set_new(o, "algorithm", json_string(dp_plan_algorithm_name(p->algorithm)));
    json_object_set_new(o, "policy", policy ? policy : json_null());
    json_object_set_new(o, "is_optimal", json_boolean(p->is_optimal));
    json_object_set_new(o, "was_ended", json_boolean(p->was_ended));
    set_ns(o, "load_ns", p->load_ns);
    set_ns(o, "bound_ns", p->bound_ns);
    json_object_set_new(o, "bound_by", json_string(dp_plan_bound_name(p->bound_by)));
    json_object_set_new(o, "bound_node", bound_node(g, p));
    json_object_set_new(o, "objective", json_string(p->objective_ns ? "paper" : q->for_iteration ? "iteration" : "load"));
    set_ns(o, "objective_ns", p->objective_ns);
    json_object_set_new(o, "microbatch", json_integer(p->microbatch ? p->microbatch : 1));
    json_object_set_new(o, "recomputes", json_boolean(p->recomputes));
    json_object_set_new(o, "weight_versions", json_integer(1 + (json_int_t)p->more_weights));
    json_object_set_new(o, "gap_percent",
                        p->load_ns ? json_real(100.0 * (load - (double)p->bound_ns) / load) : json_null());
    set_ns(o, "single_device_ns", p->single_ns);
    set_ns(o, "data_parallel_ns", p->data_parallel_ns);
    set_ns(o, "line_ns", p->line_ns);
    json_object_set_new(o, "orders", json_integer(p->n_orders));
    json_object_set_new(o, "networks", dp_plan_networks_json(q, p));
    json_object_set_new(o, "seed", json_integer((json_int_t)q->seed));
    json_object_set_new(o, "speedup", p->load_ns ? json_real((double)p->single_ns / load) : json_null());
    json_object_set_new(o, "speedup_over_data_parallel",
                        p->data_parallel_ns && p->load_ns ? json_real((double)p->data_parallel_ns / load)
                                                          : json_null());
    json_object_set_new(o, "devices_used", json_integer(p->n_devices));
    json_object_set_new(o, "prediction", prediction(g, q, p));
    json_object_set_new(o, "trade", trade ? dp_trade_json(trade) : json_null());
    json_object_set_new(o, "trade_microbatches", trade ? json_integer(dp_plan_microbatches(q)) : json_null());
    json_object_set_new(o, "why", json_string(p->why));
    json_object_set_new(o, "virtual_workers", dp_plan_workers_json(g, q));
    json_object_set_new(o, "stages", dp_plan_stages_json(g, q, p, classes));
    return o;
}

int dp_plan_search(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_graph_plan *p, struct dp_err *err)
{
    uint64_t max_steps = q->time_limit_s > 0 ? UINT64_MAX : 0; /* who waits so long wants it searched */
    struct dp_plan_patience patience;
    struct dp_plan_maxload ask = {.algorithm = q->algorithm,
                                  .n_accel = q->devices[0],
                                  .n_cpus = q->n_cpus,
                                  .speed = q->speed,
                                  .accel_bytes = q->memory_bytes,
                                  .max_steps = max_steps,
                                  .seed = q->seed,
                                  .search_steps = max_steps,
                                  .source = dp_plan_source(q),
                                  .placer = dp_plan_placer(q),
                                  .watch = &patience.watch};

    dp_plan_patience_init(&patience, q->time_limit_s);
    if (q->algorithm == DP_PLAN_HIERARCHICAL) {
        struct dp_plan_hierarchical h = dp_plan_network(q);

        h.max_steps = h.search_steps = max_steps;
        h.seed = q->seed;
        h.source = dp_plan_source(q);
        h.watch = &patience.watch;
        return dp_plan_hierarchical_find(g, &h, p, err);
    }
    if (q->hetpipe)
        return dp_plan_workers_find(q, g, &patience.watch, p, err);
    if (dp_paper_is(q->algorithm)) {
        struct dp_plan_hierarchical h = dp_plan_network(q);
        const struct dp_paper_ask paper = {
            .net = &h, .latency_ns = q->latency_ns[0], .classes = q->classes.n ? &q->classes : NULL};

        h.watch = &patience.watch;
        if (dp_paper_find(g, q->algorithm, &paper, p, err) < 0)
            return -1;
        if (p->way_of)
            dp_graph_take_ways(g, p->way_of);
        return 0;
    }
    if (g->kind == DP_GRAPH_PROFILE && dp_graph_set_bandwidth(g, q->bytes_per_s[0], err) < 0)
        return -1;
    return dp_plan_maxload_find(g, &ask, p, err);
}

int dp_plan_solve(const struct dp_plan_problem *q, struct dp_graph *g, struct dp_graph_plan *p, struct dp_err *err)
{
    const struct dp_plan_hierarchical net = dp_plan_network(q);
    const struct dp_sim_replan ask = {.policy = q->policy.name,
                                      .own = q->policy.own,
                                      .own_state = q->policy.own_state,
                                      .devices = q->devices[0],
                                      .microbatches = dp_plan_microbatches(q),
                                      .latency_ns = q->latency_ns[0],
                                      .accel_bytes = q->memory_bytes};

    if (q->for_iteration)
        return dp_plan_for_iteration(q, g, p, err);
    if (dp_plan_search(q, g, p, err) < 0)
        return -1;
    return ask.policy ? dp_sim_replan_run(g, &net, &ask, p, err) : 0;
}

enum dp_exit dp_cmd_plan(const struct dp_cli *cli)
{
    enum dp_exit code = DP_EXIT_OK;
    struct dp_plan_problem q = {0};
    struct dp_graph_plan p = {0};
    struct dp_trade trade;
    struct dp_graph g;
    struct dp_err err;
    json_t *doc, *costs = NULL;

    if (cli->algorithm && !strcmp(cli->algorithm, "help")) { /* names first: for shell completion, too */
        for (int a = 0; a < DP_PLAN_N; a++)
            printf("%-21s %s\n", dp_plan_algorithm_name((enum dp_plan_algorithm)a), dp_plan_algorithm_help((enum dp_plan_algorithm)a));
        return DP_EXIT_OK;
    }
    if (cli->costs && !strcmp(cli->costs, "help")) {
        dp_plan_costs_help();
        return DP_EXIT_OK;
    }
    if (cli->device && !strcmp(cli->device, "help"))
        return dp_plan_devices_help(&err) < 0 ? dp_cmd_fail(cli, &err) : DP_EXIT_OK;
    if (dp_plan_costs_check(cli, &err) < 0) {
        dp_cmd_fail(cli, &err);
        return DP_EXIT_USAGE;
    }
    if (!cli->file) {
        dp_err_set(&err, DP_EINVAL, "no graph given; use `dynpipe plan FILE --devices=N`");
        dp_cmd_fail(cli, &err);
        return DP_EXIT_USAGE;
    }
    if (dp_graph_read(cli->file, &g, &err) < 0 || dp_plan_costs(cli, &g, &costs, &err) < 0)
        code = dp_cmd_fail(cli, &err);
    else if (dp_plan_ask(cli, &g, &q, &err) < 0) {
        dp_cmd_fail(cli, &err);
        code = DP_EXIT_USAGE;
    } else if (dp_plan_networks_read(cli, &q, &err) < 0)
        code = dp_cmd_fail(cli, &err);
    else if (dp_plan_solve(&q, &g, &p, &err) < 0)
        code = dp_cmd_fail(cli, &err);
    else if (p.load_ns == 0) {
        dp_err_set(&err, DP_EINVAL, "%s: no node takes any time: there is nothing to plan", cli->file);
        code = dp_cmd_fail(cli, &err);
    }
    if (code == DP_EXIT_OK) {
        if (cli->trade)
            dp_plan_trade(&q, &g, &trade);
        doc = dp_json_envelope("plan", "plan", dp_plan_document(cli, &g, &q, &p, cli->trade ? &trade : NULL, costs));
        if (cli->json)
            dp_json_print(doc, false);
        else
            dp_plan_show(cli, json_object_get(doc, "plan"));
        json_decref(doc);
    }
    free(q.speed);
    dp_plan_workers_release(&q);
    dp_plan_networks_release(&q);
    json_decref(costs);
    dp_graph_plan_release(&p);
    dp_graph_release(&g);
    return code;
}
