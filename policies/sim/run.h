/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole training run: its iterations from event to event, each stretch simulated once. */
#ifndef DP_POLICIES_SIM_RUN_H
#define DP_POLICIES_SIM_RUN_H

#include "policies/sim/stages.h"

/* Iterations between two events, all alike. Everything is borrowed for the call. */
struct dp_sim_phase {
    uint64_t first, n; /* iterations first .. first + n - 1 */
    const struct dp_sim_layout *layout;
    const struct dp_sim_in *in;   /* what dp_sim_iterate() was given; may be given to it again */
    const struct dp_sim_out *out; /* device is set, span and reduction are not */
    uint32_t held;                /* devices of all replicas that the run holds */
    uint32_t moved_layers;        /* of one replica, before the first iteration */
    uint64_t moved_bytes;         /* likewise */
    uint64_t pause_ns;            /* before the first iteration */
    double density;               /* weights that are left, over all layers that have a number of them; else 1 */
    uint64_t measured_ns;         /* of an iteration of the real run, 0: unknown */
    double lost;                  /* of the real run, see struct dp_sim_event */
    double tokens_per_s;
    double device_s;              /* held devices x time, pause included */
};

/* returns 0, or -1 to end the run with that error. */
typedef int (*dp_sim_phase_fn)(void *arg, const struct dp_sim_phase *phase, struct dp_err *err);

struct dp_sim_totals {
    uint64_t iterations;
    double time_s, pause_s; /* pauses are part of the time */
    double tokens;
    double device_s;
    uint64_t simulated; /* iterations that were really computed */
};

/* Run a case (which passes dp_sim_case_check()); on_phase may be NULL.
 * A layout that needs more than case->memory_bytes on some device is an error. */
int dp_sim_run(const struct dp_sim_case *c, dp_sim_phase_fn on_phase, void *arg, struct dp_sim_totals *out, struct dp_err *err);

#endif
