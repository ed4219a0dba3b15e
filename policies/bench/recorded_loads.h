/* SPDX-License-Identifier: BSD-3-Clause */
/* What `./demo` measured on two cores: at each density of the blocks' matrices, the time of one
 * microbatch through all eight blocks (forward and both backward parts), after the reports settled. */
#ifndef DP_POLICIES_BENCH_RECORDED_LOADS_H
#define DP_POLICIES_BENCH_RECORDED_LOADS_H

#define RECORDED_LAST 8 /* index of the last row */

static const struct {
    double density, ms;
} recorded[RECORDED_LAST + 1] = {
    {1.0000, 60.64}, {0.8330, 60.43}, {0.6885, 58.56}, {0.5640, 54.84}, {0.4597, 49.25},
    {0.3720, 43.25}, {0.3003, 40.79}, {0.2430, 35.35}, {0.1076, 27.00},
};

/* Milliseconds at a density, between the two that were measured next to it. */
static inline double recorded_ms(double density)
{
    int i = 1;

    while (i < RECORDED_LAST && recorded[i].density > density)
        i++;
    return recorded[i].ms + (recorded[i - 1].ms - recorded[i].ms) * (density - recorded[i].density) /
                                (recorded[i - 1].density - recorded[i].density);
}

#endif
