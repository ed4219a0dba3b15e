/* SPDX-License-Identifier: BSD-3-Clause */
/* Device time of the parts of a layer: read the clock between parts, add each lap where it belongs. */
#ifndef DP_WORKER_MODEL_TIMER_H
#define DP_WORKER_MODEL_TIMER_H

#include "worker/model/layer.h"

struct dp_timer {
    struct dp_backend *be;
    uint64_t last_ns;
};

static inline struct dp_timer dp_timer_start(struct dp_backend *be)
{
    return (struct dp_timer){be, be->ops->time_ns(be)};
}

static inline void dp_timer_add(struct dp_timer *timer, uint64_t *sum_ns)
{
    uint64_t now = timer->be->ops->time_ns(timer->be);

    *sum_ns += now - timer->last_ns;
    timer->last_ns = now;
}

#endif
