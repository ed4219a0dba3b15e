/* SPDX-License-Identifier: BSD-3-Clause */
/* What the readers of JSON graphs share: nodes with ids, edges between ids, and errors that name the place
 * in the document ("nodes[3].id"). */
#ifndef DP_POLICIES_GRAPH_READ_READ_JSON_H
#define DP_POLICIES_GRAPH_READ_READ_JSON_H

#include <jansson.h>

#include "policies/graph/read/read.h"

struct dp_graph_json {
    const char *file;
    struct dp_graph *g;
    int64_t *id;     /* [n_nodes] as in the file */
    uint32_t *by_id; /* [n_nodes] indices, sorted by id */
    struct dp_err *err;
};

/* Where in the document: "nodes[3]". */
struct dp_json_place {
    const char *list;
    size_t index;
};

/* Errors; both return -1. key: "" for the place itself. */
int dp_graph_json_fail(struct dp_graph_json *r, struct dp_json_place at, const char *key, const char *text);
/* err holds the reason. */
int dp_graph_json_prefix(struct dp_graph_json *r, struct dp_json_place at);

/* Members of an object, which must be there. returns 0 or -1. */
int dp_graph_json_real(struct dp_graph_json *r, struct dp_json_place at, const json_t *object, const char *key, double *out);
int dp_graph_json_id(struct dp_graph_json *r, struct dp_json_place at, const json_t *object, const char *key, int64_t *out);
/* The id of a node; out: its index. After dp_graph_json_index(). */
int dp_graph_json_end(struct dp_graph_json *r, struct dp_json_place at, const json_t *object, const char *key, uint32_t *out);

/* For qsort_r(): indices by numbers[index], then by themselves. */
int dp_graph_json_by_number(const void *a, const void *b, void *numbers);

/* nodes and edges of a document, and room for ids. */
int dp_graph_json_lists(struct dp_graph_json *r, const json_t *doc, json_t **nodes, json_t **edges);
/* Once all nodes are there: no id twice. */
int dp_graph_json_index(struct dp_graph_json *r);
/* Once all edges are there. */
int dp_graph_json_finish(struct dp_graph_json *r);

/* The two formats. */
int dp_graph_take_costs(struct dp_graph_json *r, const json_t *doc);
int dp_graph_take_piper(struct dp_graph_json *r, const json_t *doc);

#endif
