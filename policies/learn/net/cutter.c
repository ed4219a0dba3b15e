/* SPDX-License-Identifier: BSD-3-Clause */
/* See cutter.h: forwards. The gradient is cutter_back.c. */
#include "policies/learn/net/cutter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/net/cutter_inside.h"
#include "policies/learn/net/dense.h"
#include "policies/learn/net/floats.h"
#include "policies/learn/net/shares.h"

#define W DP_CUTTER_WIDTH
#define G DP_CUTTER_GATES
#define P DP_CUTTER_PARTS

/* ---- weights ---- */

/* Even numbers of such a variance that `in` of them, of size one, add up to size `gain`. */
static void draw_matrix(float *w, uint32_t in, uint32_t out, float gain, uint64_t *state)
{
    float most = gain * sqrtf(3.0f / (float)in);

    for (uint32_t k = 0; k < in * out; k++)
        w[k] = most * (float)((int32_t)(dp_draw(state) >> 40) - (1 << 23)) / (float)(1 << 23);
}

void dp_cutter_init(struct dp_cutter *c, uint64_t seed)
{
    uint64_t state = dp_draw_stream(seed, 1);

    memset(c, 0, sizeof *c);
    draw_matrix(c->in[0], DP_NET_FACTS, W, 1, &state);
    for (int r = 0; r < DP_CUTTER_ROUNDS; r++)
        draw_matrix(c->round[r].of_mean[0], W, W, 1, &state);
    draw_matrix(c->of_unit[0], W, G, 1, &state);
    draw_matrix(c->of_memory[0], W, G, 1, &state);
    draw_matrix(c->of_part[0], P + 1, G, 1, &state);
    draw_matrix(c->out[0], W, P, 0.3f, &state);
    draw_matrix(c->of_sub[0], W, W, 1, &state);
    draw_matrix(c->device[0], P, W, 1, &state);
    draw_matrix(c->score, W, 1, 0.3f, &state);
    for (int k = W; k < 2 * W; k++)
        c->bias[k] = 1; /* of forgetting: at first little is forgotten */
    c->stay = 8;
    c->next = 6;
    c->full = -8;
}

bool dp_cutter_check(const struct dp_cutter *c)
{
    const float *w = (const float *)(const void *)c;

    for (size_t i = 0; i < DP_CUTTER_SIZE; i++)
        if (!(w[i] >= -DP_NET_MOST && w[i] <= DP_NET_MOST))
            return false;
    return true;
}

/* ---- the encoder ---- */

void dp_cutter_mean(float *mean, const struct dp_units *u, const float *x, uint32_t v)
{
    float by = 1.0f / (float)(1 + dp_cutter_neighbours(u, v));

    memset(mean, 0, W * sizeof *mean);
    dp_dense_add_row(mean, x + (size_t)v * W, by, W);
    for (uint32_t i = u->pred_at[v]; i < u->pred_at[v + 1]; i++)
        dp_dense_add_row(mean, x + (size_t)u->pred[i] * W, by, W);
    for (uint32_t i = u->succ_at[v]; i < u->succ_at[v + 1]; i++)
        dp_dense_add_row(mean, x + (size_t)u->succ[i] * W, by, W);
}

void dp_cutter_code_release(struct dp_cutter_code *code)
{
    free(code->x);
    code->x = NULL;
}

static void tanh_of(float *to, const float *z)
{
    for (int k = 0; k < W; k++)
        to[k] = dp_f_tanh(z[k]);
}

int dp_cutter_encode(struct dp_cutter_code *code, const struct dp_cutter *c, const struct dp_net_graph *g, struct dp_err *err)
{
    const struct dp_units *u = g->facts.units;
    size_t n = u->n;

    *code = (struct dp_cutter_code){.n = u->n, .x = calloc((n + 1) * (DP_CUTTER_ROUNDS + 1), W * sizeof *code->x)};
    if (!code->x)
        return dp_err_set(err, DP_ENOMEM, "a network over %u units: out of memory", u->n);
    for (size_t v = 0; v < n; v++) {
        float z[W];

        memcpy(z, c->in_bias, sizeof z);
        dp_dense_add(z, c->in[0], g->fact + v * DP_NET_FACTS, DP_NET_FACTS, W);
        tanh_of(code->x + v * W, z);
    }
    for (size_t r = 0; r < DP_CUTTER_ROUNDS; r++)
        for (uint32_t v = 0; v < u->n; v++) {
            float z[W], mean[W];

            memcpy(z, c->round[r].bias, sizeof z);
            dp_cutter_mean(mean, u, code->x + n * W * r, v);
            dp_dense_add(z, c->round[r].of_mean[0], mean, W, W);
            tanh_of(code->x + n * W * (r + 1) + (size_t)v * W, z);
        }
    return 0;
}

/* ---- the choices ---- */

int dp_cutter_tape_create(struct dp_cutter_tape *t, uint32_t n, uint32_t n_devices, struct dp_err *err)
{
    size_t choices = (size_t)n + n_devices;

    *t = (struct dp_cutter_tape){.n = n, .n_devices = n_devices};
    t->visit = calloc((size_t)n + 1, sizeof *t->visit);
    t->log_share = calloc(choices, sizeof *t->log_share);
    t->slope = calloc(choices, sizeof *t->slope);
    return t->visit && t->log_share && t->slope ? 0 : dp_err_set(err, DP_ENOMEM, "a placement of %u units: out of memory", n);
}

void dp_cutter_tape_release(struct dp_cutter_tape *t)
{
    free(t->visit);
    free(t->log_share);
    free(t->slope);
    *t = (struct dp_cutter_tape){0};
}

