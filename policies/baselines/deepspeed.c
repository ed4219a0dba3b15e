/* SPDX-License-Identifier: BSD-3-Clause */
/* DeepSpeed's static partition of a pipeline (partition_method "parameters"), as older releases had it and
 * DynMo took it over: bisection on the bottleneck over inclusive prefix sums (deepspeed/runtime/utils.py,
 * partition_balanced, _rb_partition_balanced, _lprobe; written anew).
 *
 * What it does not do well is kept, because a baseline is what people run:
 * - a part takes items while its sum stays below the bottleneck, so the answer is the optimum plus up
 *   to eps; on integers that is the optimum, but lower = mid + eps can pass it by;
 * - an item as heavy as the bottleneck at the very start leaves the first part empty and makes the
 *   next target the whole sum (parts[p] - 1 is -1, Python's last element): two parts then count as
 *   balanced with everything in the second.
 * It knows neither speeds nor memory.
 */
#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/solve/chain.h"

#define EPS 1e-3 /* of one parameter, or of a nanosecond */

/* First i in [low, high) with sum[i] >= target, or high. sum: inclusive. */
static uint32_t bisect_left(const uint64_t *sum, double target, uint32_t low, uint32_t high)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if ((double)sum[middle] < target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Fill parts up to the bottleneck. returns: does it count as balanced? */
static bool probe(const uint64_t *sum, uint32_t n, uint32_t p, double bottleneck, uint32_t *part)
{
    uint32_t chunk = n / p, step = chunk;
    double target = bottleneck, total = (double)sum[n - 1];

    part[0] = 0;
    for (uint32_t i = 1; i <= p; i++)
        part[i] = n;
    for (uint32_t i = 1; i < p; i++) {
        while (step < n && (double)sum[step] < target)
            step += chunk;
        part[i] = bisect_left(sum, target, step - chunk, step < n ? step : n);
        if (part[i] == n)
            return total - (double)sum[part[i - 1]] < bottleneck;
        target = (double)(part[i] ? sum[part[i] - 1] : sum[n - 1]) + bottleneck;
    }
    return target >= total;
}

int dp_balancer_deepspeed(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note,
                          struct dp_err *err)
{
    double low, high;
    struct dp_chain c;

    (void)note;
    if (dp_chain_init(&c, q, err) < 0)
        return -1;
    if (q->n <= q->p) {
        dp_chain_uniform(q->n, q->p, cut);
    } else {
        const uint64_t *sum = c.weight + 1;

        low = (double)sum[q->n - 1] / q->p;
        high = (double)sum[q->n - 1];
        while (high > low + EPS) {
            double middle = low + (high - low) / 2;

            if (middle <= low || middle >= high)
                break; /* eps is finer than a double: the original would not end */
            if (probe(sum, q->n, q->p, middle, cut))
                high = middle;
            else
                low = middle + EPS;
        }
        probe(sum, q->n, q->p, high, cut);
    }
    dp_chain_release(&c);
    return 0;
}

DP_BALANCER_POLICY(deepspeed_param, "deepspeed-param", DP_BY_PARAM, dp_balancer_deepspeed,
                   "DeepSpeed's static partition, by remaining parameters");
DP_BALANCER_POLICY(deepspeed_time, "deepspeed-time", DP_BY_TIME, dp_balancer_deepspeed,
                   "DeepSpeed's static partition, by measured time");
