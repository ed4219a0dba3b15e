/* SPDX-License-Identifier: BSD-3-Clause */
/* The gradient of cutter.h. What is chosen counts as given: loads and means are of the subgraphs that were made. */
#include <stdlib.h>
#include <string.h>

#include "policies/learn/net/cutter_inside.h"
#include "policies/learn/net/dense.h"
#include "policies/learn/net/floats.h"
#include "policies/learn/net/shares.h"

#define W DP_CUTTER_WIDTH
#define G DP_CUTTER_GATES
#define P DP_CUTTER_PARTS

/* d: [n] = of the scores that softmax made shares of. */
static void choice_back(float *d, const float *share, uint32_t n, uint32_t chosen, float slope, float entropy_worth)
{
    float entropy = 0;

    for (uint32_t i = 0; i < n; i++)
        entropy += dp_share_entropy(share[i]);
    for (uint32_t i = 0; i < n; i++)
        d[i] = dp_share_back(share[i], i == chosen, slope, entropy, entropy_worth);
}

/* dmean: += of the subgraph's mean. */
static void part_back(const struct dp_cutter *c, const struct dp_cutter_placing *p, const float *d, uint32_t n, float *dmean,
                      struct dp_cutter *grad)
{
    float all[W] = {0};

    for (uint32_t i = 0; i < n; i++) {
        float dz[W];

        grad->full += d[i] * p->load[i];
        dp_dense_add_row(grad->score, p->hidden[i], d[i], W);
        for (int k = 0; k < W; k++)
            dz[k] = d[i] * c->score[k] * (1.0f - p->hidden[i][k] * p->hidden[i][k]);
        dp_dense_add_row(grad->device[i], dz, 1, W);
        dp_dense_add_row(grad->of_load, dz, p->load[i], W);
        dp_dense_add_row(all, dz, 1, W);
    }
    dp_dense_add_row(grad->hidden_bias, all, 1, W);
    dp_dense_grad(grad->of_sub[0], all, p->mean, W, W);
    dp_dense_back(dmean, c->of_sub[0], all, W, W);
}

static void parts_back(const struct dp_cutter *c, const struct dp_cutter_tape *t, float entropy_worth, float *dx, struct dp_cutter *grad)
{
    float dmean[P][W] = {{0}};

    for (uint32_t i = 0; i < t->n_devices; i++) {
        const struct dp_cutter_placing *p = &t->placing[i];
        float d[P];

        if (!p->n_units)
            continue;
        choice_back(d, p->share, t->n_devices, p->device, t->slope[t->n + i], entropy_worth);
        part_back(c, p, d, t->n_devices, dmean[i], grad);
    }
    for (uint32_t v = 0; v < t->n; v++)
        dp_dense_add_row(dx + (size_t)v * W, dmean[t->visit[v].part], 1.0f / (float)t->placing[t->visit[v].part].n_units, W);
}

/* The scores of a unit. dmemory: += of the memory that made them. */
static void scores_back(const struct dp_cutter *c, const struct dp_cutter_visit *t, uint32_t n, const float *d, float *dmemory,
                        struct dp_cutter *grad)
{
    float all[P] = {0};

    memcpy(all, d, n * sizeof *d);
    dp_dense_add_row(grad->out_bias, all, 1, P);
    dp_dense_grad(grad->out[0], all, t->new_memory, W, P);
    dp_dense_back(dmemory, c->out[0], all, W, P);
    if (t->last < P)
        grad->stay += d[t->last];
    if (t->last + 1 < n)
        grad->next += d[t->last + 1];
    if (t->last == P)
        grad->next += d[0];
}

/* The LSTM's step. dmemory, dcell: of what came out; = of what went in. dx: += of the unit. */
static void remember_back(const struct dp_cutter *c, const struct dp_cutter_visit *t, const float *x, uint32_t n_devices, float *dx,
                          float *dmemory, float *dcell, struct dp_cutter *grad)
{
    float dz[G];

    for (int k = 0; k < W; k++) {
        float in = t->gate[k], forget = t->gate[W + k], out = t->gate[2 * W + k], fresh = t->gate[3 * W + k];
        float seen = dp_f_tanh(t->new_cell[k]);

        dcell[k] += dmemory[k] * out * (1.0f - seen * seen);
        dz[k] = dcell[k] * fresh * in * (1.0f - in);
        dz[W + k] = dcell[k] * t->cell[k] * forget * (1.0f - forget);
        dz[2 * W + k] = dmemory[k] * seen * out * (1.0f - out);
        dz[3 * W + k] = dcell[k] * in * (1.0f - fresh * fresh);
        dcell[k] *= forget;
    }
    dp_dense_add_row(grad->bias, dz, 1, G);
    dp_dense_add_row(grad->of_number, dz, (float)n_devices / P, G);
    dp_dense_add_row(grad->of_part[t->last], dz, 1, G);
    dp_dense_grad(grad->of_unit[0], dz, x, W, G);
    dp_dense_grad(grad->of_memory[0], dz, t->memory, W, G);
    dp_dense_back(dx, c->of_unit[0], dz, W, G);
    memset(dmemory, 0, W * sizeof *dmemory);
    dp_dense_back(dmemory, c->of_memory[0], dz, W, G);
}

