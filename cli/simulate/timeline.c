/* SPDX-License-Identifier: BSD-3-Clause */
/* See timeline.h. */
#include "cli/simulate/timeline.h"

#include <stdlib.h>
#include <string.h>

void dp_timeline_release(struct dp_timeline *t)
{
    free(t->number);
    free(t->stage_of);
    free(t->stage);
    free(t->device);
    free(t->span);
    free(t->reduction);
    memset(t, 0, sizeof *t);
}

static int make_room(const struct dp_sim_phase *p, struct dp_timeline *t, struct dp_sim_out *out, struct dp_err *err)
{
    t->number = calloc(t->n_devices, sizeof *t->number);
    t->stage_of = calloc(t->n_places, sizeof *t->stage_of);
    t->stage = calloc(t->n_places, sizeof *t->stage);
    t->device = calloc(t->n_devices, sizeof *t->device);
    t->span = calloc(t->n_spans, sizeof *t->span);
    t->reduction = calloc((size_t)t->n_places * t->buckets, sizeof *t->reduction);
    out->device = calloc((size_t)p->in->replicas * t->n_devices, sizeof *out->device);
    if (t->number && t->stage_of && t->stage && t->device && t->span && t->reduction && out->device)
        return 0;
    return dp_err_set(err, DP_ENOMEM, "timeline of %u operations: out of memory", t->n_spans);
}

int dp_timeline_take(const struct dp_sim_case *c, const struct dp_sim_phase *p, uint64_t iteration, struct dp_timeline *t,
                     struct dp_err *err)
{
    const struct dp_sim_actions *o = dp_sim_program_order(p->in->program);
    struct dp_sim_out out = {0};
    int rc;

    *t = (struct dp_timeline){
        .iteration = iteration,
        .n_devices = p->layout->n_used,
        .chunks = c->chunks,
        .buckets = p->in->reduce_ns ? p->in->buckets : 1,
        .n_places = p->layout->n_used * c->chunks,
        .n_spans = dp_sim_program_ops(p->in->program),
        .is_split = o->is_split,
        .has_reductions = p->in->reduce_ns != NULL,
    };
    rc = make_room(p, t, &out, err);
    if (rc == 0) {
        out.span = t->span;
        out.reduction = t->reduction;
        memcpy(t->number, p->layout->used, t->n_devices * sizeof *t->number);
        memcpy(t->stage_of, p->layout->stage_of, t->n_places * sizeof *t->stage_of);
        memcpy(t->stage, p->in->stage, t->n_places * sizeof *t->stage);
        rc = dp_sim_iterate(p->in, &out, err);
    }
    if (rc == 0) {
        memcpy(t->device, out.device, t->n_devices * sizeof *t->device);
        t->n_spans = out.n_spans; /* stages that only go forward have fewer */
        t->backward_ns = out.backward_ns;
        t->reduce_ns = out.reduce_ns;
        t->norm_ns = out.norm_ns;
        t->iteration_ns = out.iteration_ns;
    }
    free(out.device);
    if (rc < 0)
        dp_timeline_release(t);
    return rc;
}

uint64_t dp_timeline_optimizer_ns(const struct dp_timeline *t, uint32_t device)
{
    uint64_t ns = 0;

    for (uint32_t k = device; k < t->n_places; k += t->n_devices)
        ns += t->stage[k].opt_ns;
    return ns;
}

void dp_timeline_bytes(const struct dp_timeline *t, uint32_t device, dp_timeline_bytes_fn fn, void *arg)
{
    uint64_t bytes = 0;

    for (uint32_t k = device; k < t->n_places; k += t->n_devices)
        bytes += t->stage[k].state_bytes;
    fn(arg, 0, bytes);
    for (uint32_t i = 0; i < t->n_spans; i++) {
        const struct dp_sim_span *s = &t->span[i];
        const struct dp_sim_stage *g = &t->stage[s->place];

        if (s->device != device)
            continue;
        if (s->kind == DP_ACTION_FORWARD)
            bytes += g->act_bytes;
        else if (s->kind == DP_ACTION_BACKWARD)
            bytes -= t->is_split ? g->act_bytes - g->wgrad_bytes : g->act_bytes;
        else
            bytes -= g->wgrad_bytes;
        fn(arg, s->kind == DP_ACTION_FORWARD ? s->start_ns : s->end_ns, bytes);
    }
}
