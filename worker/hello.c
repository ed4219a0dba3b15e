/* See hello.h. */
#include "worker/hello.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "worker/pipeline.h"

static uint32_t number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

void dp_hello_fill(struct dp_msg_hello *h, const struct dp_train_config *c, const struct dp_layout *l,
                   uint32_t rank, uint64_t step)
{
    static const struct dp_plugin_args any = {.default_mode = DP_MODE_OFF};
    const char *options = getenv(DP_ENV_SPEC);
    struct dp_options parsed;

    memset(h, 0, sizeof *h);
    h->job_id = number_of("SLURM_JOB_ID");
    h->step_id = number_of("SLURM_STEP_ID");
    h->rank = rank;
    h->n_workers = l->n_workers;
    h->n_layers = l->n_layers;
    h->epoch = l->epoch;
    h->step = step;
    h->steps_total = (uint64_t)c->train.steps;
    h->prune_begin = (uint64_t)c->prune.begin;
    h->prune_end = (uint64_t)c->prune.end;
    h->final_sparsity = c->prune.final;
    h->microbatches = (uint32_t)c->train.microbatches;
    h->tokens_per_microbatch = (uint32_t)(c->train.batch * c->model.context);
    h->schedule = (uint8_t)dp_schedule_parse(c->pipeline.schedule);
    h->boundary_bytes = dp_boundary_bytes(c);
    snprintf(h->device, sizeof h->device, "%s", c->pipeline.backend);
    if (options && dp_options_parse(options, &any, &parsed, NULL) == 0)
        snprintf(h->options, sizeof h->options, "%.255s", options);
    snprintf(h->checkpoint_dir, sizeof h->checkpoint_dir, "%.1023s", c->checkpoint.dir);
    memcpy(h->cut, l->cut, (l->n_workers + 1) * sizeof *h->cut);
}
