/* SPDX-License-Identifier: BSD-3-Clause */
/* See balance_chain.h. The balancers know chains of any length (balancer.h); here a case becomes one. */
#include "policies/sim/balance_chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/balancer.h"
#include "policies/sim/stages.h"
#include "policies/solve/front.h"

#define FRONT_CELLS (UINT64_C(1) << 27) /* layers * devices * layouts of the front */
#define FRONT_MOST 12u /* layouts of it: each is a simulation of a case of any size */

struct ask {
    const struct dp_sim_case *c;
    const struct dp_sim_layer *layer;
    struct dp_partition q;
    uint64_t *weight, *pass, *fixed, *multi, *cap;
    uint32_t *copies, *prefer, *cut;
    double *speed;
    /* policy iteration */
    uint32_t *best, *count;
    uint64_t best_ns;
    struct dp_sim_layout layout;
    struct dp_sim_stages stages;
};

/* By name; NULL: there is none, or it knows snapshots only. */
static const struct dp_policy_chain *find(const char *name)
{
    const struct dp_policy *p;

    for (size_t i = 0; (p = dp_policy_at(i)); i++)
        if (!strcmp(p->name, name))
            return dp_policy_chain_at(i)->fn ? dp_policy_chain_at(i) : NULL;
    return NULL;
}

static void release(struct ask *a)
{
    free(a->weight);
    free(a->pass);
    free(a->fixed);
    free(a->multi);
    free(a->cap);
    free(a->copies);
    free(a->prefer);
    free(a->cut);
    free(a->speed);
    free(a->best);
    free(a->count);
    dp_sim_layout_release(&a->layout);
    dp_sim_stages_release(&a->stages);
}

static int create(struct ask *a, uint32_t stages, uint32_t p, struct dp_err *err)
{
    uint32_t n = a->c->n_layers;

    a->weight = calloc(n, sizeof *a->weight);
    a->pass = calloc(n, sizeof *a->pass);
    a->fixed = calloc(n, sizeof *a->fixed);
    a->multi = calloc(n, sizeof *a->multi);
    a->cap = calloc(p, sizeof *a->cap);
    a->copies = calloc(p, sizeof *a->copies);
    a->prefer = calloc((size_t)p + 1, sizeof *a->prefer);
    a->cut = calloc((size_t)p + 1, sizeof *a->cut);
    a->speed = calloc(p, sizeof *a->speed);
    a->best = calloc((size_t)p + 1, sizeof *a->best);
    a->count = calloc(stages, sizeof *a->count);
    if (a->weight && a->pass && a->fixed && a->multi && a->cap && a->copies && a->prefer && a->cut && a->speed && a->best && a->count)
        return 0;
    return dp_err_set(err, DP_ENOMEM, "%u layers on %u stages: out of memory", n, p);
}

/* A message and its gradient, one after the other. */
static double hop_ns(const struct ask *a)
{
    const struct dp_sim_tier *link = &a->c->inside;

    return 2.0 * ((double)link->latency_ns + (link->bytes_per_s > 0.0 ? (double)a->layer[0].output_bytes / link->bytes_per_s * 1e9 : 0.0));
}

static void fill(struct ask *a, const uint32_t *count, uint32_t p)
{
    const struct dp_sim_case *c = a->c;

    for (uint32_t i = 0; i < c->n_layers; i++) {
        a->pass[i] = a->layer[i].fwd_ns + a->layer[i].bwd_input_ns + a->layer[i].bwd_weight_ns;
        a->fixed[i] = a->layer[i].state_bytes;
        a->multi[i] = a->layer[i].act_bytes;
    }
    for (uint32_t b = 0; b < p; b++) {
        a->speed[b] = c->speed ? c->speed[b % c->devices] : 1.0;
        a->cap[b] = c->chunks == 1 ? c->memory_bytes : 0;
        a->copies[b] = dp_schedule_in_flight(c->schedule, b, p, c->microbatches);
        a->prefer[b + 1] = a->prefer[b] + count[b];
    }
    a->q = (struct dp_partition){.n = c->n_layers, .p = p, .weight = a->weight, .fixed_bytes = a->fixed, .multi_bytes = a->multi,
                                 .copies = a->copies, .cap_bytes = a->cap, .prefer = a->prefer,
                                 .depth = dp_schedule_depth(c->schedule, c->microbatches)};
}

static void weigh(struct ask *a, enum dp_balancer_weight by)
{
    double between = by == DP_BY_TIME_COMM ? a->c->microbatches * hop_ns(a) : 0.0;

    for (uint32_t i = 0; i < a->c->n_layers; i++)
        a->weight[i] = by == DP_BY_PARAM     ? a->layer[i].nnz
                       : by == DP_BY_FORWARD ? a->layer[i].fwd_ns
                                             : a->c->microbatches * a->pass[i] + a->layer[i].opt_ns;
    a->q.speed = by == DP_BY_PARAM ? NULL : a->speed;
    a->q.between = between < 1e18 ? (uint64_t)between : (uint64_t)1e18;
}

