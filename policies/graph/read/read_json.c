/* SPDX-License-Identifier: BSD-3-Clause */
/* See read_json.h. */
#include "config.h"

#include "policies/graph/read/read_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

int dp_graph_json_fail(struct dp_graph_json *r, struct dp_json_place at, const char *key, const char *text)
{
    return dp_err_set(r->err, DP_EINVAL, "%s: %s[%zu]%s%s: %s", r->file, at.list, at.index, *key ? "." : "",
                      key, text);
}

int dp_graph_json_prefix(struct dp_graph_json *r, struct dp_json_place at)
{
    return dp_err_prefix(r->err, "%s: %s[%zu]", r->file, at.list, at.index);
}

int dp_graph_json_real(struct dp_graph_json *r, struct dp_json_place at, const json_t *object, const char *key, double *out)
{
    json_t *v = json_object_get(object, key);

    if (!v)
        return dp_graph_json_fail(r, at, key, "missing");
    if (!json_is_number(v))
        return dp_graph_json_fail(r, at, key, "is not a number");
    *out = json_number_value(v);
    return 0;
}

/* Also 1.0, as some writers print it. */
int dp_graph_json_id(struct dp_graph_json *r, struct dp_json_place at, const json_t *object, const char *key, int64_t *out)
{
    json_t *v = json_object_get(object, key);
    double d;

    if (!v)
        return dp_graph_json_fail(r, at, key, "missing");
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return 0;
    }
    d = json_real_value(v);
    if (!json_is_real(v) || d != floor(d) || fabs(d) > 9e15)
        return dp_graph_json_fail(r, at, key, "is not a whole number");
    *out = (int64_t)d;
    return 0;
}

int dp_graph_json_by_number(const void *a, const void *b, void *numbers)
{
    const int64_t *id = numbers;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return id[x] != id[y] ? (id[x] < id[y] ? -1 : 1) : x < y ? -1 : 1;
}

int dp_graph_json_index(struct dp_graph_json *r)
{
    uint32_t n = r->g->n_nodes;

    for (uint32_t i = 0; i < n; i++)
        r->by_id[i] = i;
    qsort_r(r->by_id, n, sizeof *r->by_id, dp_graph_json_by_number, r->id);
    for (uint32_t i = 1; i < n; i++) {
        if (r->id[r->by_id[i - 1]] == r->id[r->by_id[i]])
            return dp_err_set(r->err, DP_EINVAL, "%s: nodes[%u].id: %" PRId64 " is the id of nodes[%u], too",
                              r->file, r->by_id[i], r->id[r->by_id[i]], r->by_id[i - 1]);
    }
    return 0;
}

static int64_t find_id(const struct dp_graph_json *r, int64_t id)
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

int dp_graph_json_end(struct dp_graph_json *r, struct dp_json_place at, const json_t *object, const char *key, uint32_t *out)
{
    int64_t id, node;

    if (dp_graph_json_id(r, at, object, key, &id) < 0)
        return -1;
    node = find_id(r, id);
    if (node < 0)
        return dp_err_set(r->err, DP_EINVAL, "%s: %s[%zu].%s: there is no node with id %" PRId64, r->file,
                          at.list, at.index, key, id);
    *out = (uint32_t)node;
    return 0;
}

static int take_list(struct dp_graph_json *r, const json_t *doc, const char *key, json_t **out, size_t least, size_t most)
{
    *out = json_object_get(doc, key);
    if (!json_is_array(*out))
        return dp_err_set(r->err, DP_EINVAL, "%s: %s: %s", r->file, key, *out ? "is not a list" : "missing");
    if (json_array_size(*out) < least || json_array_size(*out) > most)
        return dp_err_set(r->err, DP_EINVAL, "%s: %s: %zu of them; expected %zu to %zu", r->file, key,
                          json_array_size(*out), least, most);
    return 0;
}

int dp_graph_json_lists(struct dp_graph_json *r, const json_t *doc, json_t **nodes, json_t **edges)
{
    if (take_list(r, doc, "nodes", nodes, 1, DP_GRAPH_MAX_NODES) < 0 ||
        take_list(r, doc, "edges", edges, 0, DP_GRAPH_MAX_EDGES) < 0)
        return -1;
    r->id = calloc(json_array_size(*nodes), sizeof *r->id);
    r->by_id = calloc(json_array_size(*nodes), sizeof *r->by_id);
    return r->id && r->by_id ? 0 : dp_err_set(r->err, DP_ENOMEM, "%s: out of memory", r->file);
}

int dp_graph_json_finish(struct dp_graph_json *r)
{
    uint32_t origin;

    if (dp_graph_finish(r->g, &origin, r->err) == 0)
        return 0;
    return r->err->code == DP_EINVAL ? dp_graph_json_prefix(r, (struct dp_json_place){"edges", origin})
                                     : dp_err_prefix(r->err, "%s", r->file);
}

/* Piper's word for what a layer costs, and two of its words for the setting. */
static bool is_piper(const json_t *doc)
{
    return json_object_get(doc, "maxDevices") || json_object_get(doc, "maxMemoryPerDevice") ||
           json_object_get(json_array_get(json_object_get(doc, "nodes"), 0), "TMPCs");
}

int dp_graph_parse_json(const char *name, const char *text, size_t bytes, struct dp_graph *g, struct dp_err *err)
{
    struct dp_err own;
    struct dp_graph_json r = {.file = name, .g = g, .err = err ? err : &own};
    json_error_t bad;
    json_t *doc = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &bad);
    int rc;

    if (!doc)
        return dp_err_set(err, DP_EINVAL, "%s:%d:%d: not valid JSON: %s", name, bad.line, bad.column, bad.text);
    rc = is_piper(doc) ? dp_graph_take_piper(&r, doc) : dp_graph_take_costs(&r, doc);
    free(r.id);
    free(r.by_id);
    json_decref(doc);
    return rc;
}
