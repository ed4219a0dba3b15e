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

#include "policies/graph/read.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COST_TOLERANCE_MS 1e-6 /* as in dp.cpp */

struct reader {
    const char *file;
    struct dp_graph *g;
    int64_t *id;      /* [n_nodes] */
    int64_t *colour;  /* [n_nodes] as in the file */
    bool *has_colour; /* [n_nodes] */
    double *cost_ms;  /* [n_nodes] of its edges, NaN: none yet */
    uint32_t *by_id;  /* [n_nodes] indices, sorted by id */
    struct dp_err *err;
};

/* Where in the document: "nodes[3]". */
struct place {
    const char *list;
    size_t index;
};

static int fail_at(struct reader *r, struct place at, const char *key, const char *text)
{
    return dp_err_set(r->err, DP_EINVAL, "%s: %s[%zu]%s%s: %s", r->file, at.list, at.index, *key ? "." : "",
                      key, text);
}

static int prefix_at(struct reader *r, struct place at)
{
    return dp_err_prefix(r->err, "%s: %s[%zu]", r->file, at.list, at.index);
}

static int take_real(struct reader *r, struct place at, const json_t *object, const char *key, double *out)
{
    json_t *v = json_object_get(object, key);

    if (!v)
        return fail_at(r, at, key, "missing");
    if (!json_is_number(v))
        return fail_at(r, at, key, "is no number");
    *out = json_number_value(v);
    return 0;
}

/* Also 1.0, as some writers print it. */
static int take_id(struct reader *r, struct place at, const json_t *object, const char *key, int64_t *out)
{
    json_t *v = json_object_get(object, key);
    double d;

    if (!v)
        return fail_at(r, at, key, "missing");
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return 0;
    }
    d = json_real_value(v);
    if (!json_is_real(v) || d != floor(d) || fabs(d) > 9e15)
        return fail_at(r, at, key, "is no whole number");
    *out = (int64_t)d;
    return 0;
}

/* true, false, 0 or 1. */
static int take_flag(struct reader *r, struct place at, const json_t *object, const char *key, bool *out)
{
    json_t *v = json_object_get(object, key);

    if (!v)
        return fail_at(r, at, key, "missing");
    if (json_is_boolean(v))
        *out = json_is_true(v);
    else if (json_is_number(v) && (json_number_value(v) == 0.0 || json_number_value(v) == 1.0))
        *out = json_number_value(v) == 1.0;
    else
        return fail_at(r, at, key, "is neither 0 nor 1");
    return 0;
}

static int take_ms(struct reader *r, struct place at, const json_t *object, const char *key, uint64_t *out)
{
    double ms;

    if (take_real(r, at, object, key, &ms) < 0)
        return -1;
    return dp_graph_take_time(ms, 1e6, key, out, r->err) < 0 ? prefix_at(r, at) : 0;
}

static int take_node(struct reader *r, size_t i, const json_t *object)
{
    struct place at = {"nodes", i};
    struct dp_graph_node node = {0};
    bool on_accel;
    uint64_t accel_ns;
    double bytes = 0.0;
    char number[32];
    json_t *name;

    if (!json_is_object(object))
        return fail_at(r, at, "", "is no object");
    if (take_id(r, at, object, "id", &r->id[i]) < 0 || take_ms(r, at, object, "fpgaLatency", &accel_ns) < 0 ||
        take_ms(r, at, object, "cpuLatency", &node.cpu_ns) < 0 ||
        take_flag(r, at, object, "supportedOnFpga", &on_accel) < 0 ||
        take_flag(r, at, object, "isBackwardNode", &node.is_backward) < 0)
        return -1;
    if (json_object_get(object, "size") && take_real(r, at, object, "size", &bytes) < 0)
        return -1;
    if (dp_graph_take_bytes(bytes, "size", &node.bytes, r->err) < 0)
        return prefix_at(r, at);
    r->has_colour[i] = json_object_get(object, "colorClass") != NULL;
    if (r->has_colour[i] && take_id(r, at, object, "colorClass", &r->colour[i]) < 0)
        return -1;
    node.only_on_cpu = !on_accel;
    *(node.is_backward ? &node.backward_ns : &node.forward_ns) = accel_ns;
    name = json_object_get(object, "name");
    snprintf(number, sizeof number, "%" PRId64, r->id[i]);
    node.name = json_is_string(name) ? (char *)json_string_value(name) : number;
    r->cost_ms[i] = (double)NAN;
    return dp_graph_add_node(r->g, &node, r->err) < 0 ? prefix_at(r, at) : 0;
}

