/* SPDX-License-Identifier: BSD-3-Clause */
/* Device time of the parts of a layer: read the clock between parts, add each lap where it belongs. */
#ifndef DP_WORKER_MODEL_LAP_H
#define DP_WORKER_MODEL_LAP_H

#include "worker/model/layer.h"

struct dp_lap {
    struct dp_backend *be;
    uint64_t last_ns;
};

static inline struct dp_lap dp_lap_start(struct dp_backend *be)
{
    return (struct dp_lap){be, be->ops->time_ns(be)};
}

static inline void dp_lap_add(struct dp_lap *lap, uint64_t *sum_ns)
{
    uint64_t now = lap->be->ops->time_ns(lap->be);

    *sum_ns += now - lap->last_ns;
    lap->last_ns = now;
}

#endif
