/* SPDX-License-Identifier: BSD-3-Clause */
/* Graph files and their plans as cases of the simulator. */
#ifndef DP_POLICIES_SIM_CASE_READ_GRAPH_H
#define DP_POLICIES_SIM_CASE_READ_GRAPH_H

#include "policies/graph/hierarchical/hierarchical.h"
#include "policies/graph/units.h"
#include "policies/sim/case/read.h"

/* The text of a graph file (policies/graph/read/read.h), planned for with->devices (a file of costs may say how many
 * itself) and with->bytes_per_s. name: in messages. *out: empty before; on failure the caller releases it. */
int dp_sim_read_graph(const char *name, const char *text, size_t bytes, const struct dp_sim_override *with,
                      struct dp_sim_case *out, struct dp_err *err);

/* A plan as a case. *out: devices, chunks, replicas, schedule and iterations are set, the rest is filled in here;
 * microbatches, where they are 0, become a number that all replicas of a stage share evenly, unless that is many.
 * speed: [accelerators of the plan], as the plan was asked for, or NULL: all 1.
 * net: levels, devices and bandwidths that a profile was planned for; not used for a file of costs. */
int dp_sim_from_plan(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_plan_hierarchical *net, const double *speed,
                     struct dp_sim_case *out, struct dp_err *err);

/* Layers of that case: place[u->n] = layer of each unit, count[n_stages] += layers. returns 0 or -1 (DP_ENOMEM). */
int dp_sim_place_units(const struct dp_graph *g, const struct dp_graph_plan *p, const struct dp_units *u, uint32_t *place,
                       uint32_t *count, struct dp_err *err);

#endif
