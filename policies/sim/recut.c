/* SPDX-License-Identifier: BSD-3-Clause */
/* See recut.h. */
#include "policies/sim/recut.h"

#include <stdlib.h>
#include <string.h>

#include "policies/sim/stages.h"

#define ALL 3000u             /* layouts */
#define OPERATIONS 40000000.0 /* simulated for one answer: about a second */

struct recut {
    struct dp_sim_case *c;
    struct dp_sim_layout layout;
    struct dp_sim_stages stages;
    struct dp_sim_out sim;
    uint32_t *trial, n;         /* [devices] layers of the n stages that are tried */
    uint32_t *best, n_best;     /* [devices] */
    uint64_t best_ns;           /* UINT64_MAX: none fits */
    double left;                /* operations */
    uint32_t n_tried;
};

static int try_one(struct recut *t, struct dp_err *err)
{
    const struct dp_sim_case *c = t->c;
    bool fits = true;

    t->n_tried++;
    t->left -= 2.0 * t->n * c->microbatches;
    memset(t->trial + t->n, 0, (c->devices - t->n) * sizeof *t->trial);
    if (dp_sim_layout_set(c, t->trial, c->devices, &t->layout, err) < 0 ||
        dp_sim_stages_fill(c, c->event[0].layer, &t->layout, &t->stages, err) < 0 || dp_sim_iterate(&t->stages.in, &t->sim, err) < 0)
        return -1;
    for (uint32_t d = 0; c->memory_bytes && d < t->n; d++)
        fits = fits && t->sim.device[d].mem_bytes <= c->memory_bytes;
    if (fits && t->sim.iteration_ns < t->best_ns) {
        t->best_ns = t->sim.iteration_ns;
        t->n_best = t->n;
        memcpy(t->best, t->trial, t->n * sizeof *t->best);
    }
    return 0;
}

/* Are there at most ALL ways to part n layers into 1 .. p stages? */
static bool are_few(uint32_t n, uint32_t p)
{
    uint64_t all = 1, with = 1; /* with: (n - 1) over (s - 1) */

    for (uint32_t s = 2; s <= p && s <= n && all <= ALL; s++) {
        with = with * (n - s + 1) / (s - 1);
        all += with;
    }
    return all <= ALL;
}

/* Stages from t->n on, for the last `rest` layers. */
static int try_all(struct recut *t, uint32_t rest, struct dp_err *err)
{
    uint32_t s = t->n++;
    int rc;

    t->trial[s] = rest;
    rc = try_one(t, err);
    for (uint32_t k = 1; rc == 0 && k < rest && s + 1 < t->c->devices; k++) {
        t->trial[s] = k;
        t->n = s + 1;
        rc = try_all(t, rest - k, err);
    }
    t->n = s;
    return rc;
}

static void start_from_best(struct recut *t)
{
    t->n = t->n_best;
    memcpy(t->trial, t->best, t->n * sizeof *t->trial);
}

/* The best neighbours of the best, one after the other. returns: 1: something helped, 0: nothing, -1: error. */
static int climb_once(struct recut *t, struct dp_err *err)
{
    uint64_t before_ns = t->best_ns;
    uint32_t n = t->n_best, *from = malloc(n * sizeof *from);
    int rc = from ? 0 : dp_err_set(err, DP_ENOMEM, "cuts: out of memory");

    if (rc == 0)
        memcpy(from, t->best, n * sizeof *from);
    for (uint32_t s = 0; rc == 0 && s + 1 < n && t->left > 0; s++) {
        for (int64_t by = 1; rc == 0 && t->left > 0 && (by < from[s] || by < from[s + 1]); by *= 2)
            for (int way = -1; rc == 0 && way <= 1; way += 2) {
                if ((way < 0 ? from[s] : from[s + 1]) <= by)
                    continue;
                t->n = n;
                memcpy(t->trial, from, n * sizeof *from);
                t->trial[s] = (uint32_t)(from[s] + way * by);
                t->trial[s + 1] = (uint32_t)(from[s + 1] - way * by);
                rc = try_one(t, err);
            }
        if (rc == 0) { /* joined */
            t->n = n - 1;
            memcpy(t->trial, from, (s + 1) * sizeof *from);
            memcpy(t->trial + s + 1, from + s + 2, (n - s - 2) * sizeof *from);
            t->trial[s] += from[s + 1];
            rc = try_one(t, err);
        }
    }
    for (uint32_t s = 0; rc == 0 && s < n && n < t->c->devices && t->left > 0; s++) { /* parted */
        if (from[s] < 2)
            continue;
        t->n = n + 1;
        memcpy(t->trial, from, s * sizeof *from);
        t->trial[s] = from[s] / 2;
        t->trial[s + 1] = from[s] - from[s] / 2;
        memcpy(t->trial + s + 2, from + s + 1, (n - s - 1) * sizeof *from);
        rc = try_one(t, err);
    }
    free(from);
    return rc < 0 ? -1 : t->best_ns < before_ns;
}

static int search(struct recut *t, bool is_exact, struct dp_err *err)
{
    const struct dp_sim_case *c = t->c;
    int rc = 0;

    t->n = 0;
    if (is_exact)
        return try_all(t, c->n_layers, err);
    for (uint32_t i = 0; i < c->n_count; i++)
        if (c->count[i])
            t->trial[t->n++] = c->count[i];
    if (try_one(t, err) < 0)
        return -1;
    while (t->best_ns < UINT64_MAX && t->left > 0 && (rc = climb_once(t, err)) > 0)
        start_from_best(t);
    return rc < 0 ? -1 : 0;
}

int dp_sim_recut_run(struct dp_sim_case *c, struct dp_sim_recut *out, struct dp_err *err)
{
    struct recut t = {.c = c, .best_ns = UINT64_MAX, .left = OPERATIONS};
    bool is_exact = are_few(c->n_layers, c->devices) && 2.0 * ALL * c->devices * c->microbatches <= OPERATIONS;
    int rc = -1;

    t.trial = calloc((size_t)c->devices + 1, sizeof *t.trial);
    t.best = calloc((size_t)c->devices + 1, sizeof *t.best);
    t.sim.device = calloc(c->devices, sizeof *t.sim.device);
    if (!t.trial || !t.best || !t.sim.device)
        dp_err_set(err, DP_ENOMEM, "cuts on %u devices: out of memory", c->devices);
    else if (dp_sim_layout_create(c, &t.layout, err) == 0 && dp_sim_stages_create(c, &t.stages, err) == 0)
        rc = search(&t, is_exact, err);
    if (rc == 0 && t.best_ns == UINT64_MAX)
        rc = dp_err_set(err, DP_ENOMEM, "the layers do not fit into the memory of %u devices", c->devices);
    if (rc == 0) {
        memset(c->count, 0, c->n_count * sizeof *c->count);
        memcpy(c->count, t.best, t.n_best * sizeof *c->count);
        *out = (struct dp_sim_recut){t.best_ns, t.n_tried, is_exact};
    }
    dp_sim_layout_release(&t.layout);
    dp_sim_stages_release(&t.stages);
    free(t.sim.device);
    free(t.trial);
    free(t.best);
    return rc;
}
