/* SPDX-License-Identifier: BSD-3-Clause */
/* A site's own policy: as fast as possible with a part of every device's memory left free, for sites
 * where something else needs it (fragmentation, another process, a debugger).
 *
 *     cc -shared -fPIC -o headroom.so headroom.c $(pkg-config --cflags --libs dynpipe-policy)
 *
 * and in dynpipe.conf:
 *
 *     run: { policies = "time,headroom"; };
 *     site_policies = ( { name = "headroom"; file = "/usr/lib/dynpipe/headroom.so"; arguments = "free=20"; }
 * );
 *
 * The daemon loads it in a child process for each question, checks the answer, and predicts its time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/policy.h"

struct headroom {
    double free_percent;
};

static int headroom_open(void **state, int argc, char *const argv[], struct dp_err *err)
{
    struct headroom *h = calloc(1, sizeof *h);

    if (!h)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    h->free_percent = 10.0;
    for (int i = 0; i < argc; i++) {
        char *end = argv[i];

        if (!strncmp(argv[i], "free=", 5))
            h->free_percent = strtod(argv[i] + 5, &end);
        if (end == argv[i] || *end || !(h->free_percent >= 0.0 && h->free_percent <= 90.0)) {
            dp_err_set(err, DP_EINVAL, "argument '%s': expected free=PERCENT, 0 to 90", argv[i]);
            free(h);
            return -1;
        }
    }
    *state = h;
    return 0;
}

static void headroom_close(void *state)
{
    free(state);
}

static int headroom_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                           struct dp_err *err)
{
    const struct headroom *h = state;
    struct dp_policy_in less = *in;
    struct dp_device *device = calloc(in->n_devices, sizeof *device);
    uint64_t *work = calloc(in->n_layers, sizeof *work), slowest;
    int rc = -1;

    if (!device || !work) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
        goto out;
    }
    for (uint32_t l = 0; l < in->n_layers; l++)
        work[l] = dp_policy_layer_work_ns(in, l);
    for (uint32_t d = 0; d < in->n_devices; d++) {
        device[d] = in->device[d];
        device[d].mem_limit_bytes -= (uint64_t)((double)device[d].mem_limit_bytes * h->free_percent / 100.0);
    }
    less.device = device;
    rc = dp_policy_minmax(&less, work, true, &out->layout, &slowest, err);
    if (rc == 0)
        snprintf(out->reason, sizeof out->reason,
                 "headroom: slowest device computes %.3f ms a step, %g %% of the memory stay free",
                 (double)slowest / 1e6, h->free_percent);
out:
    free(device);
    free(work);
    return rc;
}

const struct dp_policy dp_policy_v1 = {
    .abi = DP_POLICY_ABI,
    .name = "headroom",
    .help = "exact min-max of the measured time, a part of the memory stays free",
    .open = headroom_open,
    .decide = headroom_decide,
    .close = headroom_close,
};
