/* SPDX-License-Identifier: BSD-3-Clause */
/* See iteration.h. */
#include "policies/sim/iteration/iteration.h"

#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

struct work {
    uint32_t d, v, n_places; /* devices, chunks, V */
    uint32_t first_live;     /* stage */
    bool is_split;
    uint64_t *cost;  /* [3][V] */
    uint64_t *done;  /* [3][V] */
    uint64_t *ready; /* [V][buckets] when every replica has this part of the gradient */
};

/* Does any of places first .. end - 1 compute a gradient or keep something, in any replica? */
static bool learns(const struct dp_sim_in *in, uint32_t n_places, uint32_t first, uint32_t end)
{
    for (uint32_t r = 0; r < in->replicas; r++)
        for (uint32_t k = first; k < end; k++) {
            const struct dp_sim_stage *g = &in->stage[(size_t)r * n_places + k];

            if (g->bwd_input_ns || g->bwd_weight_ns || g->act_bytes)
                return true;
        }
    return false;
}

uint32_t dp_sim_first_live(const struct dp_sim_in *in)
{
    const struct dp_sim_actions *o = dp_sim_program_order(in->program);
    uint32_t n = dp_sim_program_places(in->program), stages = o->n_wide ? o->n_wide : n;

    for (uint32_t s = 0; s < stages; s++)
        if (learns(in, n, o->n_wide ? o->begin[s] : s, o->n_wide ? o->begin[s + 1] : s + 1))
            return s;
    return 0;
}

static void fill_costs(const struct work *w, const struct dp_sim_stage *stage)
{
    uint64_t *fwd = w->cost, *bwd = fwd + w->n_places, *weight = bwd + w->n_places;

    for (uint32_t k = 0; k < w->n_places; k++) {
        fwd[k] = stage[k].fwd_ns;
        bwd[k] = stage[k].bwd_input_ns + (w->is_split ? 0 : stage[k].bwd_weight_ns);
        weight[k] = stage[k].bwd_weight_ns;
    }
}

/* The parts of a stage's gradient are ready in equal steps of its last backward. */
static void note_ready(const struct work *w, uint32_t buckets)
{
    uint32_t kind = w->is_split ? DP_ACTION_WEIGHT : DP_ACTION_BACKWARD;

    for (uint32_t k = 0; k < w->n_places; k++) {
        uint64_t took = w->cost[kind * w->n_places + k], end = w->done[kind * w->n_places + k];

        for (uint32_t b = 0; b < buckets; b++) {
            uint64_t *ready = &w->ready[k * buckets + b];

            *ready = dp_most_u64(*ready, end - took / buckets * (buckets - 1 - b));
        }
    }
}

/* Devices of one stage reduce together, when the last of them is ready. */
static void wait_for_each_other(const struct dp_sim_actions *o, const struct work *w, uint32_t buckets)
{
    for (uint32_t s = 0; s < o->n_wide; s++)
        for (uint32_t b = 0; b < buckets; b++) {
            uint64_t last = 0;

            for (uint32_t d = o->begin[s]; d < o->begin[s + 1]; d++)
                last = dp_most_u64(last, w->ready[d * buckets + b]);
            for (uint32_t d = o->begin[s]; d < o->begin[s + 1]; d++)
                w->ready[d * buckets + b] = last;
        }
}

/* Most bytes that the kept microbatches of a device take. */
static uint64_t kept_bytes(const struct dp_sim_actions *o, uint32_t device, const struct dp_sim_stage *stage)
{
    const struct dp_action *action = dp_sim_actions_list(o, device);
    uint32_t n = dp_sim_actions_count(o, device);
    uint64_t now = 0, most = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct dp_sim_stage *g = &stage[action[i].chunk * o->n_devices + device];

        if (action[i].kind == DP_ACTION_FORWARD)
            now += g->act_bytes;
        else if (action[i].kind == DP_ACTION_BACKWARD)
            now -= o->is_split ? g->act_bytes - g->wgrad_bytes : g->act_bytes;
        else
            now -= g->wgrad_bytes;
        most = dp_most_u64(most, now);
    }
    return most;
}

static void note_device(const struct dp_sim_in *in, const struct work *w, const struct dp_sim_stage *stage, uint32_t device,
                        struct dp_sim_stage_out *out)
{
    const struct dp_sim_actions *o = dp_sim_program_order(in->program);

    memset(out, 0, sizeof *out);
    out->in_flight = dp_sim_program_in_flight(in->program, device, w->first_live);
    for (uint32_t k = device; k < w->n_places; k += w->d) {
        const struct dp_sim_stage *g = &stage[k];

        out->busy_ns += dp_sim_actions_share(o, device).count * (g->fwd_ns + g->bwd_input_ns + g->bwd_weight_ns) + g->opt_ns;
        out->mem_bytes += g->state_bytes;
        for (uint32_t kind = 0; kind < DP_ACTION_KINDS; kind++)
            out->end_ns = dp_most_u64(out->end_ns, w->done[kind * w->n_places + k]);
    }
    if (w->v == 1 && !w->is_split)
        out->mem_bytes += out->in_flight * stage[device].act_bytes;
    else
        out->mem_bytes += kept_bytes(o, device, stage);
}

