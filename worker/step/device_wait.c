/* SPDX-License-Identifier: BSD-3-Clause */
/* See device_wait.h. No descriptor tells that a device has come to a point, so the wait looks at everything in turn. */
#include "worker/step/device_wait.h"

#include "common/clock.h"
#include "common/log.h"

#define LOOK_NS 100000u /* in the device, before the next look at messages and the daemon */
#define LATE_NS 60000000000u /* longer than any microbatch takes: tell the user once in such a time */

int dp_device_await(const struct dp_device_wait *w, dp_ticket t, struct dp_err *err)
{
    uint64_t tell_ns = 0;
    int rc;

    if (!t)
        return 0;
    while ((rc = w->be->ops->await(w->be, t, LOOK_NS, err)) == 0) {
        uint64_t now_ns = dp_now_ns();

        if (w->transport)
            dp_transport_idle(w->transport, 0);
        else if (w->serve)
            w->serve(w->arg);
        if (!tell_ns)
            tell_ns = now_ns + LATE_NS;
        if (now_ns >= tell_ns) {
            dp_warn("the device (backend %s) has not come to an end for %u s; waiting", w->be->ops->name,
                    (unsigned)(LATE_NS / 1000000000u));
            tell_ns = now_ns + LATE_NS;
        }
    }
    return rc < 0 ? -1 : 0;
}

int dp_device_finish(const struct dp_device_wait *w, struct dp_err *err)
{
    dp_ticket t;

    if (w->be->ops->mark(w->be, DP_LANE_COMPUTE, &t, err) < 0)
        return -1;
    return dp_device_await(w, t, err);
}

bool dp_device_drain(const struct dp_device_wait *w, enum dp_lane lane, uint64_t timeout_ns)
{
    dp_ticket t;

    if (w->be->ops->mark(w->be, lane, &t, NULL) < 0 || !t)
        return true;
    return w->be->ops->await(w->be, t, timeout_ns, NULL) != 0;
}
