/* SPDX-License-Identifier: BSD-3-Clause */
/* See hello.h. */
#include "worker/daemon_link/hello.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/options.h"
#include "common/schedule/schedule.h"
#include "worker/scheme/scheme.h"

static uint32_t number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

void dp_hello_step(uint32_t *job_id, uint32_t *step_id, char options[256])
{
    static const struct dp_plugin_args any = {.default_mode = DP_MODE_OFF};
    const char *text = getenv(DP_ENV_SPEC);
    struct dp_msg_step_start parsed;

    *job_id = number_of("SLURM_JOB_ID");
    *step_id = number_of("SLURM_STEP_ID");
    snprintf(options, 256, "%.255s", text && dp_options_parse(text, &any, &parsed, NULL) == 0 ? text : "");
}

void dp_hello_fill(struct dp_msg_hello *h, const struct dp_train_config *c, const struct dp_layout *l,
                   uint32_t rank, uint64_t step)
{
    enum dp_schedule_kind schedule;

    memset(h, 0, sizeof *h);
    dp_hello_step(&h->job_id, &h->step_id, h->options);
    h->rank = rank;
    h->n_workers = l->n_workers;
    h->n_layers = l->n_layers;
    h->epoch = l->epoch;
    h->step = step;
    h->steps_total = (uint64_t)c->train.steps;
    h->prune_begin = (uint64_t)c->prune.begin;
    h->prune_end = (uint64_t)c->prune.end;
    h->final_sparsity = c->prune.final;
    h->blocks_differ = c->drop.rate > 0.0;
    h->n_changes = (uint8_t)dp_schemes_plan(c, h->change);
    h->microbatches = (uint32_t)c->train.microbatches;
    h->tokens_per_microbatch = (uint32_t)(c->train.batch * c->model.context);
    h->schedule = dp_schedule_find_trained(c->pipeline.schedule, &schedule, NULL) == 0 ? (uint8_t)schedule : UINT8_MAX;
    snprintf(h->checkpoint_dir, sizeof h->checkpoint_dir, "%.1023s", c->checkpoint.dir);
    memcpy(h->cut, l->cut, (l->n_workers + 1) * sizeof *h->cut);
}

bool dp_hello_lacks_plugin(char why[256])
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
