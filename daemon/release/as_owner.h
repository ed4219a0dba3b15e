/* SPDX-License-Identifier: BSD-3-Clause */
/* What Slurm is asked for with the rights of a job's owner: to shrink the job to the nodes that it keeps, to lower its
 * memory, or to end it, stalled, and put it back into the queue. */
#ifndef DP_DAEMON_RELEASE_AS_OWNER_H
#define DP_DAEMON_RELEASE_AS_OWNER_H

#include <stddef.h>
#include <stdint.h>

#include "common/slurm/job.h"

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

struct dp_memory_request {
    uint32_t job_id, restart_count;
    uint32_t mb; /* MiB on each node, from now on */
};

/* dp_helper_work_fn, answered by a struct dp_shrink_result; rc 1: Slurm will not do it. Blocks; for dp_priv_start(). */
size_t dp_memory_work(const void *request, size_t bytes, uint8_t *result);

struct dp_requeue_request {
    uint32_t job_id, restart_count;
    uint32_t may_requeue; /* 0: it is only ended, as where Slurm may not requeue it */
};

/* dp_helper_work_fn, answered by a struct dp_shrink_result. Blocks; for dp_priv_start(). */
size_t dp_requeue_work(const void *request, size_t bytes, uint8_t *result);

/* In the child: become that user for good; everything that it could do besides ends. returns 0, or -1 and why in text. */
int dp_owner_become(const struct dp_job_info *job, char text[256]);

#endif
