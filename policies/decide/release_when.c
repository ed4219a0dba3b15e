/* SPDX-License-Identifier: BSD-3-Clause */
/* See release_when.h. A slot given back at step t returns (steps_total - t) steps of its time; with
 * one shrink left it is all or nothing, so every choice is compared in slot-seconds. */
#include "policies/decide/release_when.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SAY(out, ...) snprintf((out)->reason, sizeof(out)->reason, __VA_ARGS__)

static double left_s(const struct dp_release_when_in *in, uint64_t from)
{
    return from < in->steps_total ? (double)(in->steps_total - from) * in->step_s : 0.0;
}

/* returns how many slots the best later step frees. */
static uint32_t find_later(const struct dp_release_when_in *in, struct dp_release_when_out *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < in->n_later; i++) {
        double slot_s = in->later[i].free * left_s(in, in->later[i].step);

        if (in->later[i].free > in->free_now && slot_s > out->wait_slot_s) {
            out->wait_slot_s = slot_s;
            out->wait_step = in->later[i].step;
            n = in->later[i].free;
        }
    }
    return n;
}

void dp_release_when(const struct dp_release_when_in *in, struct dp_release_when_out *out)
{
    uint32_t later;

    memset(out, 0, sizeof *out);
    out->now_slot_s = in->free_now * left_s(in, in->step);
    if (!in->free_now) {
        SAY(out, "nothing to release");
        return;
    }
    if (!in->shrinks_left && in->has_stepmgr) {
        SAY(out, "nodes that are not needed: %u, but the job's stepmgr would start its next step on nodes that left", in->free_now);
        return;
    }
    if (!in->shrinks_left) {
        SAY(out, "nodes that are not needed: %u, but this Slurm lets the job shrink no further", in->free_now);
        return;
    }
    if (in->shrinks_left > 1) {
        out->now = true;
        SAY(out, "release now, nodes: %u, more releases possible: %u", in->free_now, in->shrinks_left - 1);
        return;
    }
    later = find_later(in, out);
    out->now = out->wait_slot_s < DP_WAIT_GAIN * out->now_slot_s;
    if (!later)
        SAY(out, "release now, nodes: %u, %.0f node-s, and no later step is expected to free more", in->free_now,
            out->now_slot_s);
    else
        SAY(out, "%s %.0f node-s by freeing %u now, %.0f node-s by freeing %u at step %" PRIu64
                 ", and the job can shrink only once",
            out->now ? "release:" : "wait:", out->now_slot_s, in->free_now, out->wait_slot_s, later,
            out->wait_step);
}
