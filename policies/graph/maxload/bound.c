/* SPDX-License-Identifier: BSD-3-Clause */
/* See bound.h. Work without loss: give the CPUs what they do best compared with an accelerator (least
 * cpu_ns for each accel_ns taken off), as long as they have time, cutting the last unit. That is the
 * fractional knapsack, and what remains must fit the accelerators' time; the least time for which it
 * does is found by bisection. */
#include "policies/graph/maxload/bound.h"

#include <stdlib.h>

#include "policies/graph/maxload/flow.h"

#define STAGE_STEPS UINT64_C(1000000) /* measured: 0.01 s */

struct work {
    uint64_t accel_ns, cpu_ns; /* accel_ns UINT64_MAX: on a CPU only */
};

/* What gains most on a CPU comes first: cpu / accel ascending. */
static int by_ratio(const void *a, const void *b)
{
    const struct work *x = a, *y = b;
    unsigned __int128 l = (unsigned __int128)x->cpu_ns * y->accel_ns,
                      r = (unsigned __int128)y->cpu_ns * x->accel_ns;

    return l < r ? -1 : l > r;
}

static bool is_enough(const struct work *w, uint32_t n, long double accelerators, uint32_t n_cpus, uint64_t t)
{
    long double cpu = (long double)t * n_cpus, accel = (long double)t * accelerators;

    for (uint32_t i = 0; i < n; i++) {
        long double share = 1.0L; /* on a CPU */

        if (n_cpus == 0)
            share = 0.0L;
        else if ((long double)w[i].cpu_ns > cpu)
            share = cpu / (long double)w[i].cpu_ns;
        if (w[i].accel_ns == UINT64_MAX && share < 1.0L)
            return false;
        cpu -= share * (long double)w[i].cpu_ns;
        if (share < 1.0L)
            accel -= (1.0L - share) * (long double)w[i].accel_ns;
    }
    return accel >= -0.5L; /* rounding must not raise a lower bound */
}

/* Accelerators of speed 1 that do as much together. fastest: = speed of the fastest. */
static long double add_speeds(const double *speed, uint32_t n_accel, double *fastest)
{
    long double sum = 0;

    *fastest = 1;
    if (!speed)
        return n_accel;
    for (uint32_t i = 0; i < n_accel; i++) {
        sum += speed[i];
        *fastest = i == 0 || speed[i] > *fastest ? speed[i] : *fastest;
    }
    return sum;
}

int dp_bound_maxload(const struct dp_units *u, uint32_t n_accel, const double *speed, uint32_t n_cpus, uint64_t accel_bytes,
                     uint64_t *bound_ns, enum dp_plan_bound *by, struct dp_err *err)
{
    struct work *w = calloc((size_t)u->n + 1, sizeof *w);
    uint64_t dearest = 0, low = 0, high = 0;
    uint32_t n = 0;
    double fastest;
    long double accelerators = add_speeds(speed, n_accel, &fastest);

    if (!w)
        return dp_err_set(err, DP_ENOMEM, "bound of %u units: out of memory", u->n);
    *bound_ns = UINT64_MAX;
    *by = DP_PLAN_BOUND_UNIT;
    for (uint32_t i = 0; i < u->n; i++) {
        bool on_accel = n_accel && !u->only_on_cpu[i] && u->bytes[i] + u->kept_bytes[i] <= accel_bytes;
        uint64_t least = on_accel ? dp_plan_time_ns(u->accel_ns[i], fastest) : UINT64_MAX;

        if (n_cpus && u->cpu_ns[i] < least)
            least = u->cpu_ns[i];
        if (least == UINT64_MAX)
            goto out;
        if (!on_accel || u->accel_ns[i]) /* what costs nothing has no ratio */
            w[n++] = (struct work){on_accel ? u->accel_ns[i] : UINT64_MAX, u->cpu_ns[i]};
        dearest = least > dearest ? least : dearest;
        high = least < UINT64_MAX / 2 - high ? high + least : UINT64_MAX / 2;
    }
    qsort(w, n, sizeof *w, by_ratio);
    while (low < high) {
        uint64_t t = low + (high - low) / 2;

        if (is_enough(w, n, accelerators, n_cpus, t))
            high = t;
        else
            low = t + 1;
    }
    *bound_ns = low > dearest ? low : dearest;
    *by = low > dearest ? DP_PLAN_BOUND_WORK : DP_PLAN_BOUND_UNIT;
out:
    free(w);
    return 0;
}

