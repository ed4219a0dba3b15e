/* SPDX-License-Identifier: BSD-3-Clause */
/* HetPipe's virtual workers: what is asked, their plans, and what the answer tells of them. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show/json.h"

int dp_plan_workers_take(const struct dp_cli *cli, struct dp_plan_problem *q, struct dp_err *err)
{
    if (q->algorithm != DP_PLAN_HETPIPE)
        return cli->virtual_workers ? dp_err_set(err, DP_EINVAL, "--virtual-workers: only with --algorithm=hetpipe") : 0;
    if (cli->virtual_workers && dp_hetpipe_parse(cli->virtual_workers, &q->workers_rule, &q->n_workers, err) < 0)
        return dp_err_prefix(err, "--virtual-workers=%s", cli->virtual_workers);
    q->hetpipe = calloc(1, sizeof *q->hetpipe);
    return q->hetpipe ? 0 : dp_err_set(err, DP_ENOMEM, "virtual workers: out of memory");
}

void dp_plan_workers_release(struct dp_plan_problem *q)
{
    if (q->hetpipe)
        dp_hetpipe_release(q->hetpipe);
    free(q->hetpipe);
    q->hetpipe = NULL;
}

/* Of n that go at the same pace. */
static uint64_t share(uint64_t ns, uint32_t n)
{
    return (ns + n - 1) / n;
}

/* The plan of one virtual worker as that of all. */
static int take_slowest(const struct dp_graph *g, const struct dp_hetpipe *h, struct dp_graph_plan *p, struct dp_err *err)
{
    const struct dp_graph_plan *from = &h->kind[h->slowest].plan;

    *p = *from;
    p->stage = calloc((size_t)from->n_stages + 1, sizeof *p->stage);
    p->stage_of = calloc((size_t)g->n_nodes + 1, sizeof *p->stage_of);
    if (!p->stage || !p->stage_of)
        return dp_err_set(err, DP_ENOMEM, "plan: out of memory");
    memcpy(p->stage, from->stage, from->n_stages * sizeof *p->stage);
    memcpy(p->stage_of, from->stage_of, g->n_nodes * sizeof *p->stage_of);
    for (uint32_t s = 0; s < p->n_stages; s++)
        p->stage[s].load_ns = share(p->stage[s].load_ns, h->n);
    return 0;
}

int dp_plan_workers_find(const struct dp_plan_problem *q, const struct dp_graph *g, const struct dp_plan_watch *watch,
                         struct dp_graph_plan *p, struct dp_err *err)
{
    const struct dp_plan_hierarchical net = {.microbatches = dp_plan_microbatches(q), .watch = watch};
    const struct dp_paper_ask ask = {.net = &net, .classes = &q->classes};
    struct dp_hetpipe *h = q->hetpipe;
    double speed = 0;

    dp_hetpipe_release(h);
    if (dp_hetpipe_find(g, &ask, q->workers_rule, q->n_workers, h, err) < 0 || take_slowest(g, h, p, err) < 0)
        return -1;
    p->algorithm = DP_PLAN_HETPIPE;
    p->load_ns = h->load_ns;
    p->is_optimal = false; /* the parts are three rules' */
    p->n_devices = 0;
    p->single_ns = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        p->single_ns += g->node[i].is_input ? 0 : dp_graph_accel_ns(&g->node[i]);
    p->bound_ns = (uint64_t)((double)p->single_ns / dp_classes_speed(&q->classes));
    p->bound_by = DP_PLAN_BOUND_WORK;
    for (uint32_t i = 0; i < q->classes.n; i++)
        speed = q->classes.of[i].speed > speed ? q->classes.of[i].speed : speed;
    p->single_ns = dp_plan_time_ns(p->single_ns, speed);
    for (uint32_t i = 0; i < h->n_kinds; i++)
        p->n_devices += h->kind[i].n * h->kind[i].plan.n_devices;
    snprintf(p->why, sizeof p->why, "HetPipe: %u virtual workers by rule %s, at the pace of the slowest one, whose stages these are", h->n,
             dp_hetpipe_rule_name(h->rule));
    return 0;
}

json_t *dp_plan_workers_json(const struct dp_graph *g, const struct dp_plan_problem *q)
{
    const struct dp_hetpipe *h = q->hetpipe;
    json_t *o, *kinds = json_array();

    if (!h || !h->n) {
        json_decref(kinds);
        return json_null();
    }
    for (uint32_t i = 0; i < h->n_kinds; i++) {
        const struct dp_hetpipe_kind *k = &h->kind[i];

        o = json_object();
        json_object_set_new(o, "workers", json_integer(k->n));
        json_object_set_new(o, "classes", dp_plan_classes_json(&k->devices));
        json_object_set_new(o, "load_ns", json_integer((json_int_t)k->plan.load_ns));
        json_object_set_new(o, "stages", dp_plan_stages_json(g, q, &k->plan, &k->devices));
        json_array_append_new(kinds, o);
    }
    o = json_object();
    json_object_set_new(o, "rule", json_string(dp_hetpipe_rule_name(h->rule)));
    json_object_set_new(o, "number", json_integer(h->n));
    json_object_set_new(o, "kinds", kinds);
    return o;
}

void dp_plan_show_workers(struct dp_canvas *c, size_t indent, const json_t *workers)
{
    char line[512], classes[256], rule[8];
    const json_t *k;
    size_t i;

    json_array_foreach((json_t *)dp_json_list(workers, "kinds"), i, k)
    {
        dp_plan_say_classes(classes, sizeof classes, dp_json_list(k, "classes"));
        snprintf(line, sizeof line, "%.0f by %s: %s; a microbatch in %.4g ms", dp_json_number(k, "workers"),
                 dp_json_text(rule, sizeof rule, workers, "rule", "?"), classes, dp_json_number(k, "load_ns") / 1e6);
        dp_canvas_put(c, DP_DIM, "%s", i ? "" : "workers");
        dp_canvas_to(c, indent);
        dp_canvas_wrap(c, indent, DP_PLAIN, 4, line);
    }
}
