/* SPDX-License-Identifier: BSD-3-Clause */
/* dnn-partitioning's JSON (msr-fiddle/dnn-partitioning, throughput-dp/dp.cpp):
 *
 *   {"maxSizePerFPGA": BYTES, "maxFPGAs": N, "maxCPUs": N,
 *    "nodes": [{"id", "fpgaLatency": ms, "cpuLatency": ms, "supportedOnFpga": 0|1, "isBackwardNode": 0|1,
 *               "colorClass"?, "size"?: bytes, "name"?}, ...],
 *    "edges": [{"sourceId", "destId", "cost": ms}, ...]}
 *
 * "FPGA" is their word for an accelerator. cost is the time of moving the output of the source and so
 * the same on all its edges. A node without a colorClass has a colour of its own. Other keys are left alone.
 */
#include "config.h"

#include "policies/graph/read/read_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COST_TOLERANCE_MS 1e-6 /* as in dp.cpp */

struct reader {
    struct dp_graph_json *json;
    int64_t *colour;  /* [n_nodes] as in the file */
    bool *has_colour; /* [n_nodes] */
    double *cost_ms;  /* [n_nodes] of its edges, NaN: none yet */
};

/* true, false, 0 or 1. */
static int take_flag(struct reader *r, struct dp_json_place at, const json_t *object, const char *key, bool *out)
{
    json_t *v = json_object_get(object, key);

    if (!v)
        return dp_graph_json_fail(r->json, at, key, "missing");
    if (json_is_boolean(v))
        *out = json_is_true(v);
    else if (json_is_number(v) && (json_number_value(v) == 0.0 || json_number_value(v) == 1.0))
        *out = json_number_value(v) == 1.0;
    else
        return dp_graph_json_fail(r->json, at, key, "is neither 0 nor 1");
    return 0;
}

static int take_ms(struct reader *r, struct dp_json_place at, const json_t *object, const char *key, uint64_t *out)
{
    double ms;

    if (dp_graph_json_real(r->json, at, object, key, &ms) < 0)
        return -1;
    return dp_graph_take_time(ms, 1e6, key, out, r->json->err) < 0 ? dp_graph_json_prefix(r->json, at) : 0;
}

static int take_node(struct reader *r, size_t i, const json_t *object)
{
    struct dp_json_place at = {"nodes", i};
    struct dp_graph_node node = {0};
    bool on_accel;
    uint64_t accel_ns;
    double bytes = 0.0;
    char number[32];
    json_t *name;

    if (!json_is_object(object))
        return dp_graph_json_fail(r->json, at, "", "is not an object");
    if (dp_graph_json_id(r->json, at, object, "id", &r->json->id[i]) < 0 || take_ms(r, at, object, "fpgaLatency", &accel_ns) < 0 ||
        take_ms(r, at, object, "cpuLatency", &node.cpu_ns) < 0 ||
        take_flag(r, at, object, "supportedOnFpga", &on_accel) < 0 ||
        take_flag(r, at, object, "isBackwardNode", &node.is_backward) < 0)
        return -1;
    if (json_object_get(object, "size") && dp_graph_json_real(r->json, at, object, "size", &bytes) < 0)
        return -1;
    if (dp_graph_take_bytes(bytes, "size", &node.bytes, r->json->err) < 0)
        return dp_graph_json_prefix(r->json, at);
    r->has_colour[i] = json_object_get(object, "colorClass") != NULL;
    if (r->has_colour[i] && dp_graph_json_id(r->json, at, object, "colorClass", &r->colour[i]) < 0)
        return -1;
    node.only_on_cpu = !on_accel;
    *(node.is_backward ? &node.backward_ns : &node.forward_ns) = accel_ns;
    name = json_object_get(object, "name");
    snprintf(number, sizeof number, "%" PRId64, r->json->id[i]);
    node.name = json_is_string(name) ? (char *)json_string_value(name) : number;
    r->cost_ms[i] = (double)NAN;
    return dp_graph_add_node(r->json->g, &node, r->json->err) < 0 ? dp_graph_json_prefix(r->json, at) : 0;
}

