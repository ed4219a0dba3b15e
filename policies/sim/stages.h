/* SPDX-License-Identifier: BSD-3-Clause */
/* A case's layers under a layout, as what dp_sim_iterate() takes: stages, links, all-reduces. */
#ifndef DP_POLICIES_SIM_STAGES_H
#define DP_POLICIES_SIM_STAGES_H

#include "policies/sim/case/case.h"

/* Place k (program.h) is on device used[k % n_used]; there are n_used * chunks of them. */
struct dp_sim_layout {
    uint32_t n_used, n_stages;
    uint32_t *used;     /* [devices], n_used of them, rising where stages have one device each */
    uint32_t *cut;      /* [devices * chunks + 1], n_stages + 1 of them: stage s owns layers [cut[s], cut[s+1]) */
    uint32_t *stage_of; /* [devices * chunks] stage of each place */
};

/* Room for any layout of the case, with no device used yet. returns 0, or -1 with DP_ENOMEM and nothing to release. */
int dp_sim_layout_create(const struct dp_sim_case *c, struct dp_sim_layout *out, struct dp_err *err);
/* Free it; a struct of zeroes may be released, too. */
void dp_sim_layout_release(struct dp_sim_layout *layout);
/* Both made for the case c; what *to had is overwritten. */
void dp_sim_layout_copy(const struct dp_sim_case *c, const struct dp_sim_layout *from, struct dp_sim_layout *to);

/* Layers per stage into a layout. With one chunk a device count[i] is device i's, 0: it owns nothing;
 * with more there are n * chunks numbers for the first n devices. returns -1: does not fit the case. */
int dp_sim_layout_set(const struct dp_sim_case *c, const uint32_t *count, uint32_t n_count, struct dp_sim_layout *layout,
                      struct dp_err *err);
uint32_t dp_sim_layout_stage(const struct dp_sim_layout *layout, uint32_t layer);
/* The device that owns a layer, where stages have one each. */
uint32_t dp_sim_layout_owner(const struct dp_sim_layout *layout, uint32_t layer);

struct dp_sim_stages {
    struct dp_sim_program *program; /* of `made_for` devices */
    uint32_t made_for;
    struct dp_sim_stage *stage; /* [replicas][places] */
    struct dp_sim_link *link;   /* [replicas][links of the program] */
    uint32_t room;              /* links of a replica that there is room for */
    uint64_t *reduce_ns;        /* [places] */
    struct dp_sim_in in;        /* refers to the above */
};

/* Room for the tables of a case of one device a stage; dp_sim_stages_fill() makes more where stages have several.
 * returns 0, or -1 with DP_ENOMEM and nothing to release. */
int dp_sim_stages_create(const struct dp_sim_case *c, struct dp_sim_stages *out, struct dp_err *err);
/* Free tables and program; a struct of zeroes may be released, too. */
void dp_sim_stages_release(struct dp_sim_stages *s);

/* Fill in everything for layers[n_layers] under a layout.
 *
 * Ring all-reduce of n bytes over R replicas, or the R devices of a stage: 2 steps that carry n / R bytes each (Patarasuk and
 * Yuan 2009, J. Parallel Distrib. Comput. 69, section 3); its slowest link sets the pace.
 * The global norm is a sum over all devices by a binary tree, to the root and back: 2 ceil(log2 n)
 * messages of no size.
 * Layers from layer 0 on that only go forward (dp_sim_forward_only()) have no gradient to reduce, and no device handles
 * gradients below the first one that learns. */
int dp_sim_stages_fill(const struct dp_sim_case *c, const struct dp_sim_layer *layer, const struct dp_sim_layout *layout,
                       struct dp_sim_stages *s, struct dp_err *err);

#endif
