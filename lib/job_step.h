/* SPDX-License-Identifier: BSD-3-Clause */
/* What Slurm and DynPipe's plugin left in the environment of a step. */
#ifndef DP_LIB_JOB_STEP_H
#define DP_LIB_JOB_STEP_H

#include <stdbool.h>
#include <stdint.h>

/* Of Slurm's environment: 0 outside of a job; DynPipe's options, "" where they are none that can be read. */
void dp_job_step(uint32_t *job_id, uint32_t *step_id, char options[256]);

/* The job's options came along, and nobody took them: where the plugin ran, it set DYNPIPE_MODE at least. why: for
 * people. returns false: it ran, or DynPipe was not asked for. */
bool dp_job_lacks_plugin(char why[256]);

#endif
