/* SPDX-License-Identifier: BSD-3-Clause */
/* A hierarchical plan weighed from the graph: the formulas of hierarchical.h once more, over stages instead
 * of ideals, so that the search can be held against them. */
#include "policies/graph/hierarchical/hierarchical.h"

#include <math.h>
#include <stdlib.h>

#include "policies/graph/check.h"

struct scale {
    const struct dp_plan_hierarchical *ask;
    const struct dp_stage_load *load; /* [n_stages] */
    struct dp_graph_plan *p;
};

double dp_plan_sync_s(const struct dp_plan_hierarchical *ask, uint32_t level, double param_bytes, uint32_t m, bool is_first)
{
    double once = (m - 1) * param_bytes / (ask->bytes_per_s[level] * m);

    if (!ask->microbatches)
        return level && is_first ? 4.0 * once / ask->devices[0] : 4.0 * once;
    return 2.0 * once * m * (level + 1 < ask->n_levels ? ask->devices[1] : 1) / ask->microbatches;
}

uint64_t dp_plan_data_parallel_ns(const struct dp_plan_hierarchical *ask, uint64_t single_ns, double param_bytes, uint64_t *devices)
{
    double s = (double)single_ns / 1e9;

    *devices = 1;
    for (uint32_t l = 0; l < ask->n_levels; l++) {
        s = (s + dp_plan_sync_s(ask, l, param_bytes, ask->devices[l], true)) / ask->devices[l];
        *devices *= ask->devices[l];
    }
    return (uint64_t)(s * 1e9 + 0.5);
}

double dp_plan_transfer_s(const struct dp_plan_hierarchical *ask, uint32_t level, double bytes, uint32_t m)
{
    return (ask->microbatches ? 1.0 : 2.0) * bytes / (ask->bytes_per_s[level] * m);
}

/* Time that the transfers before and behind stages [first, last] take on m links of a level. */
static double transfer_s(const struct scale *w, uint32_t level, uint32_t first, uint32_t last, uint32_t m)
{
    double in = first ? dp_plan_transfer_s(w->ask, level, (double)w->load[first - 1].out_bytes, m) : 0.0;
    double out = last + 1 < w->p->n_stages ? dp_plan_transfer_s(w->ask, level, (double)w->load[last].out_bytes, m) : 0.0;

    return fmax(in, out);
}

/* Behind a first stage: the released program forgets it. */
static double front_transfer_s(const struct scale *w, uint32_t level, uint32_t last, uint32_t m)
{
    return w->ask->microbatches && last + 1 < w->p->n_stages
               ? dp_plan_transfer_s(w->ask, level, (double)w->load[last].out_bytes, m)
               : 0.0;
}

/* Stages [first, end) share machines, `machines` of them (1 where there is one level). */
static double evaluate_group(const struct scale *w, uint32_t first, uint32_t end, uint32_t machines)
{
    const struct dp_plan_hierarchical *ask = w->ask;
    double params = 0.0, outer_sync = 0.0, outer_transfer = 0.0, worst = 0.0;

    for (uint32_t s = first; s < end; s++)
        params += (double)w->load[s].param_bytes;
    if (ask->n_levels > 1) {
        outer_sync = dp_plan_sync_s(ask, 1, params, machines, first == 0);
        outer_transfer = first > 0 ? transfer_s(w, 1, first, end - 1, machines) : front_transfer_s(w, 1, end - 1, machines);
    }
    for (uint32_t s = first; s < end; s++) {
        struct dp_graph_stage *t = &w->p->stage[s];
        uint32_t r = t->replicas / machines;
        uint64_t compute_ns = w->load[s].accel_ns + (w->p->recomputes ? w->load[s].forward_ns : 0);
        double compute = (double)compute_ns / 1e9;
        double sync = dp_plan_sync_s(ask, 0, (double)w->load[s].param_bytes, r, s == first);
        double transfer = s > first ? transfer_s(w, 0, s, s, r) : front_transfer_s(w, 0, s, r);
        double load = (fmax((compute + sync) / r, transfer) + outer_sync) / machines;

        load = fmax(load, outer_transfer);
        t->compute_ns = compute_ns;
        t->sync_ns = (uint64_t)((sync + outer_sync * r) * 1e9 + 0.5);
        t->traffic_ns = (uint64_t)(fmax(transfer / machines, outer_transfer) * 1e9 + 0.5);
        t->load_ns = (uint64_t)(load * 1e9 + 0.5);
        worst = fmax(worst, load);
    }
    return worst;
}

/* bytes + kept * times, UINT64_MAX where that is more. */
static uint64_t add_kept(uint64_t bytes, uint64_t kept, uint64_t times)
{
    if (__builtin_mul_overflow(kept, times, &kept) || __builtin_add_overflow(bytes, kept, &bytes))
        return UINT64_MAX;
    return bytes;
}

uint64_t dp_plan_memory_bytes(const struct dp_stage_load *load, uint32_t replicas, uint32_t behind)
{
    return add_kept(load->bytes, load->kept_bytes, ((uint64_t)behind + replicas - 1) / replicas + 1);
}

/* A device has the state of its parameters, and on the only level the outputs of all microbatches that are under way; of one of
 * them, and the inputs of all, where it goes forward again. */
static void evaluate_memory(const struct scale *w)
{
    uint32_t behind = 0, each = w->p->microbatch > 1 ? w->p->microbatch : 1;

    for (uint32_t s = w->p->n_stages; s-- > 0;) {
        struct dp_graph_stage *t = &w->p->stage[s];
        uint64_t under_way = ((uint64_t)(behind + t->replicas - 1) / t->replicas + 1) * each;

        t->bytes = add_kept(w->load[s].bytes, w->load[s].param_bytes, w->p->more_weights);
        t->bytes = add_kept(t->bytes, w->load[s].kept_bytes, w->p->recomputes ? each : under_way);
        if (w->p->recomputes && s > 0)
            t->bytes = add_kept(t->bytes, w->load[s - 1].out_bytes, under_way);
        behind += t->replicas;
    }
}

int dp_plan_hierarchical_evaluate(const struct dp_graph *g, const struct dp_plan_hierarchical *ask,
                                  struct dp_graph_plan *p, struct dp_err *err)
{
    struct dp_stage_load *load = calloc((size_t)p->n_stages + 1, sizeof *load);
    struct scale w = {.ask = ask, .load = load, .p = p};
    double worst = 0.0;
    int rc = -1;

    if (!load) {
        dp_err_set(err, DP_ENOMEM, "a plan of %u stages: out of memory", p->n_stages);
        goto out;
    }
    if (dp_graph_loads(g, p->stage_of, p->n_stages, load, err) < 0)
        goto out;
    for (uint32_t s = 0, end; s < p->n_stages; s = end) {
        uint32_t machines = 1;

        for (end = s; end < p->n_stages && p->stage[end].group == p->stage[s].group;)
            end++;
        if (ask->n_levels > 1)
            machines = p->stage[s].machines;
        else
            end = p->n_stages;
        worst = fmax(worst, evaluate_group(&w, s, end, machines));
    }
    evaluate_memory(&w);
    p->load_ns = (uint64_t)(worst * 1e9 + 0.5);
    rc = 0;
out:
    free(load);
    return rc;
}
