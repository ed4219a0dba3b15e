/* SPDX-License-Identifier: BSD-3-Clause */
/* Release now, or wait until pruning or freezing frees more? Only a question where Slurm lets a job shrink once
 * more and no further (22.05 without slurmdbd, slurm.md F7). */
#ifndef DP_POLICIES_DECIDE_RELEASE_WHEN_H
#define DP_POLICIES_DECIDE_RELEASE_WHEN_H

#include "policies/policy.h"

#define DP_RELEASE_LATER 12 /* each is packed anew in the child (daemon/coord/decide/plan.c) */

/* What waiting is expected to free. */
struct dp_release_later {
    uint64_t step;
    uint32_t free; /* slots that packing is predicted to free with the loads of that step */
};

struct dp_release_when_in {
    uint32_t shrinks_left;
    bool has_stepmgr;   /* which is why none are left */
    uint32_t free_now; /* slots that packing frees with the loads of now */
    double step_s;     /* wall time of a step now; the same is taken for all steps to come */
    uint64_t step, steps_total;
    uint32_t n_later;
    struct dp_release_later later[DP_RELEASE_LATER]; /* candidates: changes that are known to come */
};

struct dp_release_when_out {
    bool now;
    double now_slot_s, wait_slot_s; /* slot-seconds returned by now, and by the best later step */
    uint64_t wait_step;             /* 0: no later step is worth looking at */
    char reason[256];
};

/* Waiting must return DP_WAIT_GAIN times as much: it is a prediction, what is free now is measured. */
#define DP_WAIT_GAIN 1.05
/* Release now, or wait? Where the job can shrink more than once: now. Where only once: when free slots times the
 * seconds left are most, by the predictions in later[]. out: overwritten, with one line that says why. */
void dp_release_when(const struct dp_release_when_in *in, struct dp_release_when_out *out);

#endif
