/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints that do not know how many workers wrote them.
 *
 * DIR/step-00000123/ holds one file per layer (dp_layer_write's stream) and manifest.json with the
 * model, the step, the tune table and for each file its size and SHA-256. Workers write their layers
 * into DIR/step-00000123.tmp/, sync them and tell the leader size and digest; the leader writes the manifest,
 * syncs, renames the directory, syncs DIR: a name without .tmp is complete or was damaged later, and
 * then a digest says so.
 */
#ifndef DP_WORKER_CHECKPOINT_CHECKPOINT_H
#define DP_WORKER_CHECKPOINT_CHECKPOINT_H

#include "common/message/msg.h"
#include "worker/model/layer.h"

struct dp_ckpt_entry {
    uint64_t bytes;
    uint8_t digest[DP_DIGEST_BYTES];
};

/* Make DIR/step-N.tmp (the leader calls it before the others write). */
int dp_ckpt_begin(const struct dp_train_config *config, uint64_t step, struct dp_err *err);
/* Write and sync one layer. *out: for the manifest. */
int dp_ckpt_write_layer(const struct dp_train_config *config, uint64_t step, const struct dp_layer *layer,
                        struct dp_ckpt_entry *out, struct dp_err *err);
/* The leader: what was written of a checkpoint that cannot be finished goes; on a full disk it would keep
 * everybody else from writing. */
void dp_ckpt_abandon(const struct dp_train_config *config, uint64_t step);
/* The leader: entries of all layers in order. Removes checkpoints of steps up to this one beyond config->checkpoint.keep,
 * oldest first. */
int dp_ckpt_commit(const struct dp_train_config *config, uint64_t step, const struct dp_tune *tune,
                   const struct dp_ckpt_entry *entries, struct dp_err *err);
/* *step: of the newest one in config's dir. returns 1; 0: there is none; -1 and err (may be NULL): nobody can tell. */
int dp_ckpt_newest(const struct dp_train_config *config, uint64_t *step, struct dp_err *err);
/* Is there a checkpoint of that name, and its layer the one of *entry? */
bool dp_ckpt_has(const struct dp_train_config *config, const char *path, uint32_t layer, const struct dp_ckpt_entry *entry);
/* Where the finished checkpoint of a step is. */
void dp_ckpt_name(const struct dp_train_config *config, uint64_t step, char *out, size_t cap);

/* What a run resumes from. path: a checkpoint, or "auto": the newest complete one in config's dir
 * (*step = 0 and out_path empty when there is none). The manifest must fit config's model. */
int dp_ckpt_find(const struct dp_train_config *config, const char *path, uint64_t *step, char *out_path,
                 size_t cap, struct dp_tune *tune, struct dp_err *err);
/* The same of a checkpoint at `path`, or else of the newest one in the folder `path`: a damaged one is an error, older ones are not
 * taken instead. No word is special; that there is none is an error. */
int dp_ckpt_find_in(const struct dp_train_config *config, const char *path, uint64_t *step, char *out_path, size_t cap,
                    struct dp_tune *tune, struct dp_err *err);
/* One layer; its digest is checked first: DP_ECORRUPT names file and digests. */
struct dp_layer *dp_ckpt_read_layer(const char *path, const struct dp_train_config *config, uint32_t index,
                                    struct dp_backend *be, const struct dp_tune *tune, struct dp_err *err);

#endif
