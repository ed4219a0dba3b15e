/* SPDX-License-Identifier: BSD-3-Clause */
/* See balancer.h. A snapshot becomes a dp_partition over its allowed devices; the cuts of the answer
 * are weighed here, with speeds and all, whatever the balancer knew. */
#include "policies/balancer.h"

#include <stdio.h>
#include <stdlib.h>

#include "policies/chain_problem.h"
#include "policies/solve/chain.h"

int dp_balancer_minmax(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note, struct dp_err *err)
{
    uint64_t largest;

    (void)note;
    return dp_partition_minmax(q, cut, &largest, err);
}

static uint64_t weigh(const struct dp_policy_in *in, uint32_t l, enum dp_balancer_weight by)
{
    if (by == DP_BY_PARAM)
        return in->layer[l].nnz;
    return by == DP_BY_FORWARD ? in->layer[l].fwd_ns : dp_policy_layer_work_ns(in, l);
}

/* Both ends of a border pay for its messages: nothing overlaps. */
static uint64_t between(const struct dp_policy_in *in)
{
    double ns = dp_policy_message_ns(in);

    return ns > 0.0 ? ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18 : 0;
}

static int explain(const struct dp_chain_problem *t, const char *name, enum dp_balancer_weight by,
                   const struct dp_balancer_note *note, struct dp_policy_out *out, struct dp_err *err)
{
    const char *unit = by == DP_BY_PARAM ? "remaining parameters" : by == DP_BY_FORWARD ? "ms of forward a microbatch" : "ms a step";
    double scale = by == DP_BY_PARAM ? 1.0 : 1e-6, even = 0.0;
    uint64_t largest = 0;
    struct dp_chain c;

    if (dp_chain_init(&c, &t->q, err) < 0)
        return -1;
    for (uint32_t b = 0; b < t->q.p; b++) {
        uint64_t load = dp_chain_load(&c, b, t->cut[b], t->cut[b + 1]);

        largest = load > largest ? load : largest;
        even += t->q.speed ? t->q.speed[b] : 1.0;
    }
    even = (double)dp_chain_weight(&c, 0, t->q.n) / even;
    dp_chain_release(&c);
    snprintf(out->reason, sizeof out->reason, "%s: fullest device has %.*f %s, perfectly even would be %.*f%s%s", name,
             by == DP_BY_PARAM ? 0 : 3, (double)largest * scale, unit, by == DP_BY_PARAM ? 0 : 3, even * scale,
             *note->text ? "; " : "", note->text);
    return 0;
}

int dp_balancer_decide(const struct dp_policy_in *in, const char *name, enum dp_balancer_weight by, dp_balancer_fn *fn,
                       struct dp_policy_out *out, struct dp_err *err)
{
    struct dp_chain_problem *t = dp_chain_problem_create(in, by != DP_BY_PARAM);
    struct dp_balancer_note note = {""};
    int rc;

    if (!t)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", name);
    for (uint32_t l = 0; l < in->n_layers; l++)
        t->weight[l] = weigh(in, l, by);
    if (by == DP_BY_TIME_COMM)
        t->q.between = between(in);
    rc = t->q.p ? fn(&t->q, t->cut, &note, err) : dp_err_set(err, DP_EINVAL, "no device is allowed");
    if (rc == 0)
        rc = explain(t, name, by, &note, out, err);
    if (rc == 0)
        dp_policy_spread(in, t->index, t->q.p, t->cut, &out->layout);
    free(t);
    return rc < 0 ? dp_err_prefix(err, "%s", name) : 0;
}
