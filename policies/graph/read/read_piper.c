/* SPDX-License-Identifier: BSD-3-Clause */
/* Piper's JSON (msr-fiddle/piper, algo.cpp; Tarnawski, Narayanan, Phanishayee 2021, NeurIPS):
 *
 *   {"maxDevices": N, "maxMemoryPerDevice": bytes, "bandwidth": bytes/s, "mbsInBatch": microbatches,
 *    "nodes": [{"id", "name"?, "TMPCs": {"1": [{"id", "timePerSample": s, "parameterSize": bytes,
 *               "memoryUsageA": bytes, "memoryUsageB": bytes, "syncTimeFw", "syncTimeBw"}, ...], "2": ...}}, ...],
 *    "edges": [{"sourceId", "destId", "communicationCost": bytes}, ...]}
 *
 * A TMPC is a way to run a layer on so many devices ("1") at once, with or without activation recomputation.
 * Layers are not split here: a node has its ways on one device, and the numbers of the fastest. Its time is a microbatch forward and
 * backward; a third of it is booked as forward. memoryUsageB is there once, memoryUsageA for each microbatch under
 * way. An output that several layers take is sent once, so that the largest of its edges counts.
 */
#include "config.h"

#include "policies/graph/read/read_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a layer costs ---- */

/* Bytes that devices which share a layer exchange: none where there is one. */
static int check_alone(struct dp_graph_json *r, struct dp_json_place at, const json_t *way, const char *key)
{
    json_t *all = json_object_get(way, key), *v;
    const char *id;

    if (all && !json_is_object(all))
        return dp_graph_json_fail(r, at, key, "is not an object");
    json_object_foreach(all, id, v)
    {
        if (!json_is_number(v) || json_number_value(v) != 0.0)
            return dp_graph_json_fail(r, at, key, "is not 0 throughout, on one device");
    }
    return 0;
}

static int take_bytes(struct dp_graph_json *r, struct dp_json_place at, const json_t *object, const char *key, uint64_t *out)
{
    double bytes;

    if (dp_graph_json_real(r, at, object, key, &bytes) < 0)
        return -1;
    return dp_graph_take_bytes(bytes, key, out, r->err) < 0 ? dp_graph_json_prefix(r, at) : 0;
}

static int take_way(struct dp_graph_json *r, struct dp_json_place at, const json_t *way, struct dp_graph_node *out)
{
    uint64_t ns;
    double s;

    if (!json_is_object(way))
        return dp_graph_json_fail(r, at, "", "is not an object");
    if (dp_graph_json_real(r, at, way, "timePerSample", &s) < 0)
        return -1;
    if (dp_graph_take_time(s, 1e9, "timePerSample", &ns, r->err) < 0)
        return dp_graph_json_prefix(r, at);
    out->forward_ns = ns / 3;
    out->backward_ns = ns - out->forward_ns;
    return take_bytes(r, at, way, "parameterSize", &out->param_bytes) < 0 ||
                   take_bytes(r, at, way, "memoryUsageA", &out->kept_bytes) < 0 ||
                   take_bytes(r, at, way, "memoryUsageB", &out->bytes) < 0 || check_alone(r, at, way, "syncTimeFw") < 0 ||
                   check_alone(r, at, way, "syncTimeBw") < 0
               ? -1
               : 0;
}

/* All ways on one device, and of them the fastest; of several the first. */
static int take_ways(struct dp_graph_json *r, size_t i, const json_t *object, struct dp_graph_node *out)
{
    json_t *ways = json_object_get(json_object_get(object, "TMPCs"), "1"), *way;
    struct dp_graph_node one = {0}, best = {0};
    uint32_t n = 0;
    char list[48];
    size_t k;

    if (!json_array_size(ways))
        return dp_graph_json_fail(r, (struct dp_json_place){"nodes", i}, "TMPCs.1",
                                  "missing, or not a list of ways to run this layer on one device");
    snprintf(list, sizeof list, "nodes[%zu].TMPCs.1", i);
    out->way = calloc(json_array_size(ways), sizeof *out->way);
    if (!out->way)
        return dp_err_set(r->err, DP_ENOMEM, "%s: out of memory", r->file);
    json_array_foreach(ways, k, way)
    {
        if (take_way(r, (struct dp_json_place){list, k}, way, &one) < 0)
            return -1;
        out->way[n++] = dp_graph_way_now(&one);
        if (k == 0 || dp_graph_accel_ns(&one) < dp_graph_accel_ns(&best))
            best = one;
    }
    best.way = out->way;
    best.n_ways = n;
    *out = best;
    return 0;
}

static int take_node(struct dp_graph_json *r, size_t i, const json_t *object)
{
    struct dp_json_place at = {"nodes", i};
    struct dp_graph_node node = {0};
    char number[32];
    json_t *name;
    int rc;

    if (!json_is_object(object))
        return dp_graph_json_fail(r, at, "", "is not an object");
    if (dp_graph_json_id(r, at, object, "id", &r->id[i]) < 0 || take_ways(r, i, object, &node) < 0) {
        free(node.way);
        return -1;
    }
    name = json_object_get(object, "name");
    snprintf(number, sizeof number, "%" PRId64, r->id[i]);
    node.name = json_is_string(name) ? (char *)json_string_value(name) : number;
    node.colour = (uint32_t)i;
    rc = dp_graph_add_node(r->g, &node, r->err) < 0 ? dp_graph_json_prefix(r, at) : 0;
    free(node.way);
    return rc;
}

