/* SPDX-License-Identifier: BSD-3-Clause */
/* DeepSpeed's partition of today (deepspeed/runtime/utils.py, partition_balanced): a dynamic
 * program over (items, parts) that wants the fullest and the emptiest part close together. It keeps one
 * answer per state, the one with the least max - min, and takes the last of equal ones; that is not
 * exact, because a wider beginning may suit the rest better, and the fullest part, which is what an
 * iteration waits for, is not what it looks at. O(n^2 p) time at worst, which the original always takes;
 * O(n p) memory. It knows neither speeds nor memory.
 */
#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/solve/chain.h"

#define MOST_CELLS 3000000u /* of a chain that the simulator asks about: about a second */

struct state {
    uint64_t most, least; /* of the parts; least is UINT64_MAX without any */
};

/* Can no answer whose last part has weight w or more, and leaves `rest` or less to the parts before it, have
 * a smaller range? The least of those parts is at most their mean. */
static bool is_hopeless(uint64_t w, uint64_t rest, uint32_t parts_before, uint64_t range)
{
    return w > range && (unsigned __int128)(w - range) * parts_before > rest;
}

/* One part more: the best way to hold the first i items in `parts` parts, `last` being those before. */
static void extend(const struct dp_chain *c, uint32_t parts, const struct state *last, struct state *next,
                   uint32_t *from)
{
    for (uint32_t i = parts; i <= c->q->n; i++) {
        uint64_t range = UINT64_MAX;

        for (uint32_t k = parts == 1 ? 0 : i - 1;; k--) {
            uint64_t w = dp_chain_weight(c, k, i);
            uint64_t most = w > last[k].most ? w : last[k].most, least = w < last[k].least ? w : last[k].least;

            if (is_hopeless(w, dp_chain_weight(c, 0, k), parts - 1, range))
                break;
            if (most - least < range) {
                range = most - least;
                next[i] = (struct state){most, least};
                from[i] = k;
            }
            if (k < parts)
                break;
        }
    }
}

static void solve(const struct dp_chain *c, struct state *state, uint32_t *from, uint32_t *cut)
{
    size_t row = (size_t)c->q->n + 1;
    uint32_t p = c->q->p;

    state[0] = (struct state){0, UINT64_MAX};
    for (uint32_t j = 1; j <= p; j++)
        extend(c, j, state + (j - 1) % 2 * row, state + j % 2 * row, from + j * row);
    cut[p] = c->q->n;
    for (uint32_t j = p; j > 0; j--)
        cut[j - 1] = from[j * row + cut[j]];
}

int dp_balancer_deepspeed_range(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note,
                                struct dp_err *err)
{
    struct state *state = NULL;
    uint32_t *from = NULL;
    struct dp_chain c;
    int rc = 0;

    (void)note;
    if (dp_chain_init(&c, q, err) < 0)
        return -1;
    if (q->n <= q->p) {
        dp_chain_uniform(q->n, q->p, cut);
        goto out;
    }
    state = calloc(2 * ((size_t)q->n + 1), sizeof *state);
    from = calloc(((size_t)q->n + 1) * ((size_t)q->p + 1), sizeof *from);
    if (state && from)
        solve(&c, state, from, cut);
    else
        rc = dp_err_set(err, DP_ENOMEM, "out of memory");
out:
    free(state);
    free(from);
    dp_chain_release(&c);
    return rc;
}

DP_BALANCER_POLICY_WITH(deepspeed_range_param, "deepspeed-range-param", DP_BY_PARAM, dp_balancer_deepspeed_range,
                   "DeepSpeed's partition of today, least max - min, by remaining parameters", .is_slow = true, .most_cells = MOST_CELLS);
DP_BALANCER_POLICY_WITH(deepspeed_range_time, "deepspeed-range-time", DP_BY_TIME, dp_balancer_deepspeed_range,
                   "DeepSpeed's partition of today, least max - min, by measured time", .is_slow = true, .most_cells = MOST_CELLS);
