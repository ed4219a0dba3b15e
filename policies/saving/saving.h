/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run saved, against the runs that it could have been.
 *
 * The same steps can be taken in three ways. All of them prune alike, so each becomes faster as layers get
 * sparse, and nothing here compares a dense run with a sparse one:
 *   run       as it was: its layouts, its hand-overs, its releases
 *   fixed     the layout that it started with, on all devices that it began with, to the last step
 *   balanced  the best layout on all of these devices at every step, moves for nothing
 *
 * A run is cut into windows. In each, one model predicts a step of all three ways. What the model misses it misses
 * on both sides: a step of another way takes what the run measured times the one prediction over the other. Where the
 * run is on fewer stages than it started with, what was missed while it was on all of them counts for the others:
 * messages, or workers that share a core, are missed by their number; and its steps are longer or shorter than what was
 * measured beside the prediction because of pruning, which has the same part in all ways. Windows add up to the time at
 * which each way ends.
 */
#ifndef DP_POLICIES_SAVING_SAVING_H
#define DP_POLICIES_SAVING_SAVING_H

#include <stdbool.h>
#include <stdint.h>

enum dp_way { DP_WAY_RUN = 0, DP_WAY_FIXED, DP_WAY_BALANCED, DP_N_WAYS };

/* Steps that follow each other under one layout. Seconds. */
struct dp_saving_window {
    uint64_t steps;
    double step_s;     /* of the run, each, as measured; or as predicted where nothing was */
    double besides_s;  /* between steps, whichever the way: pruning, validation, checkpoints, waiting to start */
    double pause_s;    /* between steps, of the run alone: hand-overs */
    double predicted_s[DP_N_WAYS]; /* of a step; 0: unknown, then that way is as fast as the run */
    double measured_s; /* of the run, beside predicted_s: while its loads were measured; 0: they are those of this window */
    bool is_whole;     /* the run is on as many stages as it started with */
    double dense_s;    /* of a step of the fixed way before anything was pruned; 0: unknown */
};

/* All 0 at first. */
struct dp_saving_sums {
    uint64_t steps;
    uint64_t unknown_steps; /* of them: taken as equal, since nothing was predicted */
    double time_s[DP_N_WAYS];
    double dense_s, pruned_s; /* steps of the fixed way where dense_s is known: unpruned, and as they are */
    double miss; /* measured over predicted, on all stages, lately; 0: unknown */
    uint32_t n_miss; /* windows in it, as far as they count */
};

/* Add a window of w->steps steps to every way: the run by its measured times, the others by what is predicted for
 * them, calibrated by what the run's own prediction missed. Pauses count for the run alone. */
void dp_saving_add(struct dp_saving_sums *sums, const struct dp_saving_window *w);
/* A step of a way in this window, calibrated. */
double dp_saving_step_s(const struct dp_saving_sums *sums, const struct dp_saving_window *w, enum dp_way way);

/* Devices that the run held from some time on. */
struct dp_saving_held {
    double from_s;
    uint32_t devices;
};

struct dp_saving {
    uint32_t devices;            /* that it began with */
    double time_s[DP_N_WAYS];    /* to the last step */
    double device_s[DP_N_WAYS];  /* held meanwhile */
    double step_s[DP_N_WAYS];    /* of the last step; 0: unknown. The caller's, dp_saving_close() leaves it 0 */
    double lent_device_s;        /* given back by the run before the fixed one would have ended: others can use them */
    double later;                /* of the run: its time over that of fixed, less 1; negative: earlier */
    double packing;              /* tokens a device-second at equal sparsity: over those of fixed, less 1 */
    double pruning;              /* tokens a device-second of fixed over those that it had unpruned, less 1; NaN: unknown */
};

/* held: n >= 1 entries by rising time, the first one from 0; what the run held until sums->time_s[DP_WAY_RUN].
 * The other two ways hold held[0].devices from first to last. */
void dp_saving_close(const struct dp_saving_sums *sums, const struct dp_saving_held *held, uint32_t n,
                     struct dp_saving *out);

#endif
