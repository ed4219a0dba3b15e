/* SPDX-License-Identifier: BSD-3-Clause */
/* One training iteration of a pipeline and its data-parallel replicas: when it ends, what every device
 * did, and how much memory it took.
 *
 *   forward and backward     as the schedule says (program.h), each replica for itself
 *   all-reduce of gradients  per stage, over its replicas and its devices, in `buckets` equal parts: a part
 *                            starts when its share of the stage's last backward has ended in all of them;
 *                            a device sends one part at a time while it computes on
 *   global norm              when everything before has ended everywhere (clipping needs it)
 *   optimizer                after it, on all devices at once
 *
 * Stages from the first one on that compute no gradient and keep nothing (both backward times and act_bytes are 0) only go
 * forward: frozen layers, before the first one that learns. They have no backward operations, no gradient comes to them,
 * and they hold no microbatch. Where no stage learns at all, costs are times of forwards that stand for both: as without.
 */
#ifndef DP_POLICIES_SIM_ITERATION_ITERATION_H
#define DP_POLICIES_SIM_ITERATION_ITERATION_H

#include "policies/sim/iteration/program.h"

#define DP_SIM_MAX_BUCKETS 64u /* each is a message more for every stage */

struct dp_sim_stage {
    uint64_t fwd_ns, bwd_input_ns, bwd_weight_ns; /* one microbatch */
    uint64_t opt_ns;                              /* once per iteration */
    uint64_t state_bytes;                         /* weights, gradients, optimizer */
    uint64_t act_bytes;                           /* kept from forward to backward, one microbatch */
    uint64_t wgrad_bytes;                         /* kept on until the gradient of the weights, where that is apart */
};

struct dp_sim_in {
    struct dp_sim_program *program;
    uint32_t replicas;                /* >= 1; those that are alike are computed once */
    const struct dp_sim_stage *stage; /* [replicas][V] by place (program.h), on its own device */
    const struct dp_sim_link *link;   /* [replicas][L] as dp_sim_program_run() takes them */
    const uint64_t *reduce_ns;        /* [V] all-reduce of one bucket; NULL: none */
    uint32_t buckets;                 /* 1..DP_SIM_MAX_BUCKETS where reduce_ns is given */
    uint64_t norm_ns;
};

/* What one device did. */
struct dp_sim_stage_out {
    uint64_t busy_ns;   /* computing in one iteration */
    uint64_t end_ns;    /* of its last operation */
    double bubble;      /* 1 - busy / iteration */
    uint32_t in_flight; /* most microbatches (of chunks) that are kept at once */
    uint64_t mem_bytes; /* state + the most that its kept microbatches take together */
};

/* One part of an all-reduce; bucket b of place k. */
struct dp_sim_reduction {
    uint64_t start_ns, end_ns;
};

struct dp_sim_out {
    uint64_t iteration_ns;
    uint64_t backward_ns, reduce_ns, norm_ns;     /* when the last of each has ended */
    struct dp_sim_stage_out *device;              /* [replicas][D] = or NULL, the caller's */
    struct dp_sim_span *span;                     /* [actions] = of replica 0, or NULL */
    uint32_t n_spans;                             /* of them that ran */
    struct dp_sim_reduction *reduction;           /* [V][buckets] =, or NULL */
};

/* The first stage that learns: those before it only go forward, in all replicas. */
uint32_t dp_sim_first_live(const struct dp_sim_in *in);

/* The caller sets the three arrays of *out. returns 0, or -1 (out of memory). */
int dp_sim_iterate(const struct dp_sim_in *in, struct dp_sim_out *out, struct dp_err *err);

/* No order of the actions can be faster: the largest of a device's work with the way of the first
 * microbatch to it and of the last gradient from it, and of one microbatch's way through all stages.
 * Of replica 0, norm and optimizer included. */
uint64_t dp_sim_lower_bound(const struct dp_sim_in *in);

#endif
