/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy nicol: policy time by the algorithm of solve/nicol.h. */
#include "policies/balancer.h"
#include "policies/solve/nicol.h"

int dp_balancer_nicol(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note, struct dp_err *err)
{
    uint64_t largest;

    (void)note;
    return dp_partition_nicol(q, cut, &largest, err);
}

DP_BALANCER_POLICY(nicol, "nicol", DP_BY_TIME, dp_balancer_nicol, "as time, by Nicol's algorithm instead of bisection");
