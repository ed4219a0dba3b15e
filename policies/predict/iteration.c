/* SPDX-License-Identifier: BSD-3-Clause */
/* Policy iteration: the least predicted time of a whole iteration, bubble, links, unequal devices and the
 * optimizer included. Where a network is slow or devices differ, the layout whose slowest device is
 * fastest (policy time) need not be the one whose iteration is: each device more adds its own time once.
 *
 * Where there are at most ALL layouts of these layers on these devices, every one of them is simulated,
 * so the answer is exact, devices that better stay empty included. Otherwise the starts are simulated: the answers of all
 * other policies, so that none is better (of the quick ones beyond SMALL), and layouts from the fastest slowest stage to
 * the shortest way through all (front.h). The best few are improved by moving a cut, a run of cuts, or all layers of a
 * device, as long as that helps and OPERATIONS are not used up: packing asks dozens of times, and the simulation
 * of a wide pipeline takes milliseconds. How far the answer may be from the best is said by a lower bound.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/balancer.h"
#include "policies/chain_problem.h"
#include "policies/predict/answer.h"
#include "policies/solve/front.h"

#define ALL 400u /* see above */
#define OPERATIONS 1000000u  /* simulated for one answer, beyond ALL: about 40 ms */
#define SMALL (1u << 26)     /* layers^2 devices: policies that take more than linear time are asked up to it */
#define FRONT_CELLS (1u << 22) /* layers * devices * layouts of the front: about 20 ms */
#define FRONT_MOST 48u /* layouts of a front: each is simulated */
#define CLIMBS 8u /* starts that are improved */

struct start {
    uint64_t iteration_ns;
    uint32_t cut[DP_MAX_WORKERS + 1]; /* over the devices of index */
};