/* One of share[n]. known: what DP_CUTTER_FOLLOW takes. */
static uint32_t choose(const float *share, uint32_t n, enum dp_cutter_way way, uint64_t draws, uint32_t known)
{
    uint32_t best = 0;

    if (way == DP_CUTTER_FOLLOW)
        return known;
    if (way == DP_CUTTER_DRAWN)
        return dp_shares_draw(share, n, draws);
    for (uint32_t k = 1; k < n; k++)
        best = share[k] > share[best] ? k : best;
    return best;
}

/* The LSTM's step: memory and cell of the visit become new ones. */
static void remember(const struct dp_cutter *c, const float *x, uint32_t n_devices, struct dp_cutter_visit *t)
{
    float z[G];

    memcpy(z, c->bias, sizeof z);
    dp_dense_add(z, c->of_unit[0], x, W, G);
    dp_dense_add(z, c->of_memory[0], t->memory, W, G);
    dp_dense_add_row(z, c->of_part[t->last], 1, G);
    dp_dense_add_row(z, c->of_number, (float)n_devices / P, G);
    for (int k = 0; k < G; k++)
        t->gate[k] = k < 3 * W ? dp_f_sigmoid(z[k]) : dp_f_tanh(z[k]);
    for (int k = 0; k < W; k++) {
        t->new_cell[k] = t->gate[W + k] * t->cell[k] + t->gate[k] * t->gate[3 * W + k];
        t->new_memory[k] = t->gate[2 * W + k] * dp_f_tanh(t->new_cell[k]);
    }
}

static void place_unit(const struct dp_cutter *c, const float *x, uint32_t n_devices, struct dp_cutter_visit *t)
{
    float score[P];

    remember(c, x, n_devices, t);
    memcpy(score, c->out_bias, sizeof score);
    dp_dense_add(score, c->out[0], t->new_memory, W, P);
    if (t->last < P)
        score[t->last] += c->stay;
    if (t->last + 1 < n_devices)
        score[t->last + 1] += c->next;
    if (t->last == P) /* the first unit begins the first subgraph, unless it learned otherwise */
        score[0] += c->next;
    dp_shares_make(score, n_devices);
    memcpy(t->share, score, sizeof score);
}

/* Shares of the devices for a subgraph. */
static void place_part(const struct dp_cutter *c, uint32_t n_devices, struct dp_cutter_placing *p)
{
    float sub[W];

    memcpy(sub, c->hidden_bias, sizeof sub);
    dp_dense_add(sub, c->of_sub[0], p->mean, W, W);
    for (uint32_t d = 0; d < n_devices; d++) {
        float score = c->full * p->load[d];

        for (int k = 0; k < W; k++) {
            p->hidden[d][k] = dp_f_tanh(sub[k] + c->device[d][k] + c->of_load[k] * p->load[d]);
            score += c->score[k] * p->hidden[d][k];
        }
        p->share[d] = score;
    }
    dp_shares_make(p->share, n_devices);
}

/* Means of the subgraphs' units, and their compute in a device's fair share of it. */
static void look_at_parts(const struct dp_net_graph *g, const struct dp_cutter_code *code, struct dp_cutter_tape *t, float *work)
{
    for (uint32_t p = 0; p < t->n_devices; p++) {
        t->placing[p].n_units = 0;
        memset(t->placing[p].mean, 0, sizeof t->placing[p].mean);
        work[p] = 0;
    }
    for (uint32_t v = 0; v < t->n; v++) {
        struct dp_cutter_placing *p = &t->placing[t->visit[v].part];

        p->n_units++;
        dp_dense_add_row(p->mean, dp_cutter_unit(code, v), 1, W);
        work[t->visit[v].part] += g->fact[(size_t)v * DP_NET_FACTS + 1];
    }
    for (uint32_t p = 0; p < t->n_devices; p++)
        for (int k = 0; k < W && t->placing[p].n_units; k++)
            t->placing[p].mean[k] /= (float)t->placing[p].n_units;
}

static void place_parts(const struct dp_cutter *c, const float *work, enum dp_cutter_way way, uint64_t seed, struct dp_cutter_tape *t)
{
    float load[P] = {0};

    for (uint32_t i = 0; i < t->n_devices; i++) {
        struct dp_cutter_placing *p = &t->placing[i];

        t->log_share[t->n + i] = 0;
        if (!p->n_units)
            continue;
        memcpy(p->load, load, sizeof load);
        place_part(c, t->n_devices, p);
        p->device = choose(p->share, t->n_devices, way, dp_draw_stream(seed, (uint64_t)t->n + i), p->device);
        t->log_share[t->n + i] = dp_share_log(p->share[p->device]);
        load[p->device] += work[i];
    }
}

void dp_cutter_place(const struct dp_cutter *c, const struct dp_net_graph *g, const struct dp_cutter_code *code, enum dp_cutter_way way,
                     uint64_t seed, struct dp_cutter_tape *t)
{
    float work[P];

    for (uint32_t v = 0; v < t->n; v++) {
        struct dp_cutter_visit *here = &t->visit[v];
        const struct dp_cutter_visit *last = v ? here - 1 : NULL;

        here->last = last ? last->part : P;
        for (int k = 0; k < W; k++) {
            here->memory[k] = last ? last->new_memory[k] : 0;
            here->cell[k] = last ? last->new_cell[k] : 0;
        }
        place_unit(c, dp_cutter_unit(code, v), t->n_devices, here);
        here->part = choose(here->share, t->n_devices, way, dp_draw_stream(seed, v), here->part);
        t->log_share[v] = dp_share_log(here->share[here->part]);
    }
    look_at_parts(g, code, t, work);
    place_parts(c, work, way, seed, t);
}

void dp_cutter_devices(const struct dp_cutter_tape *t, uint32_t *device)
{
    for (uint32_t v = 0; v < t->n; v++)
        device[v] = t->placing[t->visit[v].part].device;
}
