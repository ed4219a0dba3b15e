/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of a layer is copied between two optimizer steps, so that training loses little by it; and whether that is worth while. */
#ifndef DP_WORKER_SHADOW_PACE_H
#define DP_WORKER_SHADOW_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define DP_PACE_SHARE 0.05 /* of a step that copying may take on the worker that it costs most */
#define DP_PACE_FIRST_BYTES_NS 0.5 /* bytes in a nanosecond before any was measured: copied, checked, and the rest of it */
#define DP_PACE_PAUSE_NS 20000000u /* a stop that is shorter is no matter for anybody */

struct dp_pace {
    double bytes_ns;   /* bytes in a nanosecond, of whichever end is slower; mean of what was measured, 0: nothing yet */
    double max_bytes_ns; /* what the user allows, 0: no limit */
};

/* A step copied so many bytes, state and gradients together, and the end that was busier took so long. */
void dp_pace_measured(struct dp_pace *p, uint64_t bytes, uint64_t busy_ns);

/* Bytes of state that may be copied at the next boundary. step_ns: what a step takes. gradient_bytes: of what was copied before, which
 * go in any case. */
uint64_t dp_pace_budget(const struct dp_pace *p, uint64_t step_ns, uint64_t gradient_bytes);

/* Would the run stand still for so long that copying while it trains is better? bytes: of all layers that leave this worker. */
bool dp_pace_is_worth(uint64_t bytes, uint64_t step_ns);

#endif
