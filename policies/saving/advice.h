/* SPDX-License-Identifier: BSD-3-Clause */
/* How many devices to ask for, and how to lay the model out over them: the run with the best layouts on every number of
 * devices (policy `iteration`, which moves for nothing), and how long each number is as fast as all were at the start. */
#ifndef DP_POLICIES_SAVING_ADVICE_H
#define DP_POLICIES_SAVING_ADVICE_H

#include "policies/saving/ways.h"

#define DP_ADVICE_PARTS 256u /* stretches of a run between changes: each is balanced on each number of devices */

/* One stretch on one number of devices. */
struct dp_advice_part {
    uint64_t first, n; /* iterations */
    uint64_t iteration_ns, pause_ns; /* the pause is before the first iteration */
    uint64_t mem_bytes;              /* of the device that needs the most */
    uint32_t n_stages;
    uint32_t *count; /* [n_stages] layers of each stage, in order */
};

/* One number of devices. */
struct dp_advice_row {
    uint32_t devices;            /* of one pipeline */
    struct dp_advice_part *part; /* [n_parts] of struct dp_advice; NULL: there is no layout, see the trade's row */
    uint64_t fast_iterations;    /* those that take at most start_ns */
    uint64_t fast_from;          /* from this one on all do; 0: not the last one */
};

struct dp_advice {
    uint32_t n_parts;
    uint64_t start_ns;     /* the first iteration on all devices */
    struct dp_trade trade; /* row i is row[i]'s, beside the fixed way of *saving; marked */
    struct dp_advice_row row[DP_TRADE_ROWS];
    uint32_t chosen; /* row to ask for: the fewest device-seconds of those that end in time; trade.n: none does */
    /* A run that begins on all devices, and gives back what it does not need to stay as fast as its start: the fewest
     * devices, in the last stretch, and to the end. Devices that are given back do not come back. */
    uint32_t last_devices; /* of one pipeline */
    double time_s, device_s;
};

/* c: dp_sim_has_ways(). saving: of the same case. *out: release it whatever comes back.
 * returns 0, or -1: too many stretches, or no layout on all devices. */
int dp_sim_advise(const struct dp_sim_case *c, const struct dp_saving *saving, struct dp_advice *out, struct dp_err *err);
/* Free it; a struct of zeroes may be released, too. */
void dp_advice_release(struct dp_advice *a);

#endif
