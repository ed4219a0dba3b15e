/* SPDX-License-Identifier: BSD-3-Clause */
/* The encoder of net.h, forwards and backwards. */
#include "policies/learn/net/encoder.h"

#include <stdlib.h>
#include <string.h>

#include "policies/learn/net/dense.h"
#include "policies/learn/net/floats.h"

#define W DP_NET_WIDTH
#define MOST_FACT 8.0 /* a fact is no larger */

static float ratio(double a, double b)
{
    double v = a / b;

    return (float)(v > MOST_FACT ? MOST_FACT : v);
}

void dp_net_graph_release(struct dp_net_graph *g)
{
    dp_rule_facts_release(&g->facts);
    free(g->fact);
    g->fact = NULL;
}

int dp_net_graph_create(struct dp_net_graph *g, const struct dp_units *u, uint32_t n_devices, struct dp_err *err)
{
    *g = (struct dp_net_graph){.fact = calloc((size_t)u->n + 1, DP_NET_FACTS * sizeof *g->fact)};
    if (dp_rule_facts_create(&g->facts, u, n_devices, err) < 0)
        return -1;
    if (!g->fact)
        return dp_err_set(err, DP_ENOMEM, "facts of %u units: out of memory", u->n);
    for (uint32_t v = 0; v < u->n; v++) {
        float *f = g->fact + (size_t)v * DP_NET_FACTS;
        uint64_t nets = 0;

        for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++)
            nets += u->net_ns[u->net_of[i]];
        f[0] = ratio((double)u->accel_ns[v], (double)g->facts.mean_ns);
        f[1] = ratio((double)u->accel_ns[v], (double)g->facts.share_ns);
        f[2] = ratio((double)nets, (double)g->facts.mean_net_ns);
        f[3] = (float)g->facts.depth[v] / DP_READY_ONE;
        f[4] = (float)g->facts.height[v] / DP_READY_ONE;
        f[5] = ratio(u->pred_at[v + 1] - u->pred_at[v], 4);
        f[6] = ratio(u->succ_at[v + 1] - u->succ_at[v], 4);
        f[7] = (float)((double)v / u->n);
    }
    return 0;
}

/* mean: = of the rows x[list[from..to)]; zeroes for none. */
static void mean_of(float *mean, const float *x, const uint32_t *list, uint32_t from, uint32_t to)
{
    memset(mean, 0, W * sizeof *mean);
    for (uint32_t i = from; i < to; i++)
        dp_dense_add_row(mean, x + (size_t)list[i] * W, 1.0f / (float)(to - from), W);
}

static void encode_unit(float *to, const struct dp_net_round *r, const struct dp_units *u, const float *x, uint32_t v)
{
    float before[W], behind[W], z[W];

    mean_of(before, x, u->pred, u->pred_at[v], u->pred_at[v + 1]);
    mean_of(behind, x, u->succ, u->succ_at[v], u->succ_at[v + 1]);
    memcpy(z, r->bias, sizeof z);
    dp_dense_add(z, r->own[0], x + (size_t)v * W, W, W);
    dp_dense_add(z, r->before[0], before, W, W);
    dp_dense_add(z, r->behind[0], behind, W, W);
    for (int k = 0; k < W; k++)
        to[k] = dp_f_tanh(z[k]);
}

void dp_net_code_release(struct dp_net_code *c)
{
    free(c->x);
    free(c->part);
    c->x = c->part = NULL;
}