/* ---- the dearest stage ---- */

struct alone {
    uint64_t load_ns; /* of the unit in a stage of its own: no other bound of its stages is needed where this is less */
    uint32_t unit;
};

/* Those that may come out dearest come first. */
static int by_load(const void *a, const void *b)
{
    const struct alone *x = a, *y = b;

    if (x->load_ns != y->load_ns)
        return x->load_ns > y->load_ns ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static void list_alone(const struct dp_units *u, const struct dp_flow *f, uint32_t n_cpus, struct alone *alone)
{
    for (uint32_t v = 0; v < u->n; v++) {
        alone[v] = (struct alone){f->work_ns[v], v};
        for (uint32_t k = u->net_of_at[v]; k < u->net_of_at[v + 1]; k++)
            alone[v].load_ns += u->net_ns[u->net_of[k]];
        if (n_cpus && u->cpu_ns[v] < alone[v].load_ns)
            alone[v].load_ns = u->cpu_ns[v];
    }
    qsort(alone, u->n, sizeof *alone, by_load);
}

int dp_bound_stage(const struct dp_units *u, uint32_t n_accel, const double *speed, uint32_t n_cpus, uint64_t max_steps, uint64_t *bound_ns,
                   uint32_t *unit, struct dp_err *err)
{
    struct alone *alone = calloc((size_t)u->n + 1, sizeof *alone);
    struct dp_flow f = {0};
    double fastest;
    int rc = 0;

    add_speeds(speed, n_accel, &fastest);
    if (!alone)
        rc = dp_err_set(err, DP_ENOMEM, "bound of %u units: out of memory", u->n);
    else if (n_accel) /* CPUs alone: units alone */
        rc = dp_flow_create(&f, u, fastest, max_steps ? max_steps : STAGE_STEPS, err);
    if (rc == 0 && n_accel) {
        list_alone(u, &f, n_cpus, alone);
        for (uint32_t i = 0; i < u->n && alone[i].load_ns > *bound_ns && f.steps < f.max_steps; i++) {
            uint32_t v = alone[i].unit;
            uint64_t least = dp_flow_least_ns(&f, v), rounding = speed ? (least >> 40) + 1 : 0; /* of dp_plan_time_ns(), and more */

            least = least > rounding ? least - rounding : 0;
            least = n_cpus && u->cpu_ns[v] < least ? u->cpu_ns[v] : least;
            if (least > *bound_ns) {
                *bound_ns = least;
                *unit = v;
            }
        }
    }
    dp_flow_release(&f);
    free(alone);
    return rc;
}

int dp_bound_cpus_take(const struct dp_units *u, uint64_t cpu_time_ns, uint64_t *accel_ns, struct dp_err *err)
{
    struct work *w = calloc((size_t)u->n + 1, sizeof *w);
    long double taken = 0.0L, left = (long double)cpu_time_ns;
    uint32_t n = 0;

    if (!w)
        return dp_err_set(err, DP_ENOMEM, "bound of %u units: out of memory", u->n);
    for (uint32_t i = 0; i < u->n; i++) {
        if (!u->only_on_cpu[i] && u->accel_ns[i])
            w[n++] = (struct work){u->accel_ns[i], u->cpu_ns[i]};
    }
    qsort(w, n, sizeof *w, by_ratio);
    for (uint32_t i = 0; cpu_time_ns && i < n; i++) {
        bool is_whole = (long double)w[i].cpu_ns <= left;
        long double share = is_whole ? 1.0L : left / (long double)w[i].cpu_ns;

        taken += share * (long double)w[i].accel_ns;
        left -= share * (long double)w[i].cpu_ns;
        if (!is_whole)
            break;
    }
    *accel_ns = (uint64_t)taken + 1; /* rounded up: it bounds from above */
    free(w);
    return 0;
}
