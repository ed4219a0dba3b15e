/* SPDX-License-Identifier: BSD-3-Clause */
/* See correction.h. */
#include "policies/decide/correction.h"

#include <stdlib.h>
#include <string.h>

#include "policies/decide/promise.h"
#include "policies/predict/predict.h"

#define HALVINGS 24 /* the interval becomes a ten-millionth */

static double factor_of(const struct dp_correction *c, uint32_t slot)
{
    return c->slot[slot] > 1.0 ? c->slot[slot] : 1.0;
}

static double scale_of(const struct dp_correction *c)
{
    return c->scale > 0.0 ? c->scale : 1.0;
}

void dp_correction_apply(const struct dp_correction *c, const struct dp_policy_in *in, struct dp_device *device,
                         struct dp_policy_in *out)
{
    memmove(device, in->device, in->n_devices * sizeof *device);
    for (uint32_t d = 0; d < in->n_devices; d++)
        device[d].speed /= factor_of(c, device[d].slot);
    *out = *in;
    out->device = device;
    out->link_latency_s += (double)c->link_ns / 1e9;
    out->links = dp_links_are_slow(&c->links) ? &c->links : NULL;
}

uint64_t dp_correction_wall_ns(const struct dp_correction *c, uint64_t iteration_ns)
{
    return (uint64_t)((double)iteration_ns * scale_of(c)) + c->rest_ns;
}

uint64_t dp_correction_iteration_ns(const struct dp_correction *c, uint64_t wall_ns)
{
    return wall_ns > c->rest_ns ? (uint64_t)((double)(wall_ns - c->rest_ns) / scale_of(c)) : 0;
}

static int simulate(const struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                    uint64_t *iteration_ns, struct dp_err *err)
{
    struct dp_device *device = malloc(in->n_devices * sizeof *device);
    struct dp_policy_in corrected;
    int rc;

    if (!device)
        return dp_err_set(err, DP_ENOMEM, "prediction: out of memory");
    dp_correction_apply(c, in, device, &corrected);
    rc = dp_predict_layout(&corrected, layout, NULL, iteration_ns, err);
    free(device);
    return rc;
}

int dp_correction_predict(const struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                          uint64_t *wall_ns, struct dp_err *err)
{
    uint64_t ns;

    if (simulate(c, in, layout, &ns, err) < 0)
        return -1;
    *wall_ns = dp_correction_wall_ns(c, ns);
    return 0;
}

int dp_correction_settle(struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                         uint64_t measured_ns, struct dp_err *err)
{
    uint64_t ns;

    if (simulate(c, in, layout, &ns, err) < 0)
        return -1;
    c->rest_ns = measured_ns > ns ? measured_ns - ns : 0;
    c->scale = measured_ns < ns ? (double)measured_ns / (double)ns : 1.0;
    return 0;
}

/* The least latency with which the layout takes target_ns: the iteration only grows with it. */
static int solve_link(struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                      uint64_t target_ns, struct dp_err *err)
{
    uint64_t low = 0, high = target_ns;

    for (int i = 0; i < HALVINGS && high - low > 1000; i++) {
        uint64_t ns;

        c->link_ns = low + (high - low) / 2;
        if (simulate(c, in, layout, &ns, err) < 0)
            return -1;
        if (ns < target_ns)
            low = c->link_ns;
        else
            high = c->link_ns;
    }
    c->link_ns = high;
    return 0;
}

int dp_correction_learn(struct dp_correction *c, const struct dp_policy_in *in, const struct dp_layout *layout,
                        uint64_t measured_ns, uint64_t usual_rest_ns, struct dp_err *err)
{
    uint64_t ns, target_ns = measured_ns > usual_rest_ns ? measured_ns - usual_rest_ns : 0;

    c->link_ns = 0;
    if (simulate(c, in, layout, &ns, err) < 0)
        return -1;
    if (dp_layout_active(layout) > 1 && (double)target_ns > (double)ns * (1.0 + DP_PROMISE_TOLERANCE) &&
        solve_link(c, in, layout, target_ns, err) < 0)
        return -1;
    return dp_correction_settle(c, in, layout, measured_ns, err);
}

bool dp_correction_is_neutral(const struct dp_correction *c, uint32_t n_slots)
{
    for (uint32_t s = 0; s < n_slots; s++)
        if (factor_of(c, s) > 1.0)
            return false;
    return !c->link_ns && !dp_links_are_slow(&c->links);
}