/* ---- names ---- */

static int by_name(const void *a, const void *b, void *nodes)
{
    const struct dp_graph_node *node = nodes;

    return strcmp(node[*(const uint32_t *)a].name, node[*(const uint32_t *)b].name);
}

/* name and id, for layers that would else have one name. returns 0 or -1: out of memory. */
static int set_apart(struct dp_graph_json *r, uint32_t i)
{
    char *name;

    if (asprintf(&name, "%s#%" PRId64, r->g->node[i].name, r->id[i]) < 0)
        return -1;
    free(r->g->node[i].name);
    r->g->node[i].name = name;
    return 0;
}

/* "name" is there for people, and most layers of a kind have the same. */
static int name_apart(struct dp_graph_json *r)
{
    struct dp_graph *g = r->g;
    uint32_t *order = malloc(g->n_nodes * sizeof *order);
    int rc = order ? 0 : -1;

    for (uint32_t i = 0; order && i < g->n_nodes; i++)
        order[i] = i;
    if (order)
        qsort_r(order, g->n_nodes, sizeof *order, by_name, g->node);
    for (uint32_t i = 0, end; rc == 0 && i < g->n_nodes; i = end) {
        for (end = i + 1; end < g->n_nodes && by_name(&order[i], &order[end], g->node) == 0;)
            end++;
        for (uint32_t k = i; end - i > 1 && rc == 0 && k < end; k++)
            rc = set_apart(r, order[k]);
    }
    free(order);
    return rc < 0 ? dp_err_set(r->err, DP_ENOMEM, "%s: out of memory", r->file) : 0;
}

/* ---- the whole ---- */

static int take_edge(struct dp_graph_json *r, size_t i, const json_t *object)
{
    struct dp_json_place at = {"edges", i};
    uint32_t from, to;
    uint64_t bytes, *most;

    if (!json_is_object(object))
        return dp_graph_json_fail(r, at, "", "is not an object");
    if (dp_graph_json_end(r, at, object, "sourceId", &from) < 0 || dp_graph_json_end(r, at, object, "destId", &to) < 0 ||
        take_bytes(r, at, object, "communicationCost", &bytes) < 0)
        return -1;
    most = &r->g->node[from].output_bytes;
    *most = bytes > *most ? bytes : *most;
    return dp_graph_add_edge(r->g, from, to, (uint32_t)i, r->err) < 0 ? dp_graph_json_prefix(r, at) : 0;
}

static int take_number(struct dp_graph_json *r, const json_t *doc, const char *key, double least, double most, bool is_whole, double *out)
{
    json_t *n = json_object_get(doc, key);

    *out = json_number_value(n);
    if (!n)
        return dp_err_set(r->err, DP_EINVAL, "%s: %s: missing", r->file, key);
    if (!json_is_number(n) || !(*out >= least && *out <= most) || (is_whole && *out != floor(*out)))
        return dp_err_set(r->err, DP_EINVAL, "%s: %s: expected a %snumber from %g to %g", r->file, key, is_whole ? "whole " : "",
                          least, most);
    return 0;
}

/* The setting of the file. Its description says maxBatchSize where its program says mbsInBatch. */
static int take_setting(struct dp_graph_json *r, const json_t *doc)
{
    const char *batch = json_object_get(doc, "maxBatchSize") && !json_object_get(doc, "mbsInBatch") ? "maxBatchSize" : "mbsInBatch";
    double devices, bytes, microbatches;

    if (take_number(r, doc, "maxDevices", 1, 65535, true, &devices) < 0 ||
        take_number(r, doc, "maxMemoryPerDevice", 1, 1e30, false, &bytes) < 0 ||
        take_number(r, doc, "bandwidth", 1, 1e18, false, &r->g->bytes_per_s) < 0 ||
        take_number(r, doc, batch, 1, 1e6, true, &microbatches) < 0)
        return -1;
    r->g->n_accel = (uint32_t)devices;
    r->g->accel_bytes = bytes < 9e18 ? (uint64_t)bytes : UINT64_MAX;
    r->g->microbatches = (uint32_t)microbatches;
    return 0;
}

int dp_graph_take_piper(struct dp_graph_json *r, const json_t *doc)
{
    json_t *nodes, *edges, *v;
    size_t i;

    dp_graph_init(r->g, DP_GRAPH_PROFILE);
    r->g->is_piper = true;
    if (take_setting(r, doc) < 0 || dp_graph_json_lists(r, doc, &nodes, &edges) < 0)
        return -1;
    json_array_foreach(nodes, i, v)
    {
        if (take_node(r, i, v) < 0)
            return -1;
    }
    r->g->n_colours = r->g->n_nodes;
    if (dp_graph_json_index(r) < 0 || name_apart(r) < 0)
        return -1;
    json_array_foreach(edges, i, v)
    {
        if (take_edge(r, i, v) < 0)
            return -1;
    }
    return dp_graph_json_finish(r);
}
