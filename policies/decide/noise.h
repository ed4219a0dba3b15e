/* SPDX-License-Identifier: BSD-3-Clause */
/* How sure measured loads are. Two things make them differ from one report to the next where nothing was changed: they scatter around
 * what they are, as routing and shared cores make them, and they wander off to what they were not. No layout wins back what scatters,
 * and what a layout wins of loads that wander it wins for a while.
 *
 * tau, the steps for which a gain lasts: as many as a stage's part of the work takes to wander as far as the gain is, by a random walk:
 * (gain / wander)^2. Loads of now and those of later have that much to do with each other. Infinite where loads do not wander; pruning
 * and freezing are no wandering: whoever calls begins anew when a layer was changed.
 */
#ifndef DP_POLICIES_DECIDE_NOISE_H
#define DP_POLICIES_DECIDE_NOISE_H

#include <stdint.h>

#define DP_NOISE_WINDOWS 16 /* reports that are looked at: some seconds, or as many steps */
#define DP_NOISE_LEAST 3    /* fewer say nothing: 0. As many as are waited for before a first decision */

/* A report of a stage. */
struct dp_window {
    uint64_t step, ns; /* last step of it; device time of the stage's layers, of one microbatch */
};

struct dp_noise {
    uint32_t n;     /* reports of each stage that it is from; less than DP_NOISE_LEAST: the rest is 0 */
    double scatter; /* median absolute deviation over the median, of a stage's part of all work; of the stage where it is most */
    double wander;  /* how far a stage's part of the work goes in one step, over what it is; 0: it stays, as far as can be told */
};

/* Median absolute deviation over the median of n values, at most DP_NOISE_WINDOWS; 0: fewer than DP_NOISE_LEAST, or all alike. */
double dp_scatter_of(const uint64_t *ns, uint32_t n);

/* w: [n_stages][n], each stage's n newest reports, the oldest first; n at most DP_NOISE_WINDOWS. It takes all of these to see that loads
 * wander: they must be further apart the longer it is between two of them. */
void dp_noise_of(const struct dp_window *w, uint32_t n_stages, uint32_t n, struct dp_noise *out);

/* tau of a gain, which is a part of the time of now. INFINITY: loads do not wander. */
double dp_lasting_steps(const struct dp_noise *noise, double gain);

#endif
