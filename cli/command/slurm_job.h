/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command asks Slurm about a job: where its coordinator sits, and which job somebody means. */
#ifndef DP_CLI_COMMAND_SLURM_JOB_H
#define DP_CLI_COMMAND_SLURM_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Name of the batch host of a running job. Blocks for up to 10 s; the last answer is remembered.
 * returns: 0, or -1 when Slurm does not answer or knows no such running job. */
int dp_batch_host(uint32_t job_id, char *out, size_t cap, struct dp_err *err);

/* Is this how squeue writes one job of an array (12_3), or a component of a heterogeneous job (12+1)? */
bool dp_job_is_member(const char *text);
/* Its own job id. Blocks for up to 10 s. returns: 0, or -1 when Slurm does not answer or knows none. */
int dp_job_of_member(const char *text, uint32_t *job_id, struct dp_err *err);

#endif
