/* SPDX-License-Identifier: BSD-3-Clause */
/* A training run to simulate: model, devices, network, schedule, and what happens when.
 *
 * Layers get their costs from a table (a cost at some densities, linear between them) or, in a recorded
 * run, from what was measured. Devices are numbered over the whole job, all replicas of the pipeline
 * together; nodes hold equal runs of numbers.
 */
#ifndef DP_POLICIES_SIM_CASE_CASE_H
#define DP_POLICIES_SIM_CASE_CASE_H

#include "policies/policy.h"
#include "policies/sim/iteration/iteration.h"

#define DP_SIM_MAX_LAYERS 100000u /* a hundred times what a run may have */
#define DP_SIM_MAX_CELLS (1u << 22) /* replicas * stages */
#define DP_SIM_OWN_POLICY "./" /* name of dp_sim_case.own: no policy of the registry has a slash */
#define DP_SIM_LONGEST_NS 1e18      /* an iteration of 31 years: what is longer is an error */

/* Costs of one layer; times of one microbatch on a device of speed 1. */
struct dp_sim_layer {
    uint64_t fwd_ns, bwd_input_ns, bwd_weight_ns;
    uint64_t opt_ns; /* once per iteration */
    uint64_t state_bytes, act_bytes, wgrad_bytes;
    uint64_t grad_bytes;   /* what the all-reduce carries */
    uint64_t output_bytes; /* message to the next layer, and of the gradient back */
    uint64_t message_ns;   /* what sending or receiving one such message takes of a device's own time */
    uint64_t params, nnz;
};

/* Costs at one density (share of the weights that are left). */
struct dp_sim_point {
    double density;
    struct dp_sim_layer cost;
};

struct dp_sim_layer_kind {
    char name[64];
    uint32_t n_points;
    struct dp_sim_point *point; /* by rising density; one: cost does not depend on it */
};

struct dp_sim_tier {
    uint64_t latency_ns;
    double bytes_per_s; /* 0: size costs nothing */
};

enum dp_sim_release { DP_SIM_RELEASE_NONE, DP_SIM_RELEASE_DEVICES, DP_SIM_RELEASE_NODES };

/* What happens before an iteration (from 1). Members that are not given change nothing. */
struct dp_sim_event {
    uint64_t iteration;
    bool has_density;
    double density;              /* of all layers, where densities is NULL */
    double *densities;           /* [n_layers], or NULL */
    struct dp_sim_layer *layer;  /* [n_layers] measured, or NULL */
    uint32_t *count, n_count;    /* layers of each stage in order, or NULL */
    char policy[32];             /* find a new layout with it; empty: do not */
    uint32_t devices;            /* of a pipeline, that it may use; 0: those that it may use now */
    enum dp_sim_release release; /* give back what owns no layers */
    bool has_pause;
    uint64_t pause_ns;    /* nothing is computed; else what moving the layers takes */
    uint64_t overhead_ns; /* pause besides: profiling, deciding, agreeing */
    uint64_t measured_ns; /* iteration time of the real run, 0: unknown */
    double lost;          /* share of it in which a worker neither computed nor waited, the most of all workers */
};

struct dp_sim_case {
    char name[128], source[1024];
    enum dp_schedule_kind schedule;
    uint32_t devices; /* of one pipeline */
    uint32_t chunks, microbatches, replicas, buckets;
    uint64_t tokens; /* of one microbatch */
    uint32_t devices_per_node; /* 0: one node */
    bool is_data_inside; /* device d of replica r is number d * replicas + r, else r * devices + d */
    struct dp_sim_tier inside, between;
    struct dp_sim_tier *next; /* [devices] of a recorded run: from each device to the next one; NULL: as its tier */
    double *speed; /* [replicas * devices] by replica, then device; NULL: 1 */
    uint64_t memory_bytes; /* of a device, 0: unlimited */

    uint32_t n_kinds, n_layers;
    struct dp_sim_layer_kind *kind;
    uint32_t *kind_of; /* [n_layers], NULL in a recorded run */
    char policy[32]; /* of the layout to begin with, where it has none */
    const struct dp_policy *own; /* one that is in no registry, asked with own_state; NULL: none. Borrowed */
    void *own_state;
    uint32_t *count, n_count; /* layout to begin with, or NULL */
    /* Stages of several devices (actions.h), or NULL: one chunk, one replica and one layout, which is `count`. */
    uint32_t *width; /* [n_count] devices of each stage */
    uint32_t *place; /* [sum of width] which they are, stage by stage */

    uint64_t iterations;
    uint32_t n_events;
    struct dp_sim_event *event; /* by rising iteration */
};

/* Frees what *c holds and empties it. */
void dp_sim_case_release(struct dp_sim_case *c);

/* Are devices, chunks and replicas together few enough? For readers, before they allocate by them. */
int dp_sim_case_check_shape(const struct dp_sim_case *c, struct dp_err *err);

/* What one reader or option alone cannot tell: numbers that do not fit together. */
int dp_sim_case_check(const struct dp_sim_case *c, struct dp_err *err);

/* Cost of a kind of layer at a density: linear between its points. returns -1 outside of them. */
int dp_sim_cost_at(const struct dp_sim_layer_kind *kind, double density, struct dp_sim_layer *out, struct dp_err *err);

/* Layers from layer 0 on that only go forward: both backward times and act_bytes are 0. 0 where none learns: costs of
 * forward alone stand for the whole. */
uint32_t dp_sim_forward_only(const struct dp_sim_layer *layer, uint32_t n_layers);

/* Number of a device over the whole job, and its node. */
uint32_t dp_sim_device_number(const struct dp_sim_case *c, uint32_t replica, uint32_t device);
uint32_t dp_sim_node(const struct dp_sim_case *c, uint32_t replica, uint32_t device);
/* Between device a and device b of a replica. */
const struct dp_sim_tier *dp_sim_tier_between(const struct dp_sim_case *c, uint32_t replica, uint32_t a, uint32_t b);
uint64_t dp_sim_transfer_ns(const struct dp_sim_tier *tier, double bytes); /* without the latency */

#endif
