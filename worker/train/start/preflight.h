/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run would stumble over later, looked for before anything is computed: by --check-config, and by each
 * run before kernels are measured. */
#ifndef DP_WORKER_TRAIN_START_PREFLIGHT_H
#define DP_WORKER_TRAIN_START_PREFLIGHT_H

#include "worker/model/train_config.h"

/* Can the files of `output` be written, and is the folder of the checkpoints there, or can it be made? Makes
 * none of them. DP_EINVAL with the key and the path. */
int dp_preflight_files(const struct dp_train_config *config, struct dp_err *err);

/* All that needs no other worker: these files, the text, the first layout, the checkpoint to go on from.
 * *step: of that checkpoint, 0: none. */
int dp_preflight(const struct dp_train_config *config, uint64_t *step, struct dp_err *err);

#endif
