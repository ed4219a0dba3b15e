/* SPDX-License-Identifier: BSD-3-Clause */
/* See job_step.h. */
#include "lib/job_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/options.h"

static uint32_t number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

void dp_job_step(uint32_t *job_id, uint32_t *step_id, char options[256])
{
    static const struct dp_plugin_args any = {.default_mode = DP_MODE_OFF};
    const char *text = getenv(DP_ENV_SPEC);
    struct dp_msg_step_start parsed;

    *job_id = number_of("SLURM_JOB_ID");
    *step_id = number_of("SLURM_STEP_ID");
    snprintf(options, 256, "%.255s", text && dp_options_parse(text, &any, &parsed, NULL) == 0 ? text : "");
}

bool dp_job_lacks_plugin(char why[256])
{
    const char *mode = getenv("DYNPIPE_MODE"), *node = getenv("SLURMD_NODENAME");

    if (!getenv("SLURM_DYNPIPE") || (mode && !strcmp(mode, "off")))
        return false;
    if (getenv("SLURM_CONTAINER")) {
        snprintf(why, 256, "the job asks for DynPipe, but what its plugin sets for each task is not in this container: Slurm 22.05 "
                           "gives none of it to srun --container (let srun start the container's program instead: srun apptainer "
                           "exec ...)");
        return true;
    }
    snprintf(why, 256, "the job asks for DynPipe, but Slurm's step on node %.64s did not load spank_dynpipe.so (plugstack.conf "
                       "there)", node ? node : "?");
    return true;
}
