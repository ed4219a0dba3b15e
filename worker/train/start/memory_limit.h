/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory a worker's layers may take. */
#ifndef DP_WORKER_TRAIN_START_MEMORY_LIMIT_H
#define DP_WORKER_TRAIN_START_MEMORY_LIMIT_H

#include <stdint.h>

#include "kernels/backend.h"

/* Smallest memory limit of the cgroups that the text of /proc/PID/cgroup names and of those above them,
 * looked for below `root` (/sys/fs/cgroup; v2, or the memory controller of v1); 0: none. */
uint64_t dp_memory_cgroup_limit(const char *root, const char *cgroups);

/* Host memory that Slurm's cgroup of this job holds on this node and the kernel cannot drop: without the clean part of
 * its files. root and cgroups: as above. 0: there is no such cgroup. */
uint64_t dp_memory_job(const char *root, const char *cgroups);
uint64_t dp_memory_own_job(void); /* of this process */

/* Bytes for layers and their activations, 0: unlimited. memory_mb > 0: as configured. Else what everything that is held
 * now except stage_bytes, which the stage has, leaves: of the device's memory where it has its own, else of what cgroup
 * and rlimits allow this process. */
uint64_t dp_memory_limit(struct dp_backend *be, int64_t memory_mb, uint64_t stage_bytes);

#endif
