/* DeepSpeed's partition of today (deepspeed/runtime/utils.py, partition_balanced): a dynamic
 * program over (items, parts) that wants the fullest and the emptiest part close together. It keeps one
 * answer per state, the one with the least max - min, and takes the last of equal ones; that is not
 * exact, because a wider beginning may suit the rest better, and the fullest part, which is what an
 * iteration waits for, is not what it looks at. O(n^2 p) time, O(n p) memory. It knows neither speeds nor
 * memory.
 */
#include <stdlib.h>

#include "policies/balancer.h"
#include "policies/chain.h"

struct state {
    uint64_t most, least; /* least > most: no parts yet */
    bool is_possible;
};

/* One part more: the best way to hold the first i items in `parts` parts, `last` being those before. */
static void extend(const struct dp_chain *c, uint32_t parts, const struct state *last, struct state *next,
                   uint32_t *from)
{
    uint64_t range = 0;

    for (uint32_t i = 0; i <= c->q->n; i++)
        next[i].is_possible = false;
    for (uint32_t i = parts; i <= c->q->n; i++)
        for (uint32_t k = parts - 1; k < i; k++) {
            uint64_t w = dp_chain_weight(c, k, i), most, least;

            if (!last[k].is_possible)
                continue;
            most = w > last[k].most ? w : last[k].most;
            least = w < last[k].least ? w : last[k].least;
            if (next[i].is_possible && range < most - least)
                continue;
            range = most - least;
            next[i] = (struct state){most, least, true};
            from[i] = k;
        }
}

static void solve(const struct dp_chain *c, struct state *state, uint32_t *from, uint32_t *cut)
{
    size_t row = (size_t)c->q->n + 1;
    uint32_t p = c->q->p;

    state[0] = (struct state){0, UINT64_MAX, true};
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

DP_BALANCER_POLICY(deepspeed_range_param, "deepspeed-range-param", DP_BY_PARAM, dp_balancer_deepspeed_range,
                   "DeepSpeed's partition of today, least max - min, by remaining parameters");
DP_BALANCER_POLICY(deepspeed_range_time, "deepspeed-range-time", DP_BY_TIME, dp_balancer_deepspeed_range,
                   "DeepSpeed's partition of today, least max - min, by measured time");