static int by_id(const void *a, const void *b, void *ids)
{
    const int64_t *id = ids;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return id[x] != id[y] ? (id[x] < id[y] ? -1 : 1) : x < y ? -1 : 1;
}

static int index_ids(struct reader *r)
{
    uint32_t n = r->g->n_nodes;

    for (uint32_t i = 0; i < n; i++)
        r->by_id[i] = i;
    qsort_r(r->by_id, n, sizeof *r->by_id, by_id, r->id);
    for (uint32_t i = 1; i < n; i++) {
        if (r->id[r->by_id[i - 1]] == r->id[r->by_id[i]])
            return dp_err_set(r->err, DP_EINVAL, "%s: nodes[%u].id: %" PRId64 " is the id of nodes[%u], too",
                              r->file, r->by_id[i], r->id[r->by_id[i]], r->by_id[i - 1]);
    }
    return 0;
}

/* Colours 0, 1, ... in the order in which they first come. */
static int number_colours(struct reader *r)
{
    uint32_t n = r->g->n_nodes, *order = malloc(((size_t)n + 1) * sizeof *order);
    uint32_t *first = malloc(((size_t)n + 1) * sizeof *first); /* node i has the colour of node first[i] */

    if (!order || !first) {
        free(order);
        free(first);
        return dp_err_set(r->err, DP_ENOMEM, "%s: out of memory", r->file);
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = first[i] = i;
    qsort_r(order, n, sizeof *order, by_id, r->colour);
    for (uint32_t i = 0, head = 0; i < n; i++) {
        if (!r->has_colour[order[i]])
            continue;
        if (!r->has_colour[order[head]] || r->colour[order[head]] != r->colour[order[i]])
            head = i;
        first[order[i]] = first[order[head]];
    }
    for (uint32_t i = 0; i < n; i++)
        r->g->node[i].colour = first[i] == i ? r->g->n_colours++ : r->g->node[first[i]].colour;
    free(order);
    free(first);
    return 0;
}

static int64_t find_id(const struct reader *r, int64_t id)
{
    uint32_t low = 0, high = r->g->n_nodes;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2, i = r->by_id[mid];

        if (r->id[i] == id)
            return i;
        if (r->id[i] < id)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}

static int take_end(struct reader *r, struct place at, const json_t *object, const char *key, uint32_t *out)
{
    int64_t id, node;

    if (take_id(r, at, object, key, &id) < 0)
        return -1;
    node = find_id(r, id);
    if (node < 0)
        return dp_err_set(r->err, DP_EINVAL, "%s: %s[%zu].%s: there is no node with id %" PRId64, r->file,
                          at.list, at.index, key, id);
    *out = (uint32_t)node;
    return 0;
}

static int take_edge(struct reader *r, size_t i, const json_t *object)
{
    struct place at = {"edges", i};
    struct dp_graph_node *node = r->g->node;
    uint32_t from, to;
    double cost;

    if (!json_is_object(object))
        return fail_at(r, at, "", "is no object");
    if (take_end(r, at, object, "sourceId", &from) < 0 || take_end(r, at, object, "destId", &to) < 0 ||
        take_real(r, at, object, "cost", &cost) < 0)
        return -1;
    if (node[from].is_backward && !node[to].is_backward)
        return fail_at(r, at, "", "leads from a backward node to a forward node");
    if (!isnan(r->cost_ms[from]) && fabs(r->cost_ms[from] - cost) > COST_TOLERANCE_MS)
        return dp_err_set(r->err, DP_EINVAL,
                          "%s: edges[%zu].cost: %g, but %g on another edge from node %" PRId64, r->file, i,
                          cost, r->cost_ms[from], r->id[from]);
    if (isnan(r->cost_ms[from])) {
        r->cost_ms[from] = cost;
        if (dp_graph_take_time(cost, 1e6, "cost", &node[from].send_ns, r->err) < 0)
            return prefix_at(r, at);
    }
    return dp_graph_add_edge(r->g, from, to, (uint32_t)i, r->err) < 0 ? prefix_at(r, at) : 0;
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
            return dp_err_set(r->err, DP_EINVAL, "%s: %s: %s", r->file, keys[i],
                              n ? "not a number that means something here" : "missing");
    }
    r->g->n_accel = (uint32_t)v[0];
    r->g->n_cpus = (uint32_t)v[1];
    r->g->accel_bytes = v[2] < 9e18 ? (uint64_t)v[2] : UINT64_MAX;
    return 0;
}

