/* SPDX-License-Identifier: BSD-3-Clause */
/* See parts.h: placements of a source, one after the other, of which the best counts. */
#include <stdlib.h>
#include <string.h>

#include "policies/graph/maxload/parts.h"

#define STEPS_PER_UNIT UINT64_C(14000) /* as long as a search for orders (search/search.h) */
#define MOST_STEPS UINT64_C(16800000)    /* of any graph, likewise */

static int keep(const struct dp_units *u, const uint32_t *stage, uint32_t n_stages, uint64_t load_ns, struct dp_maxload_answer *best,
                struct dp_err *err)
{
    if (!best->stage)
        best->stage = calloc((size_t)u->n + 1, sizeof *best->stage);
    if (!best->is_cpu) /* no more stages than DP_PARTS_MOST ever come */
        best->is_cpu = calloc(DP_PARTS_MOST, sizeof *best->is_cpu);
    if (!best->accelerator)
        best->accelerator = calloc(DP_PARTS_MOST, sizeof *best->accelerator);
    if (!best->stage || !best->is_cpu || !best->accelerator)
        return dp_err_set(err, DP_ENOMEM, "a placement: out of memory");
    memcpy(best->stage, stage, u->n * sizeof *stage);
    best->n_stages = n_stages;
    best->load_ns = load_ns;
    return 0;
}

static bool is_ended(const struct dp_plan_maxload *ask, const struct dp_maxload_answer *best, uint64_t steps, uint64_t most,
                     struct dp_graph_plan *out)
{
    const struct dp_plan_watch *watch = ask->watch;
    double searched = (double)steps / (double)most;

    if (best->n_stages && best->load_ns == out->bound_ns)
        return true;
    if (watch && !watch->go_on(watch->arg, searched, best->n_stages ? best->load_ns : 0, out->bound_ns))
        return out->was_ended = true;
    return steps >= most;
}

int dp_parts_try(const struct dp_units *u, const struct dp_plan_maxload *ask, struct dp_maxload_answer *best, struct dp_graph_plan *out,
                 struct dp_err *err)
{
    const struct dp_place_source *from = ask->placer;
    uint64_t most = u->n < MOST_STEPS / STEPS_PER_UNIT ? u->n * STEPS_PER_UNIT : MOST_STEPS, steps = 0;
    uint32_t *stage = calloc((size_t)u->n + 1, sizeof *stage);
    void *walk = NULL;
    int rc = stage ? from->begin(from->arg, u, ask->n_accel, &walk, err) : dp_err_set(err, DP_ENOMEM, "a placement: out of memory");

    most = ask->search_steps ? ask->search_steps : most;
    for (uint64_t number = 0; rc == 0; number++) {
        uint32_t n_stages;
        uint64_t load;

        rc = from->place(walk, ask->seed, number, stage, &steps, err);
        if (rc == 0) {
            dp_parts_pipeline(u, stage, ask->n_accel, stage, &n_stages);
            rc = dp_parts_load(u, stage, n_stages, ask->accel_bytes, &load, err);
        }
        if (rc == 0 && load < UINT64_MAX && (!best->n_stages || load < best->load_ns))
            rc = keep(u, stage, n_stages, load, best, err);
        out->n_orders++;
        if (rc == 0 && is_ended(ask, best, steps, most, out))
            break;
    }
    out->steps += steps;
    from->end(walk);
    free(stage);
    return rc;
}