/* An earlier replica with the same stages and links, or r itself. */
static uint32_t same_as(const struct dp_sim_in *in, const struct work *w, uint32_t r)
{
    size_t n_links = dp_sim_program_links(in->program), stages = w->n_places * sizeof *in->stage, links = n_links * sizeof *in->link;

    for (uint32_t q = 0; q < r; q++)
        if (!memcmp(in->stage + (size_t)q * w->n_places, in->stage + (size_t)r * w->n_places, stages) &&
            !memcmp(in->link + (size_t)q * n_links, in->link + (size_t)r * n_links, links))
            return q;
    return r;
}

static void run_replica(const struct dp_sim_in *in, const struct work *w, uint32_t r, struct dp_sim_out *out)
{
    const struct dp_sim_stage *stage = in->stage + (size_t)r * w->n_places;
    uint32_t q = same_as(in, w, r), ran;

    if (q < r) {
        if (out->device)
            memcpy(out->device + (size_t)r * w->d, out->device + (size_t)q * w->d, w->d * sizeof *out->device);
        return;
    }
    fill_costs(w, stage);
    ran = dp_sim_program_run(in->program, w->first_live, w->cost, in->link + (size_t)r * dp_sim_program_links(in->program), w->done,
                             r == 0 ? out->span : NULL);
    out->n_spans = r == 0 && out->span ? ran : out->n_spans;
    for (uint32_t i = 0; i < DP_ACTION_KINDS * w->n_places; i++)
        out->backward_ns = dp_most_u64(out->backward_ns, w->done[i]);
    if (in->reduce_ns)
        note_ready(w, in->buckets);
    for (uint32_t d = 0; out->device && d < w->d; d++)
        note_device(in, w, stage, d, &out->device[(size_t)r * w->d + d]);
}

/* The parts of one device, in the order in which they are ready. Backward runs through its chunks from
 * the last to the first, so the last chunk's gradient is ready first; with ties that order stays. */
static void reduce_device(const struct dp_sim_in *in, const struct work *w, uint32_t device, struct dp_sim_out *out)
{
    uint64_t free_at = 0;

    for (uint32_t c = w->v; c > 0; c--) {
        uint32_t k = (c - 1) * w->d + device;

        for (uint32_t b = 0; b < in->buckets; b++) {
            uint64_t start = dp_most_u64(free_at, w->ready[k * in->buckets + b]);

            free_at = start + in->reduce_ns[k];
            if (out->reduction)
                out->reduction[k * in->buckets + b] = (struct dp_sim_reduction){start, free_at};
        }
    }
    out->reduce_ns = dp_most_u64(out->reduce_ns, free_at);
}

/* The longest optimizer time of a device. */
static uint64_t optimizer_ns(const struct dp_sim_in *in, const struct work *w)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < in->replicas; r++)
        for (uint32_t d = 0; d < w->d; d++) {
            uint64_t sum = 0;

            for (uint32_t k = d; k < w->n_places; k += w->d)
                sum += in->stage[(size_t)r * w->n_places + k].opt_ns;
            most = dp_most_u64(most, sum);
        }
    return most;
}

static void finish(const struct dp_sim_in *in, const struct work *w, struct dp_sim_out *out)
{
    if (in->reduce_ns)
        wait_for_each_other(dp_sim_program_order(in->program), w, in->buckets);
    out->reduce_ns = out->backward_ns;
    for (uint32_t d = 0; in->reduce_ns && d < w->d; d++)
        reduce_device(in, w, d, out);
    out->norm_ns = out->reduce_ns + in->norm_ns;
    out->iteration_ns = out->norm_ns + optimizer_ns(in, w);
    for (size_t i = 0; out->device && i < (size_t)in->replicas * w->d; i++)
        out->device[i].bubble =
            out->iteration_ns ? 1.0 - (double)out->device[i].busy_ns / (double)out->iteration_ns : 0.0;
}

static struct work work_of(const struct dp_sim_in *in)
{
    const struct dp_sim_actions *o = dp_sim_program_order(in->program);

    return (struct work){.d = o->n_devices, .v = o->chunks, .n_places = o->n_devices * o->chunks,
                         .first_live = dp_sim_first_live(in), .is_split = o->is_split};
}

int dp_sim_iterate(const struct dp_sim_in *in, struct dp_sim_out *out, struct dp_err *err)
{
    struct work w = work_of(in);
    size_t ready = in->reduce_ns ? (size_t)w.n_places * in->buckets : 0;

    w.cost = calloc(2 * DP_ACTION_KINDS * (size_t)w.n_places + ready, sizeof *w.cost);
    if (!w.cost)
        return dp_err_set(err, DP_ENOMEM, "simulation of %u stages: out of memory", w.n_places);
    w.done = w.cost + DP_ACTION_KINDS * (size_t)w.n_places;
    w.ready = w.done + DP_ACTION_KINDS * (size_t)w.n_places;
    out->iteration_ns = out->backward_ns = out->reduce_ns = out->norm_ns = 0;
    out->n_spans = 0;
    for (uint32_t r = 0; r < in->replicas; r++)
        run_replica(in, &w, r, out);
    finish(in, &w, out);
    free(w.cost);
    return 0;
}