static int take_list(struct reader *r, const json_t *doc, const char *key, json_t **out, size_t least,
                     size_t most)
{
    *out = json_object_get(doc, key);
    if (!json_is_array(*out))
        return dp_err_set(r->err, DP_EINVAL, "%s: %s: %s", r->file, key, *out ? "is no list" : "missing");
    if (json_array_size(*out) < least || json_array_size(*out) > most)
        return dp_err_set(r->err, DP_EINVAL, "%s: %s: %zu of them; wanted are %zu to %zu", r->file, key,
                          json_array_size(*out), least, most);
    return 0;
}

static int take_document(struct reader *r, const json_t *doc)
{
    json_t *nodes, *edges, *v;
    size_t i, n;
    uint32_t origin;

    if (take_limits(r, doc) < 0 || take_list(r, doc, "nodes", &nodes, 1, DP_GRAPH_MAX_NODES) < 0 ||
        take_list(r, doc, "edges", &edges, 0, DP_GRAPH_MAX_EDGES) < 0)
        return -1;
    n = json_array_size(nodes);
    r->id = calloc(n, sizeof *r->id);
    r->colour = calloc(n, sizeof *r->colour);
    r->has_colour = calloc(n, sizeof *r->has_colour);
    r->cost_ms = calloc(n, sizeof *r->cost_ms);
    r->by_id = calloc(n, sizeof *r->by_id);
    if (!r->id || !r->colour || !r->has_colour || !r->cost_ms || !r->by_id)
        return dp_err_set(r->err, DP_ENOMEM, "%s: out of memory", r->file);
    json_array_foreach(nodes, i, v)
    {
        if (take_node(r, i, v) < 0)
            return -1;
    }
    if (index_ids(r) < 0 || number_colours(r) < 0)
        return -1;
    json_array_foreach(edges, i, v)
    {
        if (take_edge(r, i, v) < 0)
            return -1;
    }
    if (dp_graph_finish(r->g, &origin, r->err) == 0)
        return 0;
    return r->err->code == DP_EINVAL ? prefix_at(r, (struct place){"edges", origin})
                                     : dp_err_prefix(r->err, "%s", r->file);
}

int dp_graph_parse_costs(const char *name, const char *text, size_t bytes, struct dp_graph *g,
                         struct dp_err *err)
{
    struct dp_err own;
    struct reader r = {.file = name, .g = g, .err = err ? err : &own};
    json_error_t bad;
    json_t *doc = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &bad);
    int rc;

    dp_graph_init(g, DP_GRAPH_COSTS);
    if (!doc)
        return dp_err_set(err, DP_EINVAL, "%s:%d:%d: no JSON: %s", name, bad.line, bad.column, bad.text);
    rc = take_document(&r, doc);
    free(r.id);
    free(r.colour);
    free(r.has_colour);
    free(r.cost_ms);
    free(r.by_id);
    json_decref(doc);
    return rc;
}
