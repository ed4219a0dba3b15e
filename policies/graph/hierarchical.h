/* PipeDream's hierarchical dynamic program (Narayanan et al., SOSP'19; optimizer_graph_hierarchical.py of the
 * release): a pipeline whose stages may have replicas, on a network of one level (devices) or two (devices in
 * machines). What one level plans for a range of the graph on one machine is what the next level has a range
 * cost on one of its machines.
 *
 *   time(I, m)      = min of  stage(nothing, I, m)
 *                     and, over ideals J within I and m' < m replicas of the last stage,
 *                     max(time(J, m - m'), stage(J, I, m'), 2 out(J) / (B m'), 2 out(I) / (B m'))
 *   stage(J, I, m') = (compute of I - J  +  4 (m' - 1) / m' * parameters of I - J / B) / m'
 *
 * out(I): bytes that leave I, each output once; the last term falls away at the end. Activations count once
 * forward, their gradients once back (the "2"): the released program leaves both out unless it is given an
 * --activation_compression_ratio, and then its plans look better than they are (papers' ratio 1 is this).
 * Differences, all of them in the open: out(I) counts what crosses the cut, where the release also counts a
 * branch point that both of its branches have passed; ranges are differences of ideals only, where its inner
 * level subtracts sets that are none; devices may stay idle. As in the release, the gradients
 * of the first stage between machines take 1 / (devices of a machine) of the time.
 */
#ifndef DP_POLICIES_GRAPH_HIERARCHICAL_H
#define DP_POLICIES_GRAPH_HIERARCHICAL_H

#include "policies/graph/plan.h"

#define DP_PLAN_LEVELS 2

struct dp_plan_hierarchical {
    uint32_t n_levels;                  /* 1 or 2 */
    uint32_t devices[DP_PLAN_LEVELS];   /* devices (of a machine), machines */
    double bytes_per_s[DP_PLAN_LEVELS]; /* between devices (of a machine), between machines */
    uint64_t accel_bytes; /* UINT64_MAX: no limit; one level only. A stage holds parameters and outputs once
                             for each microbatch that is under way in it: ceil(devices from it to the end /
                             replicas) */
    bool is_straight;     /* no replicas */
    uint32_t max_ideals;  /* 0: DP_IDEALS_CAP */
};

/* g: a profile. As dp_plan_maxload(); bound_ns is all compute spread without loss, or one unit with as many
 * replicas as serve it. Where there are too many ideals the best of several orders comes out (line.h). */
int dp_plan_hierarchical(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                         struct dp_graph_plan *out, struct dp_err *err);

/* Loads of a plan by the formulas above, from the graph and the plan's stage_of, group and replicas alone:
 * sets the times and bytes of its stages and load_ns. returns 0 or -1 (DP_ENOMEM). */
int dp_plan_hierarchical_weigh(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                               struct dp_graph_plan *p, struct dp_err *err);

#endif
