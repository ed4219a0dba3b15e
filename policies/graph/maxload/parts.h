/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipeline out of any placement of units on devices, such as a network makes that knows neither cycles nor balance: devices that
 * would wait for each other in a circle become one stage. */
#ifndef DP_POLICIES_GRAPH_MAXLOAD_PARTS_H
#define DP_POLICIES_GRAPH_MAXLOAD_PARTS_H

#include "policies/graph/maxload/maxload.h"
#include "policies/graph/plan.h"

#define DP_PARTS_MOST 64u /* devices */

/* device: [units] < n_devices (1..MOST). stage: [units] =, numbered along the pipeline: no edge leads to a lower one, units of one
 * device are in one stage, and there are as many stages as that allows. n_stages: =. */
void dp_parts_pipeline(const struct dp_units *u, const uint32_t *device, uint32_t n_devices, uint32_t *stage, uint32_t *n_stages);

/* load_ns: = of the busiest stage of such a pipeline on equal accelerators: compute and traffic, as maxload.h has them; UINT64_MAX
 * where a stage has more than accel_bytes, as maxload.h counts them, or a unit that only a CPU can run. returns 0 or -1
 * (DP_ENOMEM). */
int dp_parts_load(const struct dp_units *u, const uint32_t *stage, uint32_t n_stages, uint64_t accel_bytes, uint64_t *load_ns,
                  struct dp_err *err);

/* Placements of ask->placer, until as many steps are made as a search for orders makes, the watch ends it, or out->bound_ns is
 * reached. best: = the best one, n_stages 0: none fits; zeroes before, and the caller's to release. out: counts, steps and
 * was_ended. ask: as dp_plan_maxload_find() checks it for DRL_PP. returns 0 or -1 (DP_ENOMEM). */
int dp_parts_try(const struct dp_units *u, const struct dp_plan_maxload *ask, struct dp_maxload_answer *best, struct dp_graph_plan *out,
                 struct dp_err *err);

#endif
