/* SPDX-License-Identifier: BSD-3-Clause */
/* One run at a time in a checkpoint directory. Two would remove each other's unfinished checkpoints and
 * take turns at naming the newest one. */
#ifndef DP_WORKER_CHECKPOINT_CKPT_LOCK_H
#define DP_WORKER_CHECKPOINT_CKPT_LOCK_H

#include "worker/model/train_config.h"

/* Make the directory where it is missing, and lock it for as long as this process lives or until
 * close(*fd). A run that is just ending is waited for, some seconds. *fd: -1 where config names no
 * directory, or where its file system has no locks (a warning is logged).
 * returns: -1 when another run holds it (its host and process are named), or it cannot be written. */
int dp_ckpt_lock(const struct dp_train_config *config, int *fd, struct dp_err *err);

#endif
