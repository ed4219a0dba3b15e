/* SPDX-License-Identifier: BSD-3-Clause */
/* A simulated run taken in other ways: with the layout that it started with, with the best one on all devices,
 * on fewer devices from the first step on (policies/saving/saving.h). */
#ifndef DP_POLICIES_SAVING_WAYS_H
#define DP_POLICIES_SAVING_WAYS_H

#include "policies/saving/saving.h"
#include "policies/saving/trade.h"
#include "policies/sim/run.h"

/* Can it be compared? Not where stages have several devices: such a run has one layout, and no policy finds another. */
bool dp_sim_has_ways(const struct dp_sim_case *c);

/* c: dp_sim_has_ways(). A step of a recorded run takes what was measured, else what is predicted. A pause counts for
 * every way, but for that of an event that moves layers. Best layout: the faster one of policy `time` and the one
 * that the run started with, or the run's own while it holds all devices.
 * returns 0 or -1. Where policy `time` has no layout, balanced is what the fixed run is. */
int dp_sim_saving(const struct dp_sim_case *c, struct dp_saving *out, struct dp_err *err);

/* The whole run on the first n devices of each pipeline, by a policy of the registry, moves for nothing; the others are given
 * back before the first step. on_phase as in dp_sim_run(). returns 0, or -1 when there is no such run. */
int dp_sim_run_by(const struct dp_sim_case *c, uint32_t n, const char *policy, dp_sim_phase_fn on_phase, void *arg,
                  struct dp_sim_totals *out, struct dp_err *err);

/* The same by policy `time`. last_ns: = the last iteration. returns 0, or -1 when there is no such run. */
int dp_sim_run_on(const struct dp_sim_case *c, uint32_t n, struct dp_sim_totals *out, uint64_t *last_ns, struct dp_err *err);

/* The whole run on every number of devices, or on some evenly, beside the fixed way of *saving; with marks. A number of
 * devices that has no run says why. */
void dp_sim_trade(const struct dp_sim_case *c, const struct dp_saving *saving, struct dp_trade *out);

#endif
