/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of a run of several workers: each writes its layers, the leader makes them one. */
#ifndef DP_WORKER_CHECKPOINT_DISTRIBUTED_H
#define DP_WORKER_CHECKPOINT_DISTRIBUTED_H

#include "worker/checkpoint/checkpoint.h"
#include "worker/model/stage.h"
#include "worker/net/collectives.h"

/* The checkpoints that this run made, as one of its workers knows them. All zero: none. */
struct dp_saved {
    char path[1100];  /* the newest one that succeeded, empty: none */
    char begun[1100]; /* the newest one that is finished or not: the leader was lost before it could tell; empty: none */
    uint32_t layer;   /* one of those that this worker wrote for it */
    bool has_layer;   /* did it write any? */
    struct dp_ckpt_entry entry; /* of that layer */
};

/* Collective. Succeeds or fails on all workers alike; a failure leaves older checkpoints as they were. saved: kept for the next
 * calls. err: not NULL. */
int dp_distributed_save(struct dp_collectives *collectives, const struct dp_train_config *config, struct dp_backend *be,
                        const struct dp_tune *tune, struct dp_stage *stage, uint64_t step, struct dp_saved *saved,
                        struct dp_err *err);

/* What a run begins with, decided by the leader and the same on all. */
struct dp_start {
    uint64_t step;   /* 0: from the beginning */
    char path[1100]; /* of the checkpoint, empty: none */
    bool is_weights; /* it gives weights alone (checkpoint.weights): the run is a new one */
    struct dp_tune tune;
};

/* Does it go on with a run, rather than begin one? */
bool dp_start_resumes(const struct dp_start *start);

/* From the configuration and the folders it names; the table is the checkpoint's, empty without one. Not collective. */
int dp_start_find(const struct dp_train_config *config, struct dp_start *out, struct dp_err *err);

/* Collective: find the checkpoint, take its tune table or measure one. err: not NULL. */
int dp_start_agree(struct dp_collectives *collectives, const struct dp_train_config *config, struct dp_backend *be,
                   struct dp_start *out, struct dp_err *err);

/* Collective, of those who are left of a run: go back to its newest checkpoint, else to what the run began with, which is in *out.
 * The tune table stays. err: not NULL. */
int dp_start_again(struct dp_collectives *collectives, const struct dp_train_config *config, struct dp_saved *saved,
                   struct dp_start *out, struct dp_err *err);

/* This worker's layers, from the checkpoint or new. Not collective. NULL and err on failure. */
struct dp_stage *dp_start_stage(const struct dp_train_config *config, struct dp_backend *be,
                                const struct dp_start *start, const struct dp_layout *layout, uint32_t rank,
                                struct dp_err *err);

#endif
