/* SPDX-License-Identifier: BSD-3-Clause */
/* See first_fit.h. */
#include "policies/baselines/first_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/predict/answer.h"
#include "policies/predict/predict.h"

/* Memory of the stages of the layout in force: what DynMo measures. mem: = [n_devices] */
static int measure(const struct dp_policy_in *in, uint64_t *mem, struct dp_err *err)
{
    struct dp_sim_stage_out *stage = calloc(DP_MAX_WORKERS, sizeof *stage);
    uint64_t ns;
    int rc;

    if (!stage)
        return dp_err_set(err, DP_ENOMEM, "first-fit: out of memory");
    rc = dp_predict_layout(in, in->current, stage, &ns, err);
    for (uint32_t d = 0, s = 0; d < in->n_devices; d++)
        mem[d] = in->current->cut[d + 1] > in->current->cut[d] ? stage[s++].mem_bytes : 0;
    free(stage);
    return rc;
}

static void merge(const struct dp_policy_in *in, uint32_t src, uint32_t dst, struct dp_first_fit *f)
{
    for (uint32_t l = 0; l < in->n_layers; l++)
        if (f->owner[l] == src) {
            f->owner[l] = dst;
            f->sent_bytes += in->layer[l].state_bytes;
        }
}

static void merge_all(const struct dp_policy_in *in, uint32_t target, uint64_t *mem, struct dp_first_fit *f)
{
    uint8_t is_active[DP_MAX_WORKERS] = {0};

    for (uint32_t d = 0; d < in->n_devices; d++) {
        is_active[d] = in->current->cut[d + 1] > in->current->cut[d];
        f->devices += is_active[d];
    }
    for (uint32_t src = 0; src < in->n_devices; src++)
        for (uint32_t dst = src + 1; dst < in->n_devices && is_active[src]; dst++) {
            uint64_t limit = in->device[dst].mem_limit_bytes;

            if (!is_active[dst] || !in->device[dst].is_allowed || f->devices <= target ||
                (limit && mem[src] + mem[dst] >= limit))
                continue;
            merge(in, src, dst, f);
            is_active[src] = 0;
            f->devices--;
            mem[dst] += mem[src];
            mem[src] = 0;
        }
    f->is_reached = f->devices == target;
}

/* Cuts, where the owners of the layers never go back. */
static void find_cuts(const struct dp_policy_in *in, struct dp_first_fit *f)
{
    struct dp_layout *l = &f->out.layout;

    *l = *in->current;
    memset(l->cut, 0, sizeof l->cut);
    f->is_contiguous = true;
    for (uint32_t i = 0; i < in->n_layers; i++) {
        f->is_contiguous &= !i || f->owner[i] >= f->owner[i - 1];
        l->cut[f->owner[i] + 1] = i + 1;
    }
    for (uint32_t d = 0; d < in->n_devices; d++)
        if (l->cut[d + 1] < l->cut[d])
            l->cut[d + 1] = l->cut[d];
}

static int repeat(void *state, const struct dp_policy_in *in, struct dp_policy_out *out, struct dp_err *err)
{
    (void)in;
    (void)err;
    *out = *(const struct dp_policy_out *)state;
    return 0;
}

static void say(const struct dp_policy_in *in, uint32_t target, const struct dp_err *why,
                struct dp_first_fit *f)
{
    if (!f->is_reached)
        snprintf(f->reason, sizeof f->reason, "first-fit: cannot pack onto %u devices, %u are left of %u",
                 target, f->devices, dp_layout_active(in->current));
    else if (!f->is_contiguous)
        snprintf(f->reason, sizeof f->reason, "first-fit: on %u devices the layers would not be in order",
                 f->devices);
    else if (!f->is_possible)
        snprintf(f->reason, sizeof f->reason, "first-fit: on %u devices: %.200s", f->devices, why->text);
    else
        snprintf(f->reason, sizeof f->reason,
                 "first-fit: %u devices, %.3f ms a step predicted, %.1f MiB sent to move %.1f MiB", f->devices,
                 (double)f->out.iteration_ns / 1e6, (double)f->sent_bytes / 1048576.0,
                 (double)f->moved_bytes / 1048576.0);
}

int dp_first_fit_pack(const struct dp_policy_in *in, uint32_t target, struct dp_first_fit *f, struct dp_err *err)
{
    static const struct dp_policy asked = {
        .abi = DP_POLICY_ABI, .name = "first-fit", .help = "", .decide = repeat};
    uint64_t *mem = calloc(in->n_devices, sizeof *mem);
    struct dp_policy_out merged;
    struct dp_err why = {.code = DP_OK};

    if (!mem)
        return dp_err_set(err, DP_ENOMEM, "first-fit: out of memory");
    memset(f, 0, sizeof *f);
    if (measure(in, mem, err) < 0) {
        free(mem);
        return -1;
    }
    for (uint32_t l = 0; l < in->n_layers; l++)
        f->owner[l] = dp_layout_owner(in->current, l);
    merge_all(in, target, mem, f);
    free(mem);
    for (uint32_t l = 0; l < in->n_layers; l++)
        if (f->owner[l] != dp_layout_owner(in->current, l))
            f->moved_bytes += in->layer[l].state_bytes;
    find_cuts(in, f);
    merged = f->out;
    if (f->is_reached && f->is_contiguous)
        f->is_possible = dp_policy_run(&asked, &merged, in, &f->out, &why) == 0;
    say(in, target, &why, f);
    return 0;
}
