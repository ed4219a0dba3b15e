/* SPDX-License-Identifier: BSD-3-Clause */
/* PipeDream's hierarchical dynamic program (Narayanan et al., SOSP'19; optimizer_graph_hierarchical.py of the
 * release): a pipeline whose stages may have replicas, on a network of one level (devices) or two (devices in
 * machines). What one level plans for a range of the graph on one machine is what the next level has a range
 * cost on one of its machines.
 *
 *   time(I, m)      = min of  max(stage(nothing, I, m), out(I) / (B m))
 *                     and, over ideals J within I and m' < m replicas of the last stage,
 *                     max(time(J, m - m'), stage(J, I, m'), out(J) / (B m'), out(I) / (B m'))
 *   stage(J, I, m') = compute of I - J / m'  +  2 (m' - 1) / m' * parameters of I - J / B / microbatches
 *
 * out(I): bytes that leave I, each output once; it falls away at the end. That is what the simulator makes of a plan
 * (policies/sim/): a link has both directions at the same time, compute goes on beside, and the gradients of
 * replicas go once round a ring when all microbatches of an iteration are through. With machines each level's
 * exchange counts apart, that of the lower one as if the stage were on all machines.
 *
 * Without `microbatches` the costs are those of the released program: both directions after each other (2 out(I)), an
 * exchange of gradients for every microbatch (4 (m' - 1) / m' * parameters / (B m')), nothing for what leaves the
 * first stage, and 1 / (devices of a machine) of the time for its gradients between machines. It leaves activations out
 * unless it is given an --activation_compression_ratio, and then its plans look better than they are (papers'
 * ratio 1 is this). Differences from it, all of them in the open: out(I) counts what crosses the cut, where the
 * release also counts a branch point that both of its branches have passed; ranges are differences of ideals only,
 * where its inner level subtracts sets that are none; devices may stay idle.
 */
#ifndef DP_POLICIES_GRAPH_HIERARCHICAL_HIERARCHICAL_H
#define DP_POLICIES_GRAPH_HIERARCHICAL_HIERARCHICAL_H

#include "policies/graph/plan.h"

#define DP_PLAN_LEVELS 2 /* devices, machines */

struct dp_plan_hierarchical {
    uint32_t n_levels;                  /* 1 or 2 */
    uint32_t devices[DP_PLAN_LEVELS];   /* devices (of a machine), machines */
    double bytes_per_s[DP_PLAN_LEVELS]; /* between devices (of a machine), between machines */
    uint64_t accel_bytes; /* UINT64_MAX: no limit; one level only. A device holds the state of its parameters, and
                             outputs once for each microbatch that is under way in it: ceil(devices from it to the
                             end / replicas) */
    uint32_t microbatches; /* of an iteration, at whose end replicas exchange gradients; 0: costs as the released
                              program has them */
    bool is_straight;      /* no replicas */
    uint32_t max_ideals;   /* 0: DP_IDEALS_CAP */
    uint64_t max_steps;    /* of the search over all ideals; 0: some seconds of one core. UINT64_MAX: no limit */
    const struct dp_plan_watch *watch; /* NULL: nobody */
    uint64_t seed;         /* of the search for orders (search/search.h) */
    uint64_t search_steps; /* of it; 0: a part of a second, UINT64_MAX: until the watch ends it */
    const struct dp_order_source *source; /* of orders for the search; NULL: rules alone */
    bool is_lean; /* straight pipelines in the least memory, whatever their size (straight.h); the same load */
};

#define DP_PLAN_MICROBATCHES 4 /* for each device, where nobody says how many an iteration has */

/* What the exchange of gradients among m replicas on a level adds to (compute + it) / m, the time of a microbatch. */
double dp_plan_sync_s(const struct dp_plan_hierarchical *ask, uint32_t level, double param_bytes, uint32_t m, bool is_first);
/* A microbatch when all devices have all parameters, one level after the other; single_ns: on one of them. devices: = how many there
 * are. */
uint64_t dp_plan_data_parallel_ns(const struct dp_plan_hierarchical *ask, uint64_t single_ns, double param_bytes, uint64_t *devices);
/* So many bytes of a microbatch on the links of m replicas. */
double dp_plan_transfer_s(const struct dp_plan_hierarchical *ask, uint32_t level, double bytes, uint32_t m);

struct dp_units;
/* No plan is below: all compute (ns) spread over the devices without loss, or the dearest unit, with its exchange of gradients, on as
 * many replicas as serve it best (two levels without `microbatches`: compute alone). u: units of g. bound_ns: =, in ns of a
 * microbatch; by: = which of both. returns 0 or -1 (DP_ENOMEM). */
int dp_plan_hierarchical_bound(const struct dp_graph *g, const struct dp_units *u, const struct dp_plan_hierarchical *ask,
                               uint64_t *bound_ns, enum dp_plan_bound *by, struct dp_err *err);

struct dp_stage_load;
/* On each of so many replicas of a stage, `behind` devices before the end: state, and what the microbatches under way keep. UINT64_MAX:
 * more than that. */
uint64_t dp_plan_memory_bytes(const struct dp_stage_load *load, uint32_t replicas, uint32_t behind);

/* g: a profile. As dp_plan_maxload_find(), but for many devices, or machines, which are given to stages in groups where that is
 * too long (is_optimal is false then), and for orders of more than 8192 units, which are not cut everywhere but for
 * straight pipelines; bound_ns
 * is all compute spread without loss, or one unit with as many replicas as serve it. Where there are too many ideals
 * the best of many orders comes out (line.h, search/search.h). */
int dp_plan_hierarchical_find(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                              struct dp_graph_plan *out, struct dp_err *err);

/* Loads of a plan by the formulas above, from the graph and the plan's stage_of, group, replicas, recomputes, more_weights and
 * microbatch alone:
 * sets the times and bytes of its stages and load_ns. returns 0 or -1 (DP_ENOMEM). */
int dp_plan_hierarchical_evaluate(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                                  struct dp_graph_plan *p, struct dp_err *err);

#endif
