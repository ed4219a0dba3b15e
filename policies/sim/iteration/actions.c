/* SPDX-License-Identifier: BSD-3-Clause */
/* See actions.h. */
#include "policies/sim/iteration/actions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LISTED (1u << 20) /* actions of a 1F1B: more take too much memory */

static const char *const kind_names[] = {"forward", "backward", "weight gradient"};

/* n_stages: each of which has every microbatch. */
static int check_counts(const struct dp_schedule *s, uint32_t n_devices, uint64_t n_stages, uint32_t chunks,
                        uint32_t microbatches, uint32_t most, struct dp_err *err)
{
    uint64_t actions;

    if (n_devices < 1 || n_devices > DP_SIM_MAX_DEVICES || microbatches < 1 || microbatches > DP_SIM_MAX_MICROBATCHES ||
        chunks < 1 || chunks > DP_SIM_MAX_CHUNKS)
        return dp_err_set(err, DP_EINVAL, "simulation of %u stages, %u chunks and %u microbatches", n_devices, chunks,
                          microbatches);
    actions = n_stages * microbatches * (s->rule->is_split ? 3 : 2);
    if (actions > most)
        return dp_err_set(err, DP_EINVAL, "an iteration of %llu actions, at most %u can be simulated",
                          (unsigned long long)actions, most);
    if (chunks > 1 && !s->rule->has_chunks)
        return dp_err_set(err, DP_EINVAL, "schedule %s: one chunk per device, not %u", s->name, chunks);
    return s->rule->check ? s->rule->check(n_devices, chunks, microbatches, err) : 0;
}

static int no_memory(const struct dp_sim_actions *o, struct dp_err *err)
{
    return dp_err_set(err, DP_ENOMEM, "simulation of %u devices and %u microbatches: out of memory", o->n_devices, o->microbatches);
}

static int fill_lists(const struct dp_schedule *s, struct dp_sim_actions *out, size_t n_actions, struct dp_err *err)
{
    out->action = calloc(n_actions, sizeof *out->action);
    if (!out->action)
        return no_memory(out, err);
    for (uint32_t d = 0; d < out->n_devices; d++) {
        const struct dp_schedule_place place = {.device = d, .n_devices = out->n_devices, .chunks = out->chunks,
                                                .microbatches = out->microbatches, .behind = dp_sim_actions_behind(out, d),
                                                .share = dp_sim_actions_share(out, d)};

        s->rule->fill(&place, dp_sim_actions_list(out, d));
    }
    return 0;
}

int dp_sim_actions_create(enum dp_schedule_kind schedule, uint32_t n_devices, uint32_t chunks, uint32_t microbatches,
                        struct dp_sim_actions *out, struct dp_err *err)
{
    const struct dp_schedule *s = &dp_schedules[schedule];

    memset(out, 0, sizeof *out);
    if (check_counts(s, n_devices, (uint64_t)n_devices * chunks, chunks, microbatches,
                     schedule == DP_SCHED_1F1B ? DP_SIM_MAX_IMPLIED_ACTIONS : DP_SIM_MAX_ACTIONS, err) < 0)
        return -1;
    out->n_devices = n_devices;
    out->chunks = chunks;
    out->microbatches = microbatches;
    out->is_split = s->rule->is_split;
    out->n_per_device = (s->rule->is_split ? 3 : 2) * chunks * microbatches;
    out->is_implied = schedule == DP_SCHED_1F1B && (size_t)n_devices * out->n_per_device > MOST_LISTED;
    return out->is_implied ? 0 : fill_lists(s, out, (size_t)n_devices * out->n_per_device, err);
}

void dp_sim_actions_imply(struct dp_sim_actions *o)
{
    free(o->action);
    o->action = NULL;
    o->is_implied = true;
}

static int check_widths(const struct dp_schedule *s, uint32_t n_stages, const uint32_t *width, uint32_t microbatches,
                        uint32_t *n_devices, struct dp_err *err)
{
    uint64_t devices = 0;

    if (!s->rule->has_shares)
        return dp_err_set(err, DP_EINVAL, "schedule %s: stages have one device each", s->name);
    for (uint32_t i = 0; i < n_stages; i++) {
        if (!width[i])
            return dp_err_set(err, DP_EINVAL, "stage %u has no device", i);
        devices += width[i];
    }
    *n_devices = devices > DP_SIM_MAX_DEVICES ? UINT32_MAX : (uint32_t)devices;
    return check_counts(s, *n_devices, n_stages, 1, microbatches, DP_SIM_MAX_ACTIONS, err);
}