struct climb {
    const struct dp_policy_in *in;
    uint32_t index[DP_MAX_WORKERS], p;
    uint32_t cut[DP_MAX_WORKERS + 1]; /* over the devices of index */
    struct dp_policy_out trial, *best;
    bool has_best;
    uint64_t distance;
    uint32_t n_tried, may_try;
    struct start start[CLIMBS]; /* the best ones, all different */
    uint32_t n_starts;
    struct start here; /* where a climb has come to */
    struct dp_chain_problem *problem;
    struct dp_front front;
    uint64_t *pass; /* [n_layers] of the front */
    uint64_t bound_ns;
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

/* The trial with its prediction may be the best so far. */
static void keep_better(struct climb *t)
{
    uint64_t far = distance(t);

    if (t->has_best && (t->trial.iteration_ns > t->best->iteration_ns ||
                        (t->trial.iteration_ns == t->best->iteration_ns && far >= t->distance)))
        return;
    *t->best = t->trial;
    t->has_best = true;
    t->distance = far;
}

/* returns: the predicted time, 0 where the cuts do not fit into memory. */
static uint64_t try_cuts(struct climb *t)
{
    dp_policy_spread(t->in, t->index, t->p, t->cut, &t->trial.layout);
    t->n_tried++;
    if (dp_policy_predict(t->in, &t->trial, NULL) < 0)
        return 0;
    keep_better(t);
    return t->trial.iteration_ns;
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

/* ---- starts ---- */

static void note_start(struct climb *t)
{
    struct start s = {.iteration_ns = t->trial.iteration_ns}, swap;

    for (uint32_t i = 0; i < t->p; i++)
        s.cut[i + 1] = t->trial.layout.cut[t->index[i] + 1];
    for (uint32_t i = 0; i < t->n_starts; i++)
        if (!memcmp(s.cut, t->start[i].cut, (t->p + 1) * sizeof *s.cut))
            return;
    for (uint32_t i = 0; i < t->n_starts; i++)
        if (s.iteration_ns < t->start[i].iteration_ns) {
            swap = t->start[i];
            t->start[i] = s;
            s = swap;
        }
    if (t->n_starts < CLIMBS)
        t->start[t->n_starts++] = s;
}

static void try_policy(struct climb *t, const struct dp_policy *policy)
{
    t->n_tried++;
    if (dp_policy_run(policy, NULL, t->in, &t->trial, NULL) < 0)
        return;
    keep_better(t);
    note_start(t);
}

static void try_policies(struct climb *t)
{
    bool is_small = (uint64_t)t->in->n_layers * t->in->n_layers * t->p <= SMALL;
    const struct dp_policy *policy;

    for (size_t i = 0; (policy = dp_policy_at(i)); i++)
        if (policy != &dp_policy_iteration && (is_small || !dp_policy_chain_at(i)->is_slow))
            try_policy(t, policy);
}

/* The shortest way within a bound. fullest: = the largest load of it. returns its time, UINT64_MAX: there is none. */
static uint64_t try_front(struct climb *t, uint64_t bound, uint64_t *fullest)
{
    uint64_t ns;

    *fullest = 0;
    if (dp_front_shortest(&t->front, bound, t->cut, fullest, NULL) < 0)
        return UINT64_MAX;
    ns = try_cuts(t);
    if (!ns)
        return UINT64_MAX;
    note_start(t);
    return ns;
}

/* Bounds from the fastest slowest stage up to where the way gets no shorter: evenly by ratio, then between the best one
 * and its neighbours. */
static void try_fronts(struct climb *t)
{
    uint64_t cells = (uint64_t)t->in->n_layers * t->p, least, most, full, bound[FRONT_MOST + 1], ns[FRONT_MOST];
    uint32_t may = (uint32_t)(FRONT_CELLS / cells < FRONT_MOST ? FRONT_CELLS / cells : FRONT_MOST), grid = may * 2 / 3, best = 0;

    if (may < 4 || dp_partition_minmax(&t->problem->q, t->cut, &least, NULL) < 0)
        return;
    (void)try_front(t, UINT64_MAX >> 2, &most);
    if (!most)
        return;
    for (uint32_t i = 0; i < grid; i++) {
        bound[i] = (uint64_t)((double)least * pow((double)most / (double)(least ? least : 1), (double)i / grid)) + 1;
        ns[i] = try_front(t, bound[i], &full);
        best = ns[i] < ns[best] ? i : best;
    }
    bound[grid] = most;
    for (uint32_t i = grid, low = best ? best - 1 : 0; i < may; i++) {
        uint64_t span = bound[best + 1] - bound[low];

        (void)try_front(t, bound[low] + span / (may - grid + 1) * (i - grid + 1), &full);
    }
}

/* ---- climbing ---- */

/* The cuts of the climb with those from `first` to `last` moved, if they may be: next takes the best. */
static void try_shift(struct climb *t, uint32_t first, uint32_t last, int64_t by, struct start *next)
{
    const uint32_t *from = t->here.cut;
    uint64_t ns;

    if (t->n_tried >= t->may_try || (int64_t)from[first] + by < from[first - 1] || (int64_t)from[last] + by > from[last + 1])
        return;
    memcpy(t->cut, from, (t->p + 1) * sizeof *from);
    for (uint32_t i = first; i <= last; i++)
        t->cut[i] = (uint32_t)(from[i] + by);
    ns = try_cuts(t);
    if (ns && ns < next->iteration_ns) {
        next->iteration_ns = ns;
        memcpy(next->cut, t->cut, (t->p + 1) * sizeof *from);
    }
}

/* The one step that helps most. */
static bool climb_once(struct climb *t)
{
    struct start next = t->here;

    for (uint32_t i = 1; i < t->p; i++) {
        int64_t left = t->here.cut[i] - t->here.cut[i - 1], right = t->here.cut[i + 1] - t->here.cut[i];

        for (int64_t by = 1; by <= right; by = by < right && 2 * by > right ? right : 2 * by)
            try_shift(t, i, i, by, &next);
        for (int64_t by = 1; by <= left; by = by < left && 2 * by > left ? left : 2 * by)
            try_shift(t, i, i, -by, &next);
        for (uint32_t last = i + 1; last < t->p && last < i + 8; last++)
            for (int64_t by = -1; by <= 1; by += 2)
                try_shift(t, i, last, by, &next);
    }
    if (next.iteration_ns >= t->here.iteration_ns)
        return false;
    t->here = next;
    return true;
}

static void climb_up(struct climb *t)
{
    uint32_t left = (uint32_t)(OPERATIONS / (2 * (uint64_t)t->p * t->in->microbatches));

    try_policies(t);
    try_fronts(t);
    for (uint32_t i = 0; i < t->n_starts; i++) { /* the better ones may use more; what one leaves the others have */
        uint32_t before = t->n_tried, others = t->n_starts - i;

        t->here = t->start[i];
        t->may_try = before + left / (others < 3 ? others : 3);
        while (t->n_tried < t->may_try && climb_once(t))
            ;
        left -= t->n_tried - before < left ? t->n_tried - before : left;
    }
}

/* What the front is made of: a step's work, and of it one microbatch's. */
static int prepare(struct climb *t, struct dp_err *err)
{
    const struct dp_policy_in *in = t->in;

    t->problem = dp_chain_problem_create(in, true);
    t->pass = calloc(in->n_layers, sizeof *t->pass);
    if (!t->problem || !t->pass)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    for (uint32_t l = 0; l < in->n_layers; l++) {
        t->problem->weight[l] = dp_policy_layer_work_ns(in, l);
        t->pass[l] = in->layer[l].fwd_ns + in->layer[l].bwd_input_ns + in->layer[l].bwd_weight_ns;
    }
    t->problem->q.prefer = NULL;
    t->front = (struct dp_front){&t->problem->q, t->pass, floor(dp_policy_message_ns(in) / in->microbatches)};
    if (!in->layer[0].bwd_input_ns && !in->layer[0].bwd_weight_ns && !in->layer[0].act_bytes)
        t->front.hop_ns /= 2.0; /* to a layer that only goes forward no gradient comes: the bound must hold there, too */
    t->front.hop_ns = fmax(t->front.hop_ns - 4.0, 0.0); /* the simulator rounds its four parts down */
    return 0;
}

static void say_why(const struct climb *t, bool is_exact, struct dp_policy_out *out)
{
    double ms = (double)out->iteration_ns / 1e6, bound = (double)(t->bound_ns / 1000) / 1e3;
    char gap[80];

    snprintf(gap, sizeof gap, "; none is below %.3f ms, %.1f %% less", bound, ms > 0.0 ? 100.0 * (ms - bound) / ms : 0.0);
    snprintf(out->reason, sizeof out->reason, "iteration: %.3f ms a step predicted, %s of %u layouts on %u devices%s", ms,
             is_exact ? "the best" : "the best found", t->n_tried, t->p, is_exact ? "" : gap);
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
    if (prepare(t, err) < 0) {
        rc = -1;
        goto out;
    }
    is_exact = t->p && are_few(in->n_layers, t->p);
    if (is_exact)
        try_all(t, 1);
    else if (t->p)
        climb_up(t);
    rc = t->has_best ? 0
         : t->p      ? dp_err_set(err, DP_ENOMEM, "the layers do not fit into the memory of %u devices", t->p)
                     : dp_err_set(err, DP_EINVAL, "no device is allowed");
    if (rc == 0) {
        t->bound_ns = is_exact ? out->iteration_ns : dp_front_bound(&t->front, out->iteration_ns);
        say_why(t, is_exact, out);
    }
out:
    free(t->problem);
    free(t->pass);
    free(t);
    return rc;
}

const struct dp_policy dp_policy_iteration = {
    .abi = DP_POLICY_ABI,
    .name = "iteration",
    .help = "least predicted iteration time, bubble and links included",
    .decide = iteration_decide,
};
const struct dp_policy_chain dp_policy_chain_iteration = {.fn = NULL};
