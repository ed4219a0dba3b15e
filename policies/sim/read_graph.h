/* Graph files and their plans as cases of the simulator. */
#ifndef DP_POLICIES_SIM_READ_GRAPH_H
#define DP_POLICIES_SIM_READ_GRAPH_H

#include "policies/graph/plan.h"
#include "policies/sim/read.h"

#define DP_SIM_MICROBATCHES_OF_A_STAGE 4 /* where nobody says how many there are */

/* The text of a graph file (policies/graph/read.h), planned for with->devices (a file of costs may say how many
 * itself) and with->bytes_per_s. name: in messages. *out: empty before; on failure the caller releases it. */
int dp_sim_read_graph(const char *name, const char *text, size_t bytes, const struct dp_sim_override *with,
                      struct dp_sim_case *out, struct dp_err *err);

/* A plan without replicas. *out: devices, chunks, replicas, microbatches, schedule and iterations are set, the rest is
 * filled in here. bytes_per_s: of a profile's transfers. DP_ENOTSUP: a stage has replicas. */
int dp_sim_from_plan(const struct dp_graph *g, const struct dp_graph_plan *p, double bytes_per_s, struct dp_sim_case *out,
                     struct dp_err *err);

#endif