/* Colours 0, 1, ... in the order in which they first come. */
static int number_colours(struct reader *r)
{
    uint32_t n = r->json->g->n_nodes, *order = malloc(((size_t)n + 1) * sizeof *order);
    uint32_t *first = malloc(((size_t)n + 1) * sizeof *first); /* node i has the colour of node first[i] */

    if (!order || !first) {
        free(order);
        free(first);
        return dp_err_set(r->json->err, DP_ENOMEM, "%s: out of memory", r->json->file);
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = first[i] = i;
    qsort_r(order, n, sizeof *order, dp_graph_json_by_number, r->colour);
    for (uint32_t i = 0, head = 0; i < n; i++) {
        if (!r->has_colour[order[i]])
            continue;
        if (!r->has_colour[order[head]] || r->colour[order[head]] != r->colour[order[i]])
            head = i;
        first[order[i]] = first[order[head]];
    }
    for (uint32_t i = 0; i < n; i++)
        r->json->g->node[i].colour = first[i] == i ? r->json->g->n_colours++ : r->json->g->node[first[i]].colour;
    free(order);
    free(first);
    return 0;
}

static int take_edge(struct reader *r, size_t i, const json_t *object)
{
    struct dp_json_place at = {"edges", i};
    struct dp_graph_node *node = r->json->g->node;
    uint32_t from, to;
    double cost;

    if (!json_is_object(object))
        return dp_graph_json_fail(r->json, at, "", "is not an object");
    if (dp_graph_json_end(r->json, at, object, "sourceId", &from) < 0 || dp_graph_json_end(r->json, at, object, "destId", &to) < 0 ||
        dp_graph_json_real(r->json, at, object, "cost", &cost) < 0)
        return -1;
    if (node[from].is_backward && !node[to].is_backward)
        return dp_graph_json_fail(r->json, at, "", "leads from a backward node to a forward node");
    if (!isnan(r->cost_ms[from]) && fabs(r->cost_ms[from] - cost) > COST_TOLERANCE_MS)
        return dp_err_set(r->json->err, DP_EINVAL,
                          "%s: edges[%zu].cost: %g, but %g on another edge from node %" PRId64, r->json->file, i,
                          cost, r->cost_ms[from], r->json->id[from]);
    if (isnan(r->cost_ms[from])) {
        r->cost_ms[from] = cost;
        if (dp_graph_take_time(cost, 1e6, "cost", &node[from].send_ns, r->json->err) < 0)
            return dp_graph_json_prefix(r->json, at);
    }
    return dp_graph_add_edge(r->json->g, from, to, (uint32_t)i, r->json->err) < 0 ? dp_graph_json_prefix(r->json, at) : 0;
}

/* Devices and memory of the file's own setting. A limit beyond every size that can be is none. */
static int take_limits(struct reader *r, const json_t *doc)
{
    static const char *const keys[] = {"maxFPGAs", "maxCPUs", "maxSizePerFPGA"};
    double v[3];

    for (int i = 0; i < 3; i++) {
        json_t *n = json_object_get(doc, keys[i]);

        v[i] = json_number_value(n);
        if (!json_is_number(n) || !(v[i] >= 0.0) || (i < 2 && (v[i] > 65535.0 || v[i] != floor(v[i]))))
            return dp_err_set(r->json->err, DP_EINVAL, "%s: %s: %s", r->json->file, keys[i],
                              n ? "not a number that can be used here" : "missing");
    }
    r->json->g->n_accel = (uint32_t)v[0];
    r->json->g->n_cpus = (uint32_t)v[1];
    r->json->g->accel_bytes = v[2] < 9e18 ? (uint64_t)v[2] : UINT64_MAX;
    return 0;
}

static int take_document(struct reader *r, const json_t *doc)
{
    json_t *nodes, *edges, *v;
    size_t i, n;

    if (take_limits(r, doc) < 0 || dp_graph_json_lists(r->json, doc, &nodes, &edges) < 0)
        return -1;
    n = json_array_size(nodes);
    r->colour = calloc(n, sizeof *r->colour);
    r->has_colour = calloc(n, sizeof *r->has_colour);
    r->cost_ms = calloc(n, sizeof *r->cost_ms);
    if (!r->colour || !r->has_colour || !r->cost_ms)
        return dp_err_set(r->json->err, DP_ENOMEM, "%s: out of memory", r->json->file);
    json_array_foreach(nodes, i, v)
    {
        if (take_node(r, i, v) < 0)
            return -1;
    }
    if (dp_graph_json_index(r->json) < 0 || number_colours(r) < 0)
        return -1;
    json_array_foreach(edges, i, v)
    {
        if (take_edge(r, i, v) < 0)
            return -1;
    }
    return dp_graph_json_finish(r->json);
}

int dp_graph_take_costs(struct dp_graph_json *json, const json_t *doc)
{
    struct reader r = {.json = json};
    int rc;

    dp_graph_init(json->g, DP_GRAPH_COSTS);
    rc = take_document(&r, doc);
    free(r.colour);
    free(r.has_colour);
    free(r.cost_ms);
    return rc;
}