/* dz: of the sum that tanh made y of. */
static void tanh_back(float *dz, const float *dy, const float *y)
{
    for (int k = 0; k < W; k++)
        dz[k] = dy[k] * (1.0f - y[k] * y[k]);
}

static void round_back(const struct dp_cutter_round *r, struct dp_cutter_round *grad, const struct dp_units *u, const float *x,
                       const float *y, const float *dy, float *dx)
{
    for (uint32_t v = 0; v < u->n; v++) {
        float dz[W], mean[W], dmean[W] = {0}, by = 1.0f / (float)(1 + dp_cutter_neighbours(u, v));

        tanh_back(dz, dy + (size_t)v * W, y + (size_t)v * W);
        dp_cutter_mean(mean, u, x, v);
        dp_dense_add_row(grad->bias, dz, 1, W);
        dp_dense_grad(grad->of_mean[0], dz, mean, W, W);
        dp_dense_back(dmean, r->of_mean[0], dz, W, W);
        dp_dense_add_row(dx + (size_t)v * W, dmean, by, W);
        for (uint32_t i = u->pred_at[v]; i < u->pred_at[v + 1]; i++)
            dp_dense_add_row(dx + (size_t)u->pred[i] * W, dmean, by, W);
        for (uint32_t i = u->succ_at[v]; i < u->succ_at[v + 1]; i++)
            dp_dense_add_row(dx + (size_t)u->succ[i] * W, dmean, by, W);
    }
}

/* dx: of the last round's rows; overwritten. below: room for as many. */
static void encode_back(const struct dp_cutter *c, const struct dp_net_graph *g, const struct dp_cutter_code *code, float *dx, float *below,
                        struct dp_cutter *grad)
{
    size_t n = code->n;

    for (size_t r = DP_CUTTER_ROUNDS; r-- > 0;) {
        memset(below, 0, n * W * sizeof *below);
        round_back(&c->round[r], &grad->round[r], g->facts.units, code->x + n * W * r, code->x + n * W * (r + 1), dx, below);
        memcpy(dx, below, n * W * sizeof *dx);
    }
    for (size_t v = 0; v < n; v++) {
        float dz[W];

        tanh_back(dz, dx + v * W, code->x + v * W);
        dp_dense_add_row(grad->in_bias, dz, 1, W);
        dp_dense_grad(grad->in[0], dz, g->fact + v * DP_NET_FACTS, DP_NET_FACTS, W);
    }
}

int dp_cutter_learn(const struct dp_cutter *c, const struct dp_net_graph *g, const struct dp_cutter_code *code,
                    const struct dp_cutter_tape *t, float entropy_worth, struct dp_cutter *grad, struct dp_err *err)
{
    float dmemory[W] = {0}, dcell[W] = {0}, d[P];
    float *dx = calloc((size_t)t->n + 1, W * sizeof *dx), *below = calloc((size_t)t->n + 1, W * sizeof *below);
    int rc = dx && below ? 0 : dp_err_set(err, DP_ENOMEM, "a gradient over %u units: out of memory", t->n);

    if (rc == 0)
        parts_back(c, t, entropy_worth, dx, grad);
    for (uint32_t v = t->n; rc == 0 && v-- > 0;) {
        const struct dp_cutter_visit *here = &t->visit[v];

        choice_back(d, here->share, t->n_devices, here->part, t->slope[v], entropy_worth);
        scores_back(c, here, t->n_devices, d, dmemory, grad);
        remember_back(c, here, dp_cutter_unit(code, v), t->n_devices, dx + (size_t)v * W, dmemory, dcell, grad);
    }
    if (rc == 0)
        encode_back(c, g, code, dx, below, grad);
    free(dx);
    free(below);
    return rc;
}
