/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of a run of several workers: each writes its layers, rank 0 makes them one. */
#ifndef DP_WORKER_CHECKPOINT_DISTRIBUTED_H
#define DP_WORKER_CHECKPOINT_DISTRIBUTED_H

#include "worker/checkpoint/checkpoint.h"
#include "worker/model/stage.h"
#include "worker/net/collectives.h"

/* Collective. Succeeds or fails on all workers alike; a failure leaves older checkpoints as they were.
 * path: of the finished checkpoint, on rank 0, where it was finished; in force even when the others then could not be told.
 * err: not NULL. */
int dp_distributed_save(struct dp_collectives *collectives, const struct dp_train_config *config, struct dp_backend *be,
                        const struct dp_tune *tune, struct dp_stage *stage, uint64_t step, char *path, size_t cap,
                        struct dp_err *err);

/* What a run begins with, decided by rank 0 and the same on all. */
struct dp_start {
    uint64_t step;   /* 0: from the beginning */
    char path[1100]; /* of the checkpoint, empty: none */
    struct dp_tune tune;
};

/* Collective: find the checkpoint, take its tune table or measure one. err: not NULL. */
int dp_start_agree(struct dp_collectives *collectives, const struct dp_train_config *config, struct dp_backend *be,
                   struct dp_start *out, struct dp_err *err);

/* Collective, of those who are left of a run: go back to the checkpoint at saved_path (on rank 0, empty: none was made), else to
 * what the run began with, which is in *out. The tune table stays. err: not NULL. */
int dp_start_again(struct dp_collectives *collectives, const struct dp_train_config *config, const char *saved_path,
                   struct dp_start *out, struct dp_err *err);

/* This worker's layers, from the checkpoint or new. Not collective. NULL and err on failure. */
struct dp_stage *dp_start_stage(const struct dp_train_config *config, struct dp_backend *be,
                                const struct dp_start *start, const struct dp_layout *layout, uint32_t rank,
                                struct dp_err *err);

#endif