static int ask_one(struct ask *a, const struct dp_policy_chain *k, struct dp_err *err)
{
    struct dp_balancer_note note = {""};

    weigh(a, k->by);
    return k->fn(&a->q, a->cut, &note, err);
}

/* ---- policy iteration ---- */

/* Simulate the cuts; those that do not fit into memory do not count. */
static int try_cuts(struct ask *a, struct dp_err *err)
{
    const struct dp_sim_case *c = a->c;
    struct dp_sim_out out = {.device = calloc(c->devices * (size_t)c->replicas, sizeof *out.device)};
    bool fits = true;
    int rc = -1;

    for (uint32_t b = 0; b < a->q.p; b++)
        a->count[b] = a->cut[b + 1] - a->cut[b];
    if (!out.device) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
    } else if (dp_sim_layout_set(c, a->count, c->devices * c->chunks, &a->layout, err) == 0 &&
               dp_sim_stages_fill(c, a->layer, &a->layout, &a->stages, err) == 0 && dp_sim_iterate(&a->stages.in, &out, err) == 0) {
        for (uint32_t d = 0; c->memory_bytes && d < a->layout.n_used; d++)
            fits = fits && out.device[d].mem_bytes <= c->memory_bytes;
        if (fits && out.iteration_ns < a->best_ns) {
            a->best_ns = out.iteration_ns;
            memcpy(a->best, a->cut, ((size_t)a->q.p + 1) * sizeof *a->best);
        }
        rc = 0;
    }
    free(out.device);
    return rc;
}

/* Layouts between the fastest slowest stage and the shortest way through all, evenly by ratio. */
static int try_fronts(struct ask *a, struct dp_err *err)
{
    const struct dp_front f = {&a->q, a->pass, hop_ns(a)};
    uint64_t cells = (uint64_t)a->q.n * a->q.p, least, most, full;
    uint32_t may = (uint32_t)(FRONT_CELLS / cells < FRONT_MOST ? FRONT_CELLS / cells : FRONT_MOST);

    weigh(a, DP_BY_TIME);
    if (may < 2 || dp_partition_minmax(&a->q, a->cut, &least, NULL) < 0 || dp_front_shortest(&f, UINT64_MAX >> 2, a->cut, &most, NULL) < 0)
        return 0;
    for (uint32_t i = 0; i < may; i++) {
        double bound = (double)least * pow((double)most / (double)(least ? least : 1), (double)i / (may - 1));

        if (dp_front_shortest(&f, (uint64_t)bound + 1, a->cut, &full, NULL) == 0 && try_cuts(a, err) < 0)
            return -1;
    }
    return 0;
}

static int iterate(struct ask *a, struct dp_err *err)
{
    const struct dp_policy_chain *k;

    a->best_ns = UINT64_MAX;
    if (dp_sim_layout_create(a->c, &a->layout, err) < 0 || dp_sim_stages_create(a->c, &a->stages, err) < 0)
        return -1;
    for (size_t i = 0; (k = dp_policy_chain_at(i)); i++)
        if (k->fn && (!k->most_cells || (uint64_t)a->q.n * a->q.p <= k->most_cells) && ask_one(a, k, NULL) == 0 && try_cuts(a, err) < 0)
            return -1;
    if (try_fronts(a, err) < 0)
        return -1;
    if (a->best_ns == UINT64_MAX)
        return dp_err_set(err, DP_ENOMEM, "the layers do not fit into the memory of %u devices", a->q.p);
    memcpy(a->cut, a->best, ((size_t)a->q.p + 1) * sizeof *a->cut);
    return 0;
}

int dp_sim_balance_chain(const struct dp_sim_case *c, const struct dp_sim_layer *layer, const char *policy, uint32_t allowed,
                         uint32_t *count, struct dp_err *err)
{
    struct ask a = {.c = c, .layer = layer};
    uint32_t stages = c->devices * c->chunks;
    const struct dp_policy_chain *k = find(policy);
    int rc = create(&a, stages, allowed, err);

    if (rc == 0) {
        fill(&a, count, allowed);
        if (k)
            rc = ask_one(&a, k, err);
        else if (!strcmp(policy, "iteration") && c->chunks == 1)
            rc = iterate(&a, err);
        else
            rc = dp_err_set(err, DP_ENOTSUP, "it takes at most %d layers on %d stages", DP_MAX_LAYERS, DP_MAX_WORKERS);
    }
    memset(count, 0, stages * sizeof *count);
    for (uint32_t b = 0; rc == 0 && b < allowed; b++)
        count[b] = a.cut[b + 1] - a.cut[b];
    release(&a);
    return rc < 0 ? dp_err_prefix(err, "policy %s", policy) : 0;
}