/* Where stages and lists are; n_devices, n_wide and microbatches are set. */
static int place_stages(const uint32_t *width, struct dp_sim_actions *out, struct dp_err *err)
{
    uint32_t n_actions = 0;

    out->begin = calloc((size_t)out->n_wide + 1, sizeof *out->begin);
    out->stage_of = calloc(out->n_devices, sizeof *out->stage_of);
    out->list = calloc(out->n_devices, sizeof *out->list);
    if (!out->begin || !out->stage_of || !out->list)
        return no_memory(out, err);
    for (uint32_t s = 0; s < out->n_wide; s++) {
        out->begin[s + 1] = out->begin[s] + width[s];
        for (uint32_t d = out->begin[s]; d < out->begin[s + 1]; d++) {
            out->stage_of[d] = s;
            out->list[d] = n_actions;
            n_actions += dp_sim_actions_count(out, d);
        }
    }
    return 0;
}

int dp_sim_actions_create_wide(enum dp_schedule_kind schedule, uint32_t n_stages, const uint32_t *width, uint32_t microbatches,
                             struct dp_sim_actions *out, struct dp_err *err)
{
    const struct dp_schedule *s = &dp_schedules[schedule];

    memset(out, 0, sizeof *out);
    if (check_widths(s, n_stages, width, microbatches, &out->n_devices, err) < 0)
        return -1;
    out->n_wide = n_stages;
    out->chunks = 1;
    out->microbatches = microbatches;
    if (place_stages(width, out, err) == 0 && fill_lists(s, out, (size_t)2 * n_stages * microbatches, err) == 0)
        return 0;
    dp_sim_actions_release(out);
    return -1;
}

void dp_sim_actions_release(struct dp_sim_actions *actions)
{
    free(actions->action);
    free(actions->begin);
    free(actions->stage_of);
    free(actions->list);
    memset(actions, 0, sizeof *actions);
}

struct dp_schedule_share dp_sim_actions_share(const struct dp_sim_actions *o, uint32_t device)
{
    uint32_t stage, first, step;

    if (!o->n_wide)
        return (struct dp_schedule_share){0, 1, o->microbatches};
    stage = o->stage_of[device];
    first = device - o->begin[stage];
    step = o->begin[stage + 1] - o->begin[stage];
    return (struct dp_schedule_share){first, step, first < o->microbatches ? (o->microbatches - first - 1) / step + 1 : 0};
}

struct dp_action *dp_sim_actions_list(const struct dp_sim_actions *o, uint32_t device)
{
    return o->action + (o->n_wide ? o->list[device] : (size_t)device * o->n_per_device);
}

uint32_t dp_sim_actions_count(const struct dp_sim_actions *o, uint32_t device)
{
    return (o->is_split ? 3 : 2) * o->chunks * dp_sim_actions_share(o, device).count;
}

uint32_t dp_sim_actions_behind(const struct dp_sim_actions *o, uint32_t device)
{
    return o->n_devices - (o->n_wide ? o->begin[o->stage_of[device] + 1] : device + 1);
}

/* One device. next: [chunks * microbatches] of zeros, the kind that each microbatch of a chunk has next. */
static int check_device(const struct dp_sim_actions *o, uint32_t device, uint8_t *next, struct dp_err *err)
{
    const struct dp_action *action = dp_sim_actions_list(o, device);
    const struct dp_schedule_share own = dp_sim_actions_share(o, device);
    uint32_t n = dp_sim_actions_count(o, device);
    int last = o->is_split ? DP_ACTION_WEIGHT : DP_ACTION_BACKWARD;

    for (uint32_t i = 0; i < n; i++) {
        uint8_t *is_next;

        if (action[i].chunk >= o->chunks || action[i].mb >= o->microbatches || action[i].mb % own.step != own.first ||
            action[i].kind > last)
            return dp_err_set(err, DP_EINVAL, "schedule: action %u of device %u is of chunk %u, microbatch %u, kind %u",
                              i, device, action[i].chunk, action[i].mb, action[i].kind);
        is_next = &next[(size_t)action[i].chunk * o->microbatches + action[i].mb];
        if (action[i].kind != *is_next)
            return dp_err_set(err, DP_EINVAL, "schedule: action %u of device %u is a %s of chunk %u, microbatch %u, %s",
                              i, device, kind_names[action[i].kind], action[i].chunk, action[i].mb,
                              action[i].kind < *is_next ? "for the second time" : "too early");
        ++*is_next;
    }
    /* every operation is a different one and there are as many as there must be: none is missing */
    return 0;
}

int dp_sim_actions_check(const struct dp_sim_actions *o, struct dp_err *err)
{
    size_t cells = (size_t)o->chunks * o->microbatches;
    uint8_t *next = malloc(cells);
    int rc = 0;

    if (!next)
        return dp_err_set(err, DP_ENOMEM, "schedule: out of memory");
    if (!o->n_wide && o->n_per_device != (o->is_split ? 3 : 2) * cells)
        rc = dp_err_set(err, DP_EINVAL, "schedule: %u actions a device for %zu microbatches of chunks", o->n_per_device,
                        cells);
    for (uint32_t d = 0; d < o->n_devices && rc == 0; d++) {
        memset(next, 0, cells);
        rc = check_device(o, d, next, err);
    }
    free(next);
    return rc;
}
