/* SPDX-License-Identifier: BSD-3-Clause */
/* See count.h. */
#include "policies/graph/maxload/count.h"

#include <stdlib.h>

#include "policies/graph/maxload/flow.h"

#define STEPS_PER_UNIT UINT64_C(10000) /* measured: 0.02 s at 325 units */
#define MOST_STEPS UINT64_C(12000000)  /* 0.07 s of a core */

/* e. The best one alone comes first: all units have it before the next one begins. */
static const double weights[] = {0.125, 0.25, 0.0625, 0.5};
#define N_WEIGHTS (sizeof weights / sizeof *weights)

struct heavy {
    uint64_t accel_ns, phi_ns[N_WEIGHTS]; /* phi 0: not known */
    uint32_t unit;
};

struct count {
    const struct dp_units *units;
    uint32_t n_accel, n_heavy;
    struct heavy *heavy;              /* [n_heavy] units that compute, the most first */
    uint64_t all_ns;                  /* compute of all */
    uint64_t *before_ns, *behind_ns;  /* [units] of what has to come no later (no earlier), itself included; 0: not known */
    uint32_t *queue, *seen;           /* [units] */
    bool *is_far;                     /* [units] */
    uint64_t known_ns, steps, max_steps;
};

/* Those with most compute first. */
static int by_compute(const void *a, const void *b)
{
    const struct heavy *x = a, *y = b;

    if (x->accel_ns != y->accel_ns)
        return x->accel_ns > y->accel_ns ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* Compute of all that can be reached from `unit`. */
static uint64_t reach_ns(struct count *c, uint32_t unit, uint32_t mark, const uint32_t *at, const uint32_t *to)
{
    uint64_t sum = 0;
    uint32_t n = 1;

    c->queue[0] = unit;
    c->seen[unit] = mark;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = c->queue[i];

        sum += c->units->accel_ns[v];
        c->steps += at[v + 1] - at[v] + 1;
        for (uint32_t k = at[v]; k < at[v + 1]; k++)
            if (c->seen[to[k]] != mark) {
                c->seen[to[k]] = mark;
                c->queue[n++] = to[k];
            }
    }
    return sum;
}

static void find_reach(struct count *c)
{
    const struct dp_units *u = c->units;

    for (uint32_t v = 0; v < u->n && c->steps < c->max_steps / 4; v++) {
        c->before_ns[v] = reach_ns(c, v, 2 * v + 1, u->pred_at, u->pred);
        c->behind_ns[v] = reach_ns(c, v, 2 * v + 2, u->succ_at, u->succ);
    }
}

/* What is behind one unit and before another has at least as much compute as both sums together have more than all. */
static bool is_too_long(const struct count *c, uint32_t first, uint32_t last)
{
    uint64_t sum = c->behind_ns[first] + c->before_ns[last];

    return sum >= c->all_ns && sum - c->all_ns >= c->known_ns;
}

static void find_far(struct count *c, uint32_t unit)
{
    for (uint32_t v = 0; v < c->units->n; v++)
        c->is_far[v] = v != unit && (is_too_long(c, unit, v) || is_too_long(c, v, unit));
    c->steps += c->units->n / 4;
}

static int find_phi(struct count *c, struct dp_err *err)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < N_WEIGHTS && c->steps < c->max_steps; k++) {
        struct dp_flow f;

        rc = dp_flow_create(&f, c->units, 1 / weights[k], c->max_steps - c->steps, err);
        for (uint32_t i = 0; rc == 0 && i < c->n_heavy && c->steps < c->max_steps; i++) {
            uint64_t before = f.steps;

            find_far(c, c->heavy[i].unit);
            c->heavy[i].phi_ns[k] = dp_flow_least_without_ns(&f, c->heavy[i].unit, c->is_far);
            c->steps += f.steps - before;
        }
        dp_flow_release(&f);
    }
    return rc;
}

/* Has a plan with a load of at most t more stages than there may be? */
static bool are_too_many(const struct count *c, uint64_t t)
{
    long double stages = 0;

    for (uint32_t i = 0; i < c->n_heavy; i++) {
        const struct heavy *h = &c->heavy[i];
        long double most = (long double)t;

        for (size_t k = 0; k < N_WEIGHTS; k++) {
            long double some = ((long double)t - (long double)h->phi_ns[k]) / (1 - (long double)weights[k]);

            most = some < most ? some : most;
        }
        if (most < (long double)h->accel_ns)
            return true;
        stages += (long double)h->accel_ns / most;
    }
    return stages > (long double)c->n_accel + 1e-9L; /* rounding must not raise a lower bound */
}

static int create(struct count *c, struct dp_err *err)
{
    const struct dp_units *u = c->units;
    size_t n = (size_t)u->n + 1;

    c->heavy = calloc(n, sizeof *c->heavy);
    c->before_ns = calloc(n, sizeof *c->before_ns);
    c->behind_ns = calloc(n, sizeof *c->behind_ns);
    c->queue = calloc(n, sizeof *c->queue);
    c->seen = calloc(n, sizeof *c->seen);
    c->is_far = calloc(n, sizeof *c->is_far);
    if (!c->heavy || !c->before_ns || !c->behind_ns || !c->queue || !c->seen || !c->is_far)
        return dp_err_set(err, DP_ENOMEM, "bound of %u units: out of memory", u->n);
    for (uint32_t v = 0; v < u->n; v++) {
        c->all_ns += u->accel_ns[v];
        if (u->accel_ns[v])
            c->heavy[c->n_heavy++] = (struct heavy){.accel_ns = u->accel_ns[v], .unit = v};
    }
    qsort(c->heavy, c->n_heavy, sizeof *c->heavy, by_compute);
    return 0;
}

static void release(struct count *c)
{
    free(c->heavy);
    free(c->before_ns);
    free(c->behind_ns);
    free(c->queue);
    free(c->seen);
    free(c->is_far);
}

int dp_bound_count(const struct dp_units *u, uint32_t n_accel, uint64_t known_ns, uint64_t max_steps, uint64_t *bound_ns,
                   struct dp_err *err)
{
    uint64_t steps = u->n < MOST_STEPS / STEPS_PER_UNIT ? u->n * STEPS_PER_UNIT : MOST_STEPS, low = *bound_ns, high = known_ns;
    struct count c = {.units = u, .n_accel = n_accel, .known_ns = known_ns, .max_steps = max_steps ? max_steps : steps};
    int rc;

    if (low >= high)
        return 0;
    rc = create(&c, err);
    if (rc == 0) {
        find_reach(&c);
        rc = find_phi(&c, err);
    }
    if (rc == 0 && are_too_many(&c, low)) {
        while (high - low > 1) { /* low is refused, and of what is not below known_ns nothing is said */
            uint64_t t = low + (high - low) / 2;

            if (are_too_many(&c, t))
                low = t;
            else
                high = t;
        }
        *bound_ns = high;
        rc = 1;
    }
    release(&c);
    return rc;
}
