/* SPDX-License-Identifier: BSD-3-Clause */
/* Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2; Megatron-LM's
 * forward_backward_pipelining_with_interleaving): a device owns v chunks of the model, so a microbatch
 * passes it v times, and the bubble falls by v at the price of v times the messages.
 *
 * Microbatches run in groups of D: the whole group through chunk 0, then through chunk 1, and so on;
 * backward from the last chunk to the first. Device d runs 2 (D - d - 1) + (v - 1) D of these forwards
 * ahead, then forward and backward in turn. The number of microbatches must be a multiple of D. */
#include "common/schedule/schedule.h"

static int check(uint32_t n_devices, uint32_t chunks, uint32_t microbatches, struct dp_err *err)
{
    (void)chunks;
    if (microbatches % n_devices)
        return dp_err_set(err, DP_EINVAL, "schedule interleaved: %u microbatches are not a multiple of %u devices", microbatches,
                          n_devices);
    return 0;
}

/* The i-th forward, or backward, of a device. */
static struct dp_action nth(const struct dp_schedule_place *at, uint32_t i, enum dp_action_kind kind)
{
    uint32_t d = at->n_devices, group = i / (d * at->chunks), chunk = i / d % at->chunks;

    return (struct dp_action){
        .mb = group * d + i % d,
        .chunk = (uint16_t)(kind == DP_ACTION_FORWARD ? chunk : at->chunks - 1 - chunk),
        .kind = (uint8_t)kind,
    };
}

static void fill(const struct dp_schedule_place *at, struct dp_action *out)
{
    uint32_t n = at->chunks * at->microbatches, fwd = 0;
    uint32_t ahead = 2 * at->behind + (at->chunks - 1) * at->n_devices;

    while (fwd < n && fwd < ahead)
        *out++ = nth(at, fwd++, DP_ACTION_FORWARD);
    for (uint32_t bwd = 0; bwd < n; bwd++) {
        if (fwd < n)
            *out++ = nth(at, fwd++, DP_ACTION_FORWARD);
        *out++ = nth(at, bwd, DP_ACTION_BACKWARD);
    }
}

const struct dp_schedule_rule dp_schedule_interleaved = {
    .has_chunks = true,
    .check = check,
    .fill = fill,
};
