/* SPDX-License-Identifier: BSD-3-Clause */
/* What the balancers have in common: algorithms that cut a chain of layers, without limits of size, and
 * what makes a policy of each. One algorithm a file; doc/policies.md lists them with their sources.
 */
#ifndef DP_POLICIES_BALANCER_H
#define DP_POLICIES_BALANCER_H

#include "policies/list.h"
#include "policies/solve/partition.h"

/* What a balancer has to say besides its cuts; "" at first. */
struct dp_balancer_note {
    char text[160];
};

/* cut: [q->p+1] =, rising from 0 to q->n. q->prefer are the cuts in force. A baseline looks at no more
 * of q than the program that it stands for: many know neither speed nor memory nor cost. Sums of weights and
 * of bytes must be below 2^63.
 * returns 0, or -1 (DP_ENOMEM; DP_EINVAL: no layers, no devices). */
typedef int dp_balancer_fn(const struct dp_partition *q, uint32_t *cut, struct dp_balancer_note *note,
                           struct dp_err *err);

dp_balancer_fn dp_balancer_deepspeed, dp_balancer_deepspeed_range, dp_balancer_torchgpipe;
dp_balancer_fn dp_balancer_dynmo, dp_balancer_dynmo_diffusion, dp_balancer_diffusion;
dp_balancer_fn dp_balancer_minmax, dp_balancer_nicol; /* dp_partition_minmax(), dp_partition_nicol() */

/* The weight of a layer. */
enum dp_balancer_weight {
    DP_BY_PARAM,     /* remaining parameters; speeds count for nothing */
    DP_BY_TIME,      /* dp_policy_layer_work_ns() */
    DP_BY_TIME_COMM, /* the same, and every device that holds layers also pays for its messages */
    DP_BY_FORWARD,   /* forward time of one microbatch: what DynMo measures */
};

/* A policy on chains of any size, for the simulator (sim/balance_chain.h). */
struct dp_policy_chain {
    enum dp_balancer_weight by;
    dp_balancer_fn *fn;  /* NULL: it knows snapshots only */
    bool is_slow;        /* in a running job `iteration` asks it only where the run is small */
    uint64_t most_cells; /* layers * devices up to which `iteration` asks it in the simulator, 0: however many */
};

/* Ask a balancer about a snapshot: the decide() of a policy named `name`. */
int dp_balancer_decide(const struct dp_policy_in *in, const char *name, enum dp_balancer_weight by, dp_balancer_fn *fn,
                       struct dp_policy_out *out, struct dp_err *err);

/* A policy dp_policy_<id> of a balancer, with its dp_policy_chain_<id>; `...`: more members of that. */
#define DP_BALANCER_POLICY(id, label, weigh, balancer, text) DP_BALANCER_POLICY_WITH(id, label, weigh, balancer, text, .is_slow = false)
#define DP_BALANCER_POLICY_WITH(id, label, weigh, balancer, text, ...)                                     \
    static int id##_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,          \
                           struct dp_err *err)                                                             \
    {                                                                                                      \
        (void)state;                                                                                       \
        return dp_balancer_decide(in, label, weigh, balancer, out, err);                                   \
    }                                                                                                      \
    const struct dp_policy dp_policy_##id = {                                                              \
        .abi = DP_POLICY_ABI,                                                                              \
        .name = label,                                                                                     \
        .help = text,                                                                                      \
        .decide = id##_decide,                                                                             \
    };                                                                                                     \
    const struct dp_policy_chain dp_policy_chain_##id = {.by = weigh, .fn = balancer, __VA_ARGS__}

#endif
