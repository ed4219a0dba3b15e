/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker needs of its node's memory, for a daemon that gives back the rest (daemon/coord/carry_out/memory.c): what is
 * resident, and what it may take beyond that for a moment. Slurm only ever lowers a running job's memory, and the
 * kernel's limit follows at once, so an estimate that is too small ends the job.
 */
#ifndef DP_WORKER_TRAIN_START_MEMORY_NEED_H
#define DP_WORKER_TRAIN_START_MEMORY_NEED_H

#include <stdint.h>

struct dp_memory_need {
    uint64_t step_bytes;      /* beyond what was resident at its end, in the newest window of steps */
    uint64_t work_bytes[32];  /* beyond what was resident before it: at the newest boundary with this work (DP_ORDER_*) */
    uint64_t before_bytes;
};

/* Around the work of a boundary. */
void dp_memory_need_begin(struct dp_memory_need *n);
void dp_memory_need_end(struct dp_memory_need *n, uint32_t work);

/* Resident bytes and what may come on top: the most of what was measured, and twice the largest layer, for a boundary
 * whose work has not been seen yet (a layer is written as a stream to save it or to hand it over, and read from one). */
uint64_t dp_memory_need_bytes(struct dp_memory_need *n, uint64_t largest_layer_bytes);

/* Give free memory of the heap back to the kernel: malloc keeps what lies between blocks that are in use. */
void dp_memory_trim(void);

#endif
