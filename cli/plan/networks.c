/* SPDX-License-Identifier: BSD-3-Clause */
/* Networks that propose orders to the search of `dynpipe plan`, or one that places units itself: their file, and what the answer
 * tells of them. */
#include "config.h"

#include "cli/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/show/json.h"

int dp_plan_networks_read(const struct dp_cli *cli, struct dp_plan_problem *q, struct dp_err *err)
{
    struct dp_plan_networks *n;

    bool is_needed = q->algorithm == DP_PLAN_LEARNED || q->algorithm == DP_PLAN_DRL_PP, places = q->algorithm == DP_PLAN_DRL_PP;

    if (!cli->weights && !is_needed)
        return 0;
    n = q->networks = calloc(1, sizeof *n);
    if (!n)
        return dp_err_set(err, DP_ENOMEM, "networks: out of memory");
    if (cli->weights)
        snprintf(n->path, sizeof n->path, "%s", cli->weights);
    else
        dp_plan_data_file(places ? "parts.dpw" : "order.dpw", n->path, sizeof n->path);
    if (dp_weights_read(n->path, &n->weights, &n->err) == 0 &&
        dp_weights_want(n->path, &n->weights, places ? DP_WEIGHTS_PARTS : DP_WEIGHTS_ORDERS, &n->err) == 0) {
        if (places)
            n->placer = dp_weights_placer(&n->weights);
        else
            n->source = dp_weights_source(&n->weights);
        return 0;
    }
    dp_weights_release(&n->weights); /* it may know how many there should have been */
    if (!is_needed)
        return 0;
    *err = n->err;
    dp_err_prefix(err, "--algorithm=%s", dp_plan_algorithm_name(q->algorithm));
    return cli->weights ? -1
                        : dp_err_set(err, n->err.code, "%s; use --weights=FILE of `dynpipe learn %s-o FILE`", n->err.text,
                                     places ? "--method=drl-pp " : "");
}

void dp_plan_networks_release(struct dp_plan_problem *q)
{
    if (q->networks)
        dp_weights_release(&q->networks->weights);
    free(q->networks);
    q->networks = NULL;
}

const struct dp_order_source *dp_plan_source(const struct dp_plan_problem *q)
{
    return q->networks && q->networks->weights.net ? &q->networks->source : NULL;
}

const struct dp_place_source *dp_plan_placer(const struct dp_plan_problem *q)
{
    return q->networks && q->networks->weights.cutter ? &q->networks->placer : NULL;
}

json_t *dp_plan_networks_json(const struct dp_plan_problem *q, const struct dp_graph_plan *p)
{
    const struct dp_plan_networks *n = q->networks;
    json_t *o, *path;
    char crc[16];

    if (!n)
        return json_null();
    o = json_object();
    path = json_string(n->path); /* NULL where it is no UTF-8 */
    json_object_set_new(o, "file", path ? path : json_null());
    if (!n->weights.n) {
        json_object_set_new(o, "error", json_string(n->err.text));
        return o;
    }
    snprintf(crc, sizeof crc, "%08x", n->weights.crc);
    json_object_set_new(o, "error", json_null());
    json_object_set_new(o, "networks", json_integer(n->weights.n));
    json_object_set_new(o, "crc", json_string(crc));
    json_object_set_new(o, "seed", json_integer((json_int_t)n->weights.seed));
    json_object_set_new(o, "orders", n->weights.net ? json_integer(p->n_learned) : json_null());
    json_object_set_new(o, "best_ns", p->learned_ns ? json_integer((json_int_t)p->learned_ns) : json_null());
    return o;
}

void dp_plan_show_networks(struct dp_canvas *c, size_t indent, const json_t *networks)
{
    char file[256], why[512], line[800];
    double orders = dp_json_number(networks, "orders"), best = dp_json_number(networks, "best_ns");

    if (!networks || json_is_null(networks))
        return;
    dp_json_text(file, sizeof file, networks, "file", "?");
    if (json_is_string(dp_json_get(networks, "error")))
        snprintf(line, sizeof line, "not used: %s", dp_json_text(why, sizeof why, networks, "error", "?"));
    else if (!json_is_integer(dp_json_get(networks, "orders")))
        snprintf(line, sizeof line, "%s: it placed the units itself", file);
    else if (!(orders > 0))
        snprintf(line, sizeof line, "%s: no search for orders was needed", file);
    else if (best > 0)
        snprintf(line, sizeof line, "%s: %.0f orders, the best of them %.4g ms before units moved", file, orders, best / 1e6);
    else
        snprintf(line, sizeof line, "%s: %.0f orders, none as good as others", file, orders);
    dp_canvas_put(c, DP_DIM, "networks");
    dp_canvas_to(c, indent);
    dp_canvas_wrap(c, indent, DP_PLAIN, 4, line);
}
