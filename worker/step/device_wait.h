/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for the device without being deaf.
 *
 * A backend works off what it is told later (kernels/backend.h). A worker that waits for a point in that work goes on
 * with its messages and answers its daemon meanwhile, however long the device takes. On a backend that computes while it
 * is called nothing ever waits here.
 */
#ifndef DP_WORKER_STEP_DEVICE_WAIT_H
#define DP_WORKER_STEP_DEVICE_WAIT_H

#include "kernels/backend.h"
#include "worker/net/transport.h"

struct dp_device_wait {
    struct dp_backend *be;
    struct dp_transport *transport; /* NULL: the worker is alone */
    void (*serve)(void *arg); /* where it is alone: answer the daemon; NULL: there is none */
    void *arg;
};

/* Until t has been passed. returns 0, or -1 and err: the device failed, now or before. */
int dp_device_await(const struct dp_device_wait *w, dp_ticket t, struct dp_err *err);

/* Until all that the computing lane was told is done: what is read from it then does not wait. */
int dp_device_finish(const struct dp_device_wait *w, struct dp_err *err);

/* The same for a lane and no longer than timeout_ns, for whoever gives up memory that it used. returns: has it passed,
 * or has the device failed, so that it never will? */
bool dp_device_drain(const struct dp_device_wait *w, enum dp_lane lane, uint64_t timeout_ns);

#endif
