/* Ask Slurm to shrink a job to the nodes that it keeps, with the rights of the job's owner. */
#ifndef DP_DAEMON_SHRINK_H
#define DP_DAEMON_SHRINK_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/coordinator.h"

struct dp_shrink_request {
    uint32_t job_id, restart_count;
    char keep[DP_MAX_SLOTS * 64]; /* names separated by commas */
};

struct dp_shrink_result {
    int rc;         /* 0: Slurm said yes; that alone proves nothing */
    char text[256];
};

/* dp_helper_work_fn. Blocks; for dp_priv_start(). */
size_t dp_shrink_work(const void *request, size_t bytes, uint8_t *result);

#endif
