/* SPDX-License-Identifier: BSD-3-Clause */
/* See hello.h. */
#include "worker/train/start/hello.h"

#include <stdio.h>
#include <string.h>

#include "common/schedule/schedule.h"
#include "lib/job_step.h"
#include "worker/scheme/scheme.h"

void dp_hello_fill(struct dp_msg_hello *h, const struct dp_train_config *c, const struct dp_layout *l,
                   uint32_t rank, uint64_t step)
{
    enum dp_schedule_kind schedule;

    memset(h, 0, sizeof *h);
    dp_job_step(&h->job_id, &h->step_id, h->options);
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
