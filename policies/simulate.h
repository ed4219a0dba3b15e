/* Iteration time of a pipeline, exactly, for stages of any length: an event-driven run of the
 * schedule's order on every stage, without noise.
 *
 * Stages compute one thing at a time, in the order of the schedule. A message leaves when its sender
 * has finished, waits until the link (one per boundary and direction) is free, occupies it for
 * boundary_ns and arrives latency_ns later; computing goes on meanwhile. The optimizer starts on all
 * stages when the last backward of the slowest has ended, because clipping needs the global norm.
 */
#ifndef DP_POLICIES_SIMULATE_H
#define DP_POLICIES_SIMULATE_H

#include "policies/policy.h"

struct dp_sim_stage {
    uint64_t fwd_ns, bwd_ns; /* one microbatch */
    uint64_t opt_ns;         /* once per step */
    uint64_t state_bytes;    /* weights, gradients, optimizer */
    uint64_t act_bytes;      /* kept from forward to backward, one microbatch */
};

struct dp_sim_in {
    enum dp_schedule_kind schedule;
    uint32_t n_stages, microbatches;
    const struct dp_sim_stage *stage; /* [n_stages] */
    uint64_t latency_ns, boundary_ns; /* of one message between neighbours */
};

struct dp_sim_stage_out {
    uint64_t busy_ns;   /* computing in one step */
    double bubble;      /* 1 - busy / iteration */
    uint32_t in_flight; /* most microbatches whose activations are kept at once */
    uint64_t mem_bytes; /* state + in_flight * activations */
};

/* out: [n_stages] or NULL. returns 0, or -1 (no stages, no microbatches, out of memory). */
int dp_simulate(const struct dp_sim_in *in, struct dp_sim_stage_out *out, uint64_t *iteration_ns,
                struct dp_err *err);

/* The same for a layout of a snapshot; stage i of out is the i-th worker that owns layers.
 * out: [dp_layout_active(layout)] or NULL. */
int dp_sim_layout(const struct dp_policy_in *in, const struct dp_layout *layout, struct dp_sim_stage_out *out,
                  uint64_t *iteration_ns, struct dp_err *err);

#endif
