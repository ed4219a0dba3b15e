/* SPDX-License-Identifier: BSD-3-Clause */
/* Planners of other systems, to compare with. Each cuts a few orders of the units (line.h) by its own objective, and the best
 * answer becomes a plan that is weighed and simulated like one of hierarchical.h: so plans of all of them have loads that can
 * be compared, whatever each minimises itself (objective_ns of the plan).
 *
 * PipeDream-2BW (Narayanan, Phanishayee, Shi, Chen and Zaharia, "Memory-Efficient Pipeline-Parallel DNN Training", ICML'21):
 * d stages with w replicas each, w d = devices, microbatches of b, with or without recomputation, all enumerated. A microbatch
 * takes
 *
 *   max over stages i of  max(compute_i b + (in_i + out_i) b / B + messages_i latency, sync_i w b / microbatches)  / (w b)
 *
 *   in_i, out_i  bytes of activations that come and of gradients that come back, B bytes per second on a link
 *   sync_i       2 (w - 1) / w * parameters_i / B: gradients once an iteration, beside the compute
 *   compute_i    forward and backward, and the forward a second time with recomputation
 *   memory       state of the parameters, a second version of the weights, and what d - i microbatches keep; with
 *                recomputation the inputs of those, and what one keeps
 *
 * As in the paper: equal width, the enumeration, the maximum, two versions of the weights. Not as there: its blocks are all alike
 * and it gives every stage as many, here stages are cut for the least maximum; its forward costs a constant more, here each stage
 * its own; times are measured at one size of microbatch and taken to rise with it, so that larger ones pay only where messages
 * have a latency.
 *
 * Alpa (Zheng et al., "Alpa: Automating Inter- and Intra-Operator Parallelism for Distributed Deep Learning", OSDI'22): operators
 * are clustered into at most 64 layers, a stage is a range of layers on a submesh, and an iteration of N microbatches takes
 *
 *   min over t_max of  (sum of t_i) + (N - 1) t_max,  all t_i <= t_max
 *
 * Submeshes are 1, 2, 4 ... devices of a machine, the whole machine, 2, 4 ... whole machines, and all. As in the paper: the clusters
 * (none has more than 1.5 times its share of the compute, then the dearest cut is the least), submeshes, objective, enumerated
 * t_max, no time for transfers between stages. Not as there: inside a stage operators are not parted but the stage has replicas,
 * t_i = (compute_i + sync_i) / r with hierarchical.h's sync; submeshes are laid out in the order of the pipeline, none inside of
 * two machines; devices may stay idle. Memory is that of evaluate.c.
 *
 * DAPPLE (Fan, Rong, Meng et al., "DAPPLE: A Pipelined Data Parallel Approach for Training Large Models", PPoPP'21): an
 * iteration of M microbatches has a warmup until the pivot stage Q has the first of them, a steady phase of Q alone, and an
 * ending in which they go back and replicas exchange their gradients:
 *
 *   max over Q of  (sum of F_a, a <= Q) + (M - 1) (F_Q + B_Q)
 *                  + max over stages s of  AR_s + (sum of B_a, s <= a <= Q)  where s <= Q,
 *                                          AR_s - (sum of B_a, Q <= a <= s)  where s > Q
 *
 *   stages a     compute and transfers in turn, both of them stages; a transfer has no AR_a
 *   F_a, B_a     forward and backward of a microbatch: compute_a / r_a, or bytes over as many links as the side with fewer
 *                replicas has
 *   AR_a         2 (r_a - 1) / r_a * parameters_a / B: a ring
 *
 * As in the paper, from memory (its text was not at hand): phases, formula, transfers as stages, replicas that have a part of
 * each microbatch. Not as there: the paper finds Q by a walk from the last stage, on which s takes the pivot's place when (M - 1)
 * (F_s + B_s) > (M - 1) (F_Q + B_Q) + what lies between; here it is the stage for which the latency is longest. That is mostly the
 * same one (nine of ten small random plans), no order of the work undercuts it, and it can be planned exactly, where the paper's
 * program goes from stage to stage. Devices are of one level, so its three ways to place a stage on machines are one; devices may
 * stay idle; memory is that of evaluate.c.
 *
 * Piper (Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS'21): stages are
 * differences of downsets, stage i has d_i replicas, each layer v runs in one of the ways that its input has for it (TMPC), and a
 * microbatch takes
 *
 *   max over stages i of  (sum of time_v + 2 moved_i / B) / d_i  +  4 (d_i - 1) / d_i * parameters_i / B / microbatches
 *
 *   moved_i      bytes of activations that come to the stage, and that leave it, each output once; back come as many
 *   memory       sum of A_v ceil(s_i / d_i) + B_v within a device's, s_i the replicas of stage i and of all behind it: with so
 *                many microbatches under way
 *
 * As in the paper and its program: downsets, replicas, the sum of compute, transfers and exchange, the factor 4 of it (PipeDream's),
 * memory by what is under way, and a knapsack for the ways. From memory, since its text was not at hand: that transfers add to the
 * time and go over d_i links. Not as there: ways on several devices (tensor parallelism) are not planned, only those on one, with
 * recomputation and without; the knapsack is exact up to 1024 pairs of time and memory; of more downsets than can be looked at the
 * four orders are cut; a profile of PipeDream has one way; devices may stay idle.
 *
 * CLASSES is nobody's paper: classes.h has what it minimises, which is the load itself. */
#ifndef DP_POLICIES_GRAPH_PAPERS_PAPERS_H
#define DP_POLICIES_GRAPH_PAPERS_PAPERS_H

#include "policies/graph/classes/classes.h"

struct dp_paper_ask {
    /* levels, devices, bytes_per_s, accel_bytes, microbatches (not 0) and watch; of CLASSES is_straight, microbatches and watch.
     * Nothing else of it counts. */
    const struct dp_plan_hierarchical *net;
    uint64_t latency_ns; /* of a message; 2BW only */
    const struct dp_classes *classes; /* of CLASSES, else NULL: devices, links and memory */
};

/* Is it one of these? */
bool dp_paper_is(enum dp_plan_algorithm algorithm);
/* How many levels of devices does it know? */
uint32_t dp_paper_levels(enum dp_plan_algorithm algorithm);

/* g: a profile. PIPER's plan is weighed with the ways of its way_of. *out is the caller's to release, whatever comes back.
 * is_optimal: CLASSES has cut the only order that there is everywhere; the load of others is not what they minimise. returns
 * 0, or -1: DP_EINVAL (the question), DP_ENOMEM (no plan fits, or no memory here), DP_ETIMEOUT (the watch ended it before
 * there was a plan). */
int dp_paper_find(const struct dp_graph *g, enum dp_plan_algorithm algorithm, const struct dp_paper_ask *ask, struct dp_graph_plan *out,
                  struct dp_err *err);

#endif
