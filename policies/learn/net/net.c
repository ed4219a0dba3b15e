/* SPDX-License-Identifier: BSD-3-Clause */
/* See net.h: weights to begin with, the walk with its memory and scores, and the gradient of both; the encoder is
 * encoder.c. */
#include "policies/learn/net/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/graph/search/draw.h"
#include "policies/learn/net/dense.h"
#include "policies/learn/net/encoder.h"
#include "policies/learn/net/floats.h"
#include "policies/learn/net/shares.h"

#define W DP_NET_WIDTH
#define L DP_NET_LOOKS
#define MOST_LOOK 8.0f /* a feature is no larger here */
#define RULE_WEIGHT 128.0f /* a rule's whole numbers, made small */

/* ---- weights ---- */

/* -1..1 */
static float draw_float(uint64_t *state)
{
    return (float)((int32_t)(dp_draw(state) >> 40) - (1 << 23)) / (float)(1 << 23);
}

static float dot(const float *a, const float *b, uint32_t n)
{
    float sum = 0;

    for (uint32_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* Rows that stand upright on each other, of length `gain` (Gram and Schmidt); where there are more rows than columns only
 * as many in turn. */
static void make_orthogonal(float *w, uint32_t rows, uint32_t cols, float gain, uint64_t *state)
{
    for (uint32_t i = 0; i < rows; i++) {
        float *row = w + (size_t)i * cols, length;

        for (uint32_t k = 0; k < cols; k++)
            row[k] = draw_float(state);
        for (uint32_t j = i - i % cols; j < i; j++) {
            const float *other = w + (size_t)j * cols;

            dp_dense_add_row(row, other, -dot(row, other, cols) / (gain * gain), cols);
        }
        length = sqrtf(dot(row, row, cols)) + 1e-6f;
        for (uint32_t k = 0; k < cols; k++)
            row[k] *= gain / length;
    }
}

static void init_gate(struct dp_net_gate *g, uint64_t *state)
{
    make_orthogonal(g->of_unit[0], W, W, 1, state);
    make_orthogonal(g->of_memory[0], W, W, 1, state);
}

void dp_net_init(struct dp_net *net, uint64_t seed)
{
    uint64_t state = dp_draw_stream(seed, 0);

    memset(net, 0, sizeof *net);
    make_orthogonal(net->in[0], DP_NET_FACTS, W, 1, &state);
    for (int r = 0; r < DP_NET_ROUNDS; r++) {
        make_orthogonal(net->round[r].own[0], W, W, 1, &state);
        make_orthogonal(net->round[r].before[0], W, W, 0.7f, &state);
        make_orthogonal(net->round[r].behind[0], W, W, 0.7f, &state);
    }
    init_gate(&net->reset, &state);
    init_gate(&net->update, &state);
    init_gate(&net->fresh, &state);
    make_orthogonal(net->of_unit[0], W, W, 1, &state);
    make_orthogonal(net->of_memory[0], W, W, 1, &state);
    make_orthogonal(net->of_look[0], L, W, 1, &state);
    make_orthogonal(net->out, 1, W, 0.1f, &state);
    for (int late = 0; late < 2; late++) {
        net->direct[late][DP_RULE_TRAFFIC] = -2;
        net->direct[late][DP_RULE_RECENT] = 0.5f;
    }
}

void dp_net_of_rule(struct dp_net *net, const struct dp_rule *rule)
{
    memset(net, 0, sizeof *net);
    for (int late = 0; late < 2; late++)
        for (int k = 0; k < L; k++)
            net->direct[late][k] = (float)rule->weight[late][k] / RULE_WEIGHT;
}

bool dp_net_check(const struct dp_net *net)
{
    const float *w = (const float *)(const void *)net;

    for (size_t i = 0; i < DP_NET_SIZE; i++)
        if (!(w[i] >= -DP_NET_MOST && w[i] <= DP_NET_MOST))
            return false;
    return true;
}

/* ---- the walk ---- */

struct walk {
    const struct dp_net *net;
    const struct dp_net_code *code;
    const struct dp_net_walk *ask;
    struct dp_ready ready;
    float memory[W];
    float *score;     /* [room] of the ready units, then their shares */
};

/* The memory after a unit. gates: what the gradient needs; memory: = */
static void remember(const struct dp_net *net, const float *x, const float *before, struct dp_net_choice *gates, float *memory)
{
    float reset[W], update[W], fresh[W];

    memcpy(reset, net->reset.bias, sizeof reset);
    memcpy(update, net->update.bias, sizeof update);
    memcpy(fresh, net->fresh.bias, sizeof fresh);
    memset(gates->recalled, 0, sizeof gates->recalled);
    dp_dense_add(reset, net->reset.of_unit[0], x, W, W);
    dp_dense_add(reset, net->reset.of_memory[0], before, W, W);
    dp_dense_add(update, net->update.of_unit[0], x, W, W);
    dp_dense_add(update, net->update.of_memory[0], before, W, W);
    dp_dense_add(fresh, net->fresh.of_unit[0], x, W, W);
    dp_dense_add(gates->recalled, net->fresh.of_memory[0], before, W, W);
    for (int k = 0; k < W; k++) {
        gates->reset[k] = dp_f_sigmoid(reset[k]);
        gates->update[k] = dp_f_sigmoid(update[k]);
        gates->fresh[k] = dp_f_tanh(fresh[k] + gates->reset[k] * gates->recalled[k]);
        gates->memory[k] = before[k];
        memory[k] = (1.0f - gates->update[k]) * gates->fresh[k] + gates->update[k] * before[k];
    }
}

static float score_unit(const struct walk *w, uint32_t unit, const float *of_memory, bool is_late, struct dp_net_candidate *c)
{
    int32_t value[L];
    float z[W], score;

    dp_ready_look(&w->ready, unit, NULL, value);
    c->unit = unit;
    for (int k = 0; k < L; k++) {
        float v = (float)value[k] / DP_READY_ONE;

        c->look[k] = v > MOST_LOOK ? MOST_LOOK : v < -MOST_LOOK ? -MOST_LOOK : v;
    }
    memcpy(z, of_memory, sizeof z);
    dp_dense_add_row(z, w->code->part + (size_t)unit * W, 1, W);
    dp_dense_add(z, w->net->of_look[0], c->look, L, W);
    for (int k = 0; k < W; k++)
        c->hidden[k] = dp_f_tanh(z[k]);
    score = dot(w->net->out, c->hidden, W) + dot(w->net->direct[is_late], c->look, L);
    return score;
}

/* Of equals the one that became ready last. */
static uint32_t best_of(const float *score, uint32_t n)
{
    uint32_t best = n - 1;

    for (uint32_t i = best; i-- > 0;)
        if (score[i] > score[best])
            best = i;
    return best;
}

/* Likewise, of those with the lowest stage. */
static uint32_t best_within(const float *score, const struct dp_ready *r, const uint32_t *stage)
{
    uint32_t best = r->n - 1;

    for (uint32_t i = best; i-- > 0;) {
        uint32_t here = stage[r->unit[i]], least = stage[r->unit[best]];

        if (here < least || (here == least && score[i] > score[best]))
            best = i;
    }
    return best;
}

/* returns: where the unit is among the ready ones, or their number. */
static uint32_t find_ready(const struct dp_ready *r, uint32_t unit)
{
    uint32_t i = 0;

    while (i < r->n && r->unit[i] != unit)
        i++;
    return i;
}

static int make_room(struct dp_net_tape *t, uint32_t units, uint32_t more, struct dp_err *err)
{
    if (t->n_candidates + more > t->room_candidates) {
        uint32_t room = t->room_candidates * 2 + more + 256;
        struct dp_net_candidate *c = realloc(t->candidate, room * sizeof *c);

        if (!c)
            return dp_err_set(err, DP_ENOMEM, "a walk over %u units: out of memory", units);
        t->candidate = c;
        t->room_candidates = room;
    }
    if (units > t->room_choices) {
        struct dp_net_choice *c = realloc(t->choice, units * sizeof *c);

        if (!c)
            return dp_err_set(err, DP_ENOMEM, "a walk over %u units: out of memory", units);
        t->choice = c;
        t->room_choices = units;
    }
    return 0;
}

void dp_net_tape_release(struct dp_net_tape *t)
{
    free(t->choice);
    free(t->candidate);
    *t = (struct dp_net_tape){0};
}

/* One choice: the unit at place `at` of the order. returns 0 or -1. */
static int choose(struct walk *w, uint32_t at, uint32_t *order, struct dp_err *err)
{
    const struct dp_net_walk *ask = w->ask;
    struct dp_net_tape *t = ask->tape;
    struct dp_net_choice gates = {.n = w->ready.n, .is_late = dp_ready_is_late(&w->ready)};
    float of_memory[W], memory[W];
    uint32_t which = 0, n = w->ready.n, unit;

    if (t && make_room(t, w->code->n, n, err) < 0)
        return -1;
    memcpy(of_memory, w->net->bias, sizeof of_memory);
    dp_dense_add(of_memory, w->net->of_memory[0], w->memory, W, W);
    for (uint32_t i = 0; i < n && (n > 1 || t); i++) {
        struct dp_net_candidate here, *c = t ? &t->candidate[t->n_candidates + i] : &here;

        w->score[i] = score_unit(w, w->ready.unit[i], of_memory, gates.is_late, c);
    }
    if (n > 1 || t) {
        which = ask->follow || ask->is_drawn ? 0 : ask->stage ? best_within(w->score, &w->ready, ask->stage) : best_of(w->score, n);
        if (t || ask->log_share || ask->is_drawn)
            dp_shares_make(w->score, n);
        if (ask->is_drawn && !ask->follow)
            which = dp_shares_draw(w->score, n, dp_draw_stream(ask->draw_seed, at));
    }
    if (ask->follow && (which = find_ready(&w->ready, ask->follow[at])) == n)
        return dp_err_set(err, DP_EINVAL, "unit %u is at place %u of an order, but not ready there", ask->follow[at], at);
    if (ask->log_share)
        ask->log_share[at] = n > 1 ? dp_share_log(w->score[which]) : 0;
    unit = dp_ready_take(&w->ready, which);
    remember(w->net, dp_net_unit(w->code, unit), w->memory, &gates, memory);
    memcpy(w->memory, memory, sizeof memory);
    if (t) {
        gates.first = t->n_candidates;
        gates.chosen = which;
        for (uint32_t i = 0; i < n; i++)
            t->candidate[t->n_candidates + i].share = w->score[i];
        t->choice[at] = gates;
        t->n_candidates += n;
        t->n_choices = at + 1;
    }
    order[at] = unit;
    return 0;
}

int dp_net_order(const struct dp_net *net, const struct dp_net_graph *g, const struct dp_net_code *c, const struct dp_net_walk *ask,
                 uint32_t *order, uint64_t *steps, struct dp_err *err)
{
    struct walk w = {.net = net, .code = c, .ask = ask, .score = calloc((size_t)c->n + 1, sizeof *w.score)};
    uint64_t made = 0;
    uint32_t i = 0;
    int rc = dp_ready_create(&w.ready, &g->facts, err);

    if (rc == 0 && !w.score)
        rc = dp_err_set(err, DP_ENOMEM, "an order of %u units: out of memory", c->n);
    w.ready.seed = ask->key_seed;
    if (ask->tape)
        ask->tape->n_choices = ask->tape->n_candidates = 0;
    for (; rc == 0 && i < c->n && made <= ask->max_steps; i++) {
        made += w.ready.n;
        rc = choose(&w, i, order, err);
    }
    *steps += made;
    free(w.score);
    dp_ready_release(&w.ready);
    return rc < 0 ? -1 : i == c->n;
}

/* ---- the gradient ---- */

/* The scores of one choice. dmemory: += of the memory that they saw; dx: += of units. */
static void score_back(const struct dp_net *net, const struct dp_net_code *code, const struct dp_net_choice *c,
                       const struct dp_net_candidate *of, float *dx, float *dmemory, struct dp_net *grad)
{
    float entropy = 0, all[W] = {0};

    for (uint32_t i = 0; i < c->n; i++)
        entropy += dp_share_entropy(of[i].share);
    for (uint32_t i = 0; i < c->n; i++) {
        float d = dp_share_back(of[i].share, i == c->chosen, c->slope, entropy, c->entropy_worth), dz[W];

        dp_dense_add_row(grad->direct[c->is_late], of[i].look, d, L);
        dp_dense_add_row(grad->out, of[i].hidden, d, W);
        for (int k = 0; k < W; k++)
            dz[k] = d * net->out[k] * (1.0f - of[i].hidden[k] * of[i].hidden[k]);
        dp_dense_add_row(all, dz, 1, W);
        dp_dense_grad(grad->of_look[0], dz, of[i].look, L, W);
        dp_dense_grad(grad->of_unit[0], dz, dp_net_unit(code, of[i].unit), W, W);
        dp_dense_back(dx + (size_t)of[i].unit * W, net->of_unit[0], dz, W, W);
    }
    dp_dense_add_row(grad->bias, all, 1, W);
    dp_dense_grad(grad->of_memory[0], all, c->memory, W, W);
    dp_dense_back(dmemory, net->of_memory[0], all, W, W);
}

static void gate_back(const struct dp_net_gate *g, struct dp_net_gate *grad, const float *dz, const float *x, const float *memory,
                      float *dx, float *dmemory)
{
    dp_dense_add_row(grad->bias, dz, 1, W);
    dp_dense_grad(grad->of_unit[0], dz, x, W, W);
    dp_dense_grad(grad->of_memory[0], dz, memory, W, W);
    dp_dense_back(dx, g->of_unit[0], dz, W, W);
    dp_dense_back(dmemory, g->of_memory[0], dz, W, W);
}

/* The step of the memory behind a choice. dmemory: of what came out; = of what went in. dx: += of the unit. */
static void remember_back(const struct dp_net *net, const struct dp_net_choice *c, const float *x, float *dx, float *dmemory,
                          struct dp_net *grad)
{
    float dreset[W], dupdate[W], dfresh[W], drecalled[W], below[W];

    for (int k = 0; k < W; k++) {
        float r = c->reset[k], u = c->update[k], f = c->fresh[k];

        below[k] = dmemory[k] * u;
        dupdate[k] = dmemory[k] * (c->memory[k] - f) * u * (1.0f - u);
        dfresh[k] = dmemory[k] * (1.0f - u) * (1.0f - f * f);
        drecalled[k] = dfresh[k] * r;
        dreset[k] = dfresh[k] * c->recalled[k] * r * (1.0f - r);
    }
    gate_back(&net->reset, &grad->reset, dreset, x, c->memory, dx, below);
    gate_back(&net->update, &grad->update, dupdate, x, c->memory, dx, below);
    dp_dense_add_row(grad->fresh.bias, dfresh, 1, W);
    dp_dense_grad(grad->fresh.of_unit[0], dfresh, x, W, W);
    dp_dense_back(dx, net->fresh.of_unit[0], dfresh, W, W);
    dp_dense_grad(grad->fresh.of_memory[0], drecalled, c->memory, W, W);
    dp_dense_back(below, net->fresh.of_memory[0], drecalled, W, W);
    memcpy(dmemory, below, sizeof below);
}

int dp_net_learn(const struct dp_net *net, const struct dp_net_graph *g, const struct dp_net_code *c, const struct dp_net_tape *tape,
                 struct dp_net *grad, struct dp_err *err)
{
    float dmemory[W] = {0}, *dx = calloc((size_t)c->n + 1, W * sizeof *dx);
    int rc;

    if (!dx)
        return dp_err_set(err, DP_ENOMEM, "a gradient over %u units: out of memory", c->n);
    for (uint32_t i = tape->n_choices; i-- > 0;) {
        const struct dp_net_choice *choice = &tape->choice[i];
        const struct dp_net_candidate *of = &tape->candidate[choice->first];
        uint32_t unit = of[choice->chosen].unit;

        remember_back(net, choice, dp_net_unit(c, unit), dx + (size_t)unit * W, dmemory, grad);
        if (choice->n > 1)
            score_back(net, c, choice, of, dx, dmemory, grad);
    }
    rc = dp_net_encode_back(net, g, c, dx, grad, err);
    free(dx);
    return rc;
}
