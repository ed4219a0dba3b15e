/* Where the coordinator of a job sits: the job's batch host, asked from Slurm. */
#ifndef DP_CLI_BATCH_HOST_H
#define DP_CLI_BATCH_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Name of the batch host of a running job. Blocks for up to 10 s; the last answer is remembered.
 * returns: 0, or -1 when Slurm does not answer or knows no such running job. */
int dp_batch_host(uint32_t job_id, char *out, size_t cap, struct dp_err *err);

#endif
