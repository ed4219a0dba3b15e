/* SPDX-License-Identifier: BSD-3-Clause */
/* Is it worth asking for more slots? Predictions of the best layouts on more of them, what was measured, and what is left of the
 * run in; how many there should be, why, and one line with all numbers out. The cooldown is the caller's business. */
#ifndef DP_POLICIES_DECIDE_GROW_H
#define DP_POLICIES_DECIDE_GROW_H

#include "policies/decide/promise.h"

#define DP_GROW_OPTIONS 8 /* numbers of slots that are looked at: see dp_grow_numbers() */

struct dp_grow_option {
    uint32_t slots;
    uint64_t iteration_ns; /* of the best layout on them; 0: there is none */
};

struct dp_grow_in {
    uint32_t slots_now;
    uint64_t current_ns; /* predicted iteration of the layout in force */
    uint64_t best_ns;    /* of the best one on the slots that are held */
    bool wants_speed;    /* else: no more slots than the reference needs */
    uint64_t limit_ns;   /* longest iteration that meets the reference; 0: there is none, or it was not told */
    bool limit_falls;    /* with the loads: it is that of a layout with the loads of now */
    struct dp_measured now;       /* wall time of a step */
    uint64_t step_ns;             /* the same, as the newest steps say; 0: not known, and nothing is asked for */
    uint64_t allowed_ns;          /* of wall time, by the reference; 0: unknown */
    bool has_given;      /* slots were given back */
    bool loads_grew;     /* since then */
    double hysteresis;   /* percent that a slot more must gain */
    double left_mean;    /* of a step that is left, over one of now; 0: unknown */
    double steps_left, time_left_s; /* the fewer count; time_left_s INFINITY: there is no limit */
    double begin_s;      /* until a slot that is asked for trains, if it begins at once */
    double cost_s;       /* of the hand-over that takes it in */
    uint32_t n;
    struct dp_grow_option option[DP_GROW_OPTIONS]; /* rising slots, all more than slots_now */
};

enum dp_grow_why {
    DP_GROW_STAY = 0,
    DP_GROW_REFERENCE = 1, /* missed, and on the slots that are held no layout meets it */
    DP_GROW_LOADS = 2,     /* the same, because they have grown since slots were given back */
    DP_GROW_SPEED = 3,
};

struct dp_grow_out {
    enum dp_grow_why why;
    uint32_t slots;   /* that there should be; slots_now: stay */
    double gain_s;    /* of time to the last step, from when they train */
    char reason[256]; /* "3 slices instead of 1: a step takes 80.1 ms, 40.0 ms are allowed; ..." */
};

/* Which numbers of slots between now and most are looked at: every one at first, then some. slots: = [DP_GROW_OPTIONS].
 * returns: how many. */
uint32_t dp_grow_numbers(uint32_t now, uint32_t most, uint32_t *slots);

/* More or not. For the reference the fewest slots that meet it, or the fastest number where none does. For speed, as many as make a
 * step shorter by the hysteresis for each. Either must gain more time in what is left of the run than the hand-over takes; where
 * the loads of the steps that are left meet the reference anyway, nothing is asked for. What was given back is asked for again only
 * where the loads have grown since, or the measured step is longer than is allowed: what predictions alone say, they said
 * then. out: overwritten. */
void dp_grow_decide(const struct dp_grow_in *in, struct dp_grow_out *out);

const char *dp_grow_name(enum dp_grow_why why); /* "reference"; DP_GROW_STAY: "none" */

#endif
