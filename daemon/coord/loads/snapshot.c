/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads and devices as a policy wants to see them. Runs in the child (plan.c): a run may have 1024
 * layers on 512 workers.
 */
#include "daemon/coord/internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"

#define SAME_SPEED 1.4 /* closer devices count as equal: noise must not look like hardware */

/* What the filling of a snapshot starts from. */
struct source {
    const struct dp_layout *layout; /* that the loads were measured in */
    const struct coord_early *early; /* NULL: the loads of now */
};

static void fill_stage(const struct dp_coord *c, const struct source *from, uint32_t d, struct coord_snapshot *s)
{
    double v = s->device[d].speed;

    for (uint32_t l = from->layout->cut[d]; l < from->layout->cut[d + 1]; l++) {
        s->layer[l] = from->early ? from->early->load[l] : c->layer[l].load;
        s->opt[l] = (uint64_t)((double)(from->early ? from->early->opt_ns[l] : c->layer[l].opt_ns) * v);
        s->layer[l].fwd_ns = (uint64_t)((double)s->layer[l].fwd_ns * v);
        s->layer[l].bwd_input_ns = (uint64_t)((double)s->layer[l].bwd_input_ns * v);
        s->layer[l].bwd_weight_ns = (uint64_t)((double)s->layer[l].bwd_weight_ns * v);
    }
}

/* A node's number is that of its first slot. returns NULL: each slot is a node. */
static const uint32_t *fill_hosts(const struct dp_coord *c, struct coord_snapshot *s)
{
    if (!coord_is_sliced(c))
        return NULL;
    for (uint32_t i = 0; i < c->n_slots; i++) {
        s->slot_host[i] = 0;
        while (strcmp(c->slot[s->slot_host[i]].name, c->slot[i].name))
            s->slot_host[i]++;
    }
    return s->slot_host;
}

static void fill(const struct dp_coord *c, const struct source *from, const double *speed, struct coord_snapshot *s)
{
    for (uint32_t d = 0; d < c->train.n_workers; d++) {
        const struct coord_worker *w = &c->worker[d];

        s->device[d] = (struct dp_device){speed[d] > 0.0 ? speed[d] : 1.0, coord_memory_limit_bytes(c, d), w->slot,
                                          !c->layout.gone[d] && c->slot[w->slot].state == SLOT_ACTIVE};
        fill_stage(c, from, d, s);
    }
    s->in = (struct dp_policy_in){.n_layers = c->train.n_layers, .n_devices = c->train.n_workers, .n_slots = c->n_slots,
                                  .layer = s->layer, .layer_opt_ns = s->opt, .current = from->layout,
                                  .device = s->device, .batch_slot = coord_kept_slot(c),
                                  .schedule = (enum dp_schedule_kind)c->train.schedule,
                                  .microbatches = c->train.microbatches, .stage_message_bytes = c->train.stage_message_bytes,
                                  .link_latency_s = c->limits.link_latency_s,
                                  .link_bytes_per_s = c->limits.link_bytes_per_s, .step = c->train.step,
                                  .steps_total = c->train.steps_total, .seed = c->job.job_id,
                                  .slot_host = fill_hosts(c, s)};
}

/* A worker holds its own layers and the copies of another one's. Whose is settled by the layout, so each layer counts twice where it
 * lies: the sum is right, and a worker that has less room than the layers of the one before it take leaves some of them out. What does
 * not fit today does not keep layers from moving. */
static void count_copies(const struct dp_coord *c, struct coord_snapshot *s)
{
    s->has_copies = false;
    if (!coord_copies(c) || dp_layout_active(&c->layout) < 2)
        return;
    for (uint32_t d = 0; d < c->train.n_workers; d++) {
        uint64_t bytes = 0, kept = dp_policy_in_flight(&s->in, 0, dp_layout_active(&c->layout));

        for (uint32_t l = c->layout.cut[d]; l < c->layout.cut[d + 1]; l++)
            bytes += 2 * s->layer[l].state_bytes + kept * s->layer[l].act_bytes;
        if (s->device[d].mem_limit_bytes && bytes > s->device[d].mem_limit_bytes)
            return;
    }
    for (uint32_t l = 0; l < c->train.n_layers; l++)
        s->layer[l].state_bytes *= 2;
    s->has_copies = true;
}

bool coord_snapshot_forget_copies(struct coord_snapshot *s)
{
    bool had_copies = s->has_copies;

    for (uint32_t l = 0; had_copies && l < s->in.n_layers; l++)
        s->layer[l].state_bytes /= 2;
    s->has_copies = false;
    return had_copies;
}

void coord_snapshot_fill(const struct dp_coord *c, const double *speed, struct coord_snapshot *s)
{
    fill(c, &(struct source){&c->layout, NULL}, speed, s);
    count_copies(c, s);
}

void coord_snapshot_fill_early(const struct dp_coord *c, const double *speed, struct coord_snapshot *s)
{
    fill(c, &(struct source){&c->reference.early.layout, &c->reference.early}, speed, s);
    s->has_copies = false;
}

static uint64_t most_common_params(const struct dp_coord *c)
{
    uint64_t best = 0;
    uint32_t most = 0;

    for (uint32_t i = 0; i < c->train.n_layers; i++) {
        uint32_t n = 0;

        for (uint32_t k = 0; k < c->train.n_layers; k++)
            n += c->reference.early.load[k].params == c->reference.early.load[i].params;
        if (n > most) {
            most = n;
            best = c->reference.early.load[i].params;
        }
    }
    return best;
}

/* A block that was frozen before the run's first step has no other time than that of its forward pass, which all have. */
static bool has_frozen_block(const struct dp_coord *c, uint64_t params)
{
    for (uint32_t l = 0; l < c->train.n_layers; l++)
        if (c->reference.early.load[l].params == params && dp_load_is_frozen(&c->reference.early.load[l]))
            return true;
    return false;
}

/* Mean time of the blocks of a worker, or of their forward passes; 0: it has none. */
static double block_time(const struct dp_coord *c, uint32_t d, uint64_t params, bool is_forward)
{
    uint32_t blocks = 0;
    double ns = 0.0;

    for (uint32_t l = c->reference.early.layout.cut[d]; l < c->reference.early.layout.cut[d + 1]; l++) {
        const struct dp_layer_load *k = &c->reference.early.load[l];

        if (k->params != params)
            continue;
        ns += (double)(is_forward ? k->fwd_ns : k->fwd_ns + k->bwd_input_ns + k->bwd_weight_ns);
        blocks++;
    }
    return blocks ? ns / blocks : 0.0;
}

/* Before the first change all blocks cost the same on the same device, so a device's speed is the usual time
 * of a block over its own. Layer dropout leaves out more of the later ones. */
void coord_snapshot_speeds(const struct dp_coord *c, double *speed)
{
    double block[DP_MAX_WORKERS], sorted[DP_MAX_WORKERS], middle;
    uint64_t params = most_common_params(c);
    bool is_forward = has_frozen_block(c, params);
    uint32_t n = 0;

    if (c->train.blocks_differ)
        return;
    for (uint32_t d = 0; d < c->train.n_workers; d++) {
        block[d] = block_time(c, d, params, is_forward);
        if (block[d] > 0.0)
            sorted[n++] = block[d];
    }
    if (n < 2)
        return;
    middle = dp_median_double(sorted, n);
    for (uint32_t d = 0; d < c->train.n_workers; d++) {
        double v = block[d] > 0.0 ? middle / block[d] : 1.0;

        speed[d] = v > 1.0 / SAME_SPEED && v < SAME_SPEED ? 1.0 : v;
    }
}
