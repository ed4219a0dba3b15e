/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of checkpoint.c: manifest.json. */
#ifndef DP_WORKER_CHECKPOINT_CKPT_MANIFEST_H
#define DP_WORKER_CHECKPOINT_CKPT_MANIFEST_H

#include "common/run/layout.h"
#include "worker/checkpoint/checkpoint.h"

struct dp_ckpt_manifest {
    uint64_t step;
    struct dp_tune tune;
    struct dp_ckpt_entry entry[DP_MAX_LAYERS]; /* dp_model_layers() used */
};

/* The file name of a layer inside the checkpoint's directory. */
void dp_ckpt_layer_name(uint32_t index, char out[32]);

/* The manifest as text that the caller frees. */
char *dp_ckpt_manifest_encode(const struct dp_train_config *config, const struct dp_ckpt_manifest *m,
                              struct dp_err *err);
/* From the file at `path`: DP_ECORRUPT when its checksum does not match, DP_EINVAL when it is of another
 * model. The caller frees the result. */
struct dp_ckpt_manifest *dp_ckpt_manifest_read(const char *path, const struct dp_train_config *config,
                                               struct dp_err *err);

#endif
