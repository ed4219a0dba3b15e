/* SPDX-License-Identifier: BSD-3-Clause */
/* Graph files into struct dp_graph: PipeDream's graph.txt, dnn-partitioning's JSON and Piper's JSON, told
 * apart by their content. What a file may hold is bounded (graph.h, DP_GRAPH_MAX_FILE); every error names the
 * file and the line, or the path inside the JSON document. Nothing in a file can do more than be
 * refused. */
#ifndef DP_POLICIES_GRAPH_READ_READ_H
#define DP_POLICIES_GRAPH_READ_READ_H

#include "policies/graph/graph.h"

#define DP_GRAPH_MAX_FILE (64u << 20) /* bytes: MAX_EDGES of 60 */

/* *g is initialised here, in any case; the caller releases it. path "-" is stdin.
 * returns 0, or -1 with DP_EIO (cannot be read) or DP_EINVAL (what is in it). */
int dp_graph_read(const char *path, struct dp_graph *g, struct dp_err *err);

/* The same from memory; `name` stands for the file in messages. */
int dp_graph_parse(const char *name, const char *text, size_t bytes, struct dp_graph *g, struct dp_err *err);

/* ---- of the formats, for dp_graph_parse ---- */

/* text ends with a NUL behind its `bytes`, and is cut into pieces here. */
int dp_graph_parse_profile(const char *name, char *text, size_t bytes, struct dp_graph *g,
                           struct dp_err *err);
int dp_graph_parse_json(const char *name, const char *text, size_t bytes, struct dp_graph *g,
                        struct dp_err *err);

/* A time of `value` units of `unit_ns` each, or a size, into *out, rounded. returns 0, or -1 where it
 * is not a number, negative or too large; err then begins with the reason, "what" included. */
int dp_graph_take_time(double value, double unit_ns, const char *what, uint64_t *out, struct dp_err *err);
int dp_graph_take_bytes(double value, const char *what, uint64_t *out, struct dp_err *err);

#endif
