/* SPDX-License-Identifier: BSD-3-Clause */
/* How much host memory a node of the run needs, and what a node that gave some back has left for layers (memory.c).
 *
 * A worker reports what it has and what it may take for a moment: pruning, a checkpoint, the streams of a hand-over
 * (worker/train/start/memory_need.h). On top comes room for layers that may yet move to it, because memory that was given back never comes
 * again: in mode release as many as a layout on half as many devices would put there. What else the job has on a node
 * (its script, srun) is in the cgroup that Slurm made for it, or else estimated.
 */
#include "daemon/coord/internal.h"
#include "common/schedule/schedule.h"

#define MIB (UINT64_C(1) << 20) /* Slurm counts memory in it */
#define BESIDE (64 * MIB) /* shell and srun, where no cgroup counts them */

static bool is_here(const struct dp_coord *c, uint32_t rank, uint32_t slot)
{
    return c->worker[rank].slot == slot && coord_is_live(c, rank);
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The largest stage, with its activations, that a layout may yet have; 0: none but those in force. */
static uint64_t largest_stage_bytes(const struct dp_coord *c)
{
    uint64_t all = 0, most = 0;
    uint32_t devices = 0, fewest, kept;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        devices += coord_is_live(c, r);
    if (devices < 2)
        return 0;
    fewest = coord_mode(c) >= DP_MODE_RELEASE ? (devices + 1) / 2 : devices;
    if (fewest < c->limits.pack.min_devices)
        fewest = c->limits.pack.min_devices < devices ? c->limits.pack.min_devices : devices;
    kept = dp_schedule_in_flight((enum dp_schedule_kind)c->train.schedule, 0, fewest, c->train.microbatches);
    for (uint32_t l = 0; l < c->train.n_layers; l++) {
        const struct dp_layer_load *k = &c->layer[l].load;
        uint64_t bytes = k->state_bytes + kept * k->act_bytes;

        all += bytes;
        most = bytes > most ? bytes : most;
    }
    return all / fewest + most;
}

/* Without room for layers that may come. 0: not known. */
static uint64_t node_bytes(const struct dp_coord *c, uint32_t slot)
{
    uint64_t need = 0, resident = 0, job = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        const struct coord_worker *w = &c->worker[r];

        if (!is_here(c, r, slot))
            continue;
        if (!w->need_bytes)
            return 0;
        need += w->need_bytes;
        resident += w->rss_bytes;
        job = w->job_bytes > job ? w->job_bytes : job;
    }
    if (!need)
        return 0;
    job = job ? job + beyond(need, resident) : 0;
    return job > need + BESIDE ? job : need + BESIDE;
}

static uint64_t room_bytes(const struct dp_coord *c, uint32_t slot)
{
    uint64_t largest = largest_stage_bytes(c), room = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (is_here(c, r, slot))
            room += beyond(largest, c->worker[r].mem_bytes);
    return room;
}

uint32_t coord_memory_need_mb(const struct dp_coord *c)
{
    uint64_t most = 0;

    for (uint32_t s = 0; s < c->n_slots; s++) {
        uint64_t bytes = node_bytes(c, s);
        bool has_workers = false;

        for (uint32_t r = 0; r < c->train.n_workers; r++)
            has_workers |= is_here(c, r, s);
        if (has_workers && !bytes)
            return 0;
        bytes += bytes ? room_bytes(c, s) : 0;
        most = bytes > most ? bytes : most;
    }
    most = (most + MIB - 1) / MIB;
    most += (most * c->limits.memory_margin + 99) / 100;
    return most < UINT32_MAX ? (uint32_t)most : 0;
}

uint32_t coord_memory_kept_mb(const struct dp_coord *c)
{
    const struct coord_memory *k = &c->memory;

    return k->target_mb ? k->target_mb : k->given_mb;
}

/* Half of the margin is left for what is not foreseen. A stage that is there stays allowed. */
uint64_t coord_memory_limit_bytes(const struct dp_coord *c, uint32_t rank)
{
    const struct coord_worker *w = &c->worker[rank];
    uint64_t kept = coord_memory_kept_mb(c) * MIB, free_bytes, limit, bytes = kept ? node_bytes(c, w->slot) : 0;
    uint32_t n = 0;

    if (!bytes)
        return w->mem_limit_bytes;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        n += is_here(c, r, w->slot);
    free_bytes = beyond(kept * 200 / (200 + c->limits.memory_margin), bytes);
    limit = w->mem_bytes + (n ? free_bytes / n : 0);
    return w->mem_limit_bytes && w->mem_limit_bytes < limit ? w->mem_limit_bytes : limit;
}
