/* SPDX-License-Identifier: BSD-3-Clause */
/* One simulated iteration with everything that a drawing needs: who computed what when, what the
 * network carried, and the memory over time. */
#ifndef DP_CLI_SIMULATE_TIMELINE_H
#define DP_CLI_SIMULATE_TIMELINE_H

#include "policies/sim/run.h"

struct dp_timeline {
    uint64_t iteration;
    uint32_t n_devices, chunks, buckets, n_places, n_spans;
    bool is_split, has_reductions;
    uint32_t *number;                     /* [n_devices] the devices' numbers in the pipeline */
    uint32_t *stage_of;                   /* [n_places] */
    struct dp_sim_stage *stage;           /* [n_places] */
    struct dp_sim_stage_out *device;      /* [n_devices] */
    struct dp_sim_span *span;             /* [n_spans] a device's are in order */
    struct dp_sim_reduction *reduction;   /* [n_places][buckets] */
    uint64_t backward_ns, reduce_ns, norm_ns, iteration_ns; /* as in struct dp_sim_out */
};

/* Simulate an iteration of a phase again and keep it (replica 0). Release it. */
int dp_timeline_take(const struct dp_sim_case *c, const struct dp_sim_phase *phase, uint64_t iteration, struct dp_timeline *out,
                     struct dp_err *err);
/* Free what take() made; a struct of zeroes may be released, too. */
void dp_timeline_release(struct dp_timeline *t);

/* Optimizer time of a device. */
uint64_t dp_timeline_optimizer_ns(const struct dp_timeline *t, uint32_t device);

/* Bytes of a device after each of its spans begins or ends. Calls back in the order of time with what is
 * held from then on; the first call is at 0. */
typedef void (*dp_timeline_bytes_fn)(void *arg, uint64_t at_ns, uint64_t bytes);
/* fn is called with arg, at least once; device: below n_devices. */
void dp_timeline_bytes(const struct dp_timeline *t, uint32_t device, dp_timeline_bytes_fn fn, void *arg);

/* Write a drawing. returns 0, or -1 (cannot be written, or has too much on it). */
int dp_timeline_chrome(const struct dp_timeline *t, const char *title, const char *path, struct dp_err *err);
int dp_timeline_svg(const struct dp_timeline *t, const char *title, const char *path, struct dp_err *err);

#endif
