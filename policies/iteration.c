/* Policy iteration: the least predicted time of a whole iteration, bubble, links, unequal devices and the
 * optimizer included. Where a network is slow or devices differ, the layout whose slowest device is
 * fastest (policy time) need not be the one whose iteration is: each device more adds its own time once.
 *
 * Where there are at most ALL layouts of these layers on these devices, every one of them is simulated,
 * so the answer is exact, devices that better stay empty included. Otherwise the answers of all other policies
 * are simulated, so that none is better, and the best is improved by moving one cut by one layer, as long as that
 * helps and OPERATIONS are not used up: packing asks dozens of times, and the simulation of a wide pipeline takes
 * milliseconds. For the same reason policies that take more than linear time are asked about SMALL questions only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/policy.h"

#define ALL 400u
#define OPERATIONS 1000000u /* simulated for one answer, beyond ALL: about 40 ms */
#define SMALL (1u << 21)    /* layers^2 devices */

struct climb {
    const struct dp_policy_in *in;
    uint32_t index[DP_MAX_WORKERS], p;
    uint32_t cut[DP_MAX_WORKERS + 1]; /* over the devices of index */
    struct dp_policy_out trial, *best;
    bool has_best;
    uint64_t distance;
    uint32_t n_tried, may_try;
};

/* How far the cuts are from those in force: of equally fast layouts the nearest is taken. */
static uint64_t distance(const struct climb *t)
{
    uint64_t sum = 0;

    for (uint32_t d = 1; d < t->in->n_devices; d++) {
        uint32_t a = t->trial.layout.cut[d], b = t->in->current->cut[d];

        sum += a > b ? a - b : b - a;
    }
    return sum;
}

/* The trial with its prediction: is it the best so far? */
static bool keep_better(struct climb *t)
{
    uint64_t far = distance(t);

    if (t->has_best && (t->trial.iteration_ns > t->best->iteration_ns ||
                        (t->trial.iteration_ns == t->best->iteration_ns && far >= t->distance)))
        return false;
    *t->best = t->trial;
    t->has_best = true;
    t->distance = far;
    return true;
}

static bool try_cuts(struct climb *t)
{
    dp_policy_spread(t->in, t->index, t->p, t->cut, &t->trial.layout);
    t->n_tried++;
    return dp_policy_weigh(t->in, &t->trial, NULL) == 0 && keep_better(t);
}

static void try_policy(struct climb *t, const struct dp_policy *policy)
{
    t->n_tried++;
    if (dp_policy_run(policy, NULL, t->in, &t->trial, NULL) == 0)
        keep_better(t);
}

/* Layouts of n layers on p devices, empty ones allowed: (n + p - 1) over (p - 1), or more than ALL. */
static bool are_few(uint32_t n, uint32_t p)
{
    uint64_t count = 1;

    for (uint32_t k = 1; k < p; k++) {
        count = count * (n + k) / k; /* a binomial coefficient after each step */
        if (count > ALL)
            return false;
    }
    return true;
}

static void try_all(struct climb *t, uint32_t device)
{
    if (device == t->p) {
        t->cut[device] = t->in->n_layers;
        (void)try_cuts(t);
        return;
    }
    for (t->cut[device] = t->cut[device - 1]; t->cut[device] <= t->in->n_layers; t->cut[device]++)
        try_all(t, device + 1);
}

/* The one step that helps most, of all cuts by one layer either way. */
static bool climb_once(struct climb *t)
{
    uint32_t from[DP_MAX_WORKERS + 1];
    bool is_better = false;

    for (uint32_t i = 0; i < t->p; i++)
        from[i + 1] = t->best->layout.cut[t->index[i] + 1];
    from[0] = 0;
    for (uint32_t i = 1; i < t->p; i++)
        for (int step = -1; step <= 1 && t->n_tried < t->may_try; step += 2) {
            memcpy(t->cut, from, (t->p + 1) * sizeof *from);
            t->cut[i] += (uint32_t)step;
            if (t->cut[i] < from[i - 1] || t->cut[i] > from[i + 1] || (step < 0 && !from[i]))
                continue;
            is_better |= try_cuts(t);
        }
    return is_better;
}

static void try_policies(struct climb *t)
{
    static const struct dp_policy *const linear[] = {&dp_policy_time, &dp_policy_uniform, &dp_policy_keep, NULL};
    bool is_small = (uint64_t)t->in->n_layers * t->in->n_layers * t->p <= SMALL;
    const struct dp_policy *policy;

    for (size_t i = 0; (policy = is_small ? dp_policy_at(i) : linear[i]); i++)
        if (policy != &dp_policy_iteration)
            try_policy(t, policy);
}

static void climb(struct climb *t)
{
    uint32_t may_try = (uint32_t)(OPERATIONS / (2 * (uint64_t)t->p * t->in->microbatches));

    try_policies(t);
    if (!t->has_best)
        return;
    t->trial = *t->best;
    t->may_try = t->n_tried + may_try;
    while (t->n_tried < t->may_try && climb_once(t))
        ;
}

static int iteration_decide(void *state, const struct dp_policy_in *in, struct dp_policy_out *out,
                            struct dp_err *err)
{
    struct climb *t = calloc(1, sizeof *t);
    bool is_exact;
    int rc;

    (void)state;
    if (!t)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    t->in = in;
    t->best = out;
    t->p = dp_policy_allowed(in, t->index);
    is_exact = t->p && are_few(in->n_layers, t->p);
    if (is_exact)
        try_all(t, 1);
    else if (t->p)
        climb(t);
    rc = t->has_best ? 0
         : t->p      ? dp_err_set(err, DP_ENOMEM, "the layers do not fit into the memory of %u devices", t->p)
                     : dp_err_set(err, DP_EINVAL, "no device is allowed");
    if (rc == 0)
        snprintf(out->reason, sizeof out->reason,
                 "iteration: %.3f ms predicted, %s of %u layouts on %u devices",
                 (double)out->iteration_ns / 1e6, is_exact ? "the best" : "the best found", t->n_tried, t->p);
    free(t);
    return rc;
}

const struct dp_policy dp_policy_iteration = {
    .abi = DP_POLICY_ABI,
    .name = "iteration",
    .help = "least predicted iteration time, bubble and links included",
    .decide = iteration_decide,
};