int dp_net_encode(struct dp_net_code *c, const struct dp_net *net, const struct dp_net_graph *g, struct dp_err *err)
{
    const struct dp_units *u = g->facts.units;
    size_t n = u->n;

    *c = (struct dp_net_code){.n = u->n,
                              .x = calloc((n + 1) * (DP_NET_ROUNDS + 1), W * sizeof *c->x),
                              .part = calloc(n + 1, W * sizeof *c->part)};
    if (!c->x || !c->part)
        return dp_err_set(err, DP_ENOMEM, "a network over %u units: out of memory", u->n);
    for (size_t v = 0; v < n; v++) {
        float z[W];

        memcpy(z, net->in_bias, sizeof z);
        dp_dense_add(z, net->in[0], g->fact + v * DP_NET_FACTS, DP_NET_FACTS, W);
        for (int k = 0; k < W; k++)
            c->x[v * W + (size_t)k] = dp_f_tanh(z[k]);
    }
    for (int r = 0; r < DP_NET_ROUNDS; r++) {
        const float *x = c->x + n * W * (size_t)r;

        for (uint32_t v = 0; v < u->n; v++)
            encode_unit(c->x + n * W * (size_t)(r + 1) + (size_t)v * W, &net->round[r], u, x, v);
    }
    for (size_t v = 0; v < n; v++)
        dp_dense_add(c->part + v * W, net->of_unit[0], dp_net_unit(c, (uint32_t)v), W, W);
    return 0;
}

/* Rows x[list[from..to)] took part in a mean. */
static void mean_back(float *dx, const float *dmean, const uint32_t *list, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        dp_dense_add_row(dx + (size_t)list[i] * W, dmean, 1.0f / (float)(to - from), W);
}

/* dz: of the sum that tanh made y of. */
static void tanh_back(float *dz, const float *dy, const float *y)
{
    for (int k = 0; k < W; k++)
        dz[k] = dy[k] * (1.0f - y[k] * y[k]);
}

static void round_back(const struct dp_net_round *r, struct dp_net_round *grad, const struct dp_units *u, const float *x, const float *y,
                       const float *dy, float *dx)
{
    for (uint32_t v = 0; v < u->n; v++) {
        float dz[W], mean[W], dmean[W] = {0};

        tanh_back(dz, dy + (size_t)v * W, y + (size_t)v * W);
        dp_dense_add_row(grad->bias, dz, 1, W);
        dp_dense_grad(grad->own[0], dz, x + (size_t)v * W, W, W);
        dp_dense_back(dx + (size_t)v * W, r->own[0], dz, W, W);
        mean_of(mean, x, u->pred, u->pred_at[v], u->pred_at[v + 1]);
        dp_dense_grad(grad->before[0], dz, mean, W, W);
        dp_dense_back(dmean, r->before[0], dz, W, W);
        mean_back(dx, dmean, u->pred, u->pred_at[v], u->pred_at[v + 1]);
        mean_of(mean, x, u->succ, u->succ_at[v], u->succ_at[v + 1]);
        dp_dense_grad(grad->behind[0], dz, mean, W, W);
        memset(dmean, 0, sizeof dmean);
        dp_dense_back(dmean, r->behind[0], dz, W, W);
        mean_back(dx, dmean, u->succ, u->succ_at[v], u->succ_at[v + 1]);
    }
}

int dp_net_encode_back(const struct dp_net *net, const struct dp_net_graph *g, const struct dp_net_code *c, float *dx, struct dp_net *grad,
                       struct dp_err *err)
{
    size_t n = c->n, bytes = n * W * sizeof *dx;
    float *below = malloc(bytes + 1);

    if (!below)
        return dp_err_set(err, DP_ENOMEM, "a gradient over %u units: out of memory", c->n);
    for (int r = DP_NET_ROUNDS; r-- > 0;) {
        memset(below, 0, bytes);
        round_back(&net->round[r], &grad->round[r], g->facts.units, c->x + n * W * (size_t)r, c->x + n * W * (size_t)(r + 1), dx, below);
        memcpy(dx, below, bytes);
    }
    for (size_t v = 0; v < n; v++) {
        float dz[W];

        tanh_back(dz, dx + v * W, c->x + v * W);
        dp_dense_add_row(grad->in_bias, dz, 1, W);
        dp_dense_grad(grad->in[0], dz, g->fact + v * DP_NET_FACTS, DP_NET_FACTS, W);
    }
    free(below);
    return 0;
}
