/* SPDX-License-Identifier: BSD-3-Clause */
/* DynMo's packing (arXiv 2505.14864; balancer/pack.py of its code at 7faf19e, read and re-told), as a
 * baseline: whole stages are merged into a device to their right, first fit by memory, until a number of
 * devices is reached that the user gives; all or nothing.
 *
 *     for src in 0..N-1: for dst in src+1..N-1:
 *         if mem[src] + mem[dst] < limit(dst) and devices > target:
 *             move all layers from src to dst
 *
 * What it does not look at: time, slots, the batch host, whether a stage stays one run of layers, and
 * memory beyond the sum of both stages as they were. A layer may travel several times.
 */
#ifndef DP_POLICIES_BASELINES_FIRST_FIT_H
#define DP_POLICIES_BASELINES_FIRST_FIT_H

#include "policies/policy.h"

struct dp_first_fit {
    uint32_t devices;              /* that hold layers in the end */
    bool is_reached;               /* the target */
    bool is_contiguous;            /* every stage is still one run of layers, in the order of the devices */
    bool is_possible;              /* both, and it fits into memory when that is computed anew: out is valid */
    uint32_t owner[DP_MAX_LAYERS]; /* device of each layer */
    uint64_t sent_bytes;           /* state of layers, each time that it moves */
    uint64_t moved_bytes;          /* state of the layers whose device changed */
    struct dp_policy_out out;      /* layout with its prediction, in this project's terms */
    char reason[256];
};

/* in: passes dp_policy_in_check(). Starts from the layout in force. */
int dp_first_fit_pack(const struct dp_policy_in *in, uint32_t target, struct dp_first_fit *f, struct dp_err *err);

#endif
