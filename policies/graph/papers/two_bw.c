/* SPDX-License-Identifier: BSD-3-Clause */
/* PipeDream-2BW's planner; papers.h has its objective. For each depth, size of microbatches, and with recomputation and without,
 * a table least[stage][piece] holds the least maximum over the stages up to there; ways to cut that cannot be better than the
 * best answer so far are left early, since compute alone takes longer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "policies/graph/papers/paper.h"

struct shape {
    const struct dp_pieces *c;
    const struct dp_paper_ask *ask;
    uint32_t depth, width, microbatch;
    bool recomputes;
    double *least;  /* [depth + 1][n + 1] */
    uint32_t *from; /* likewise: where the last stage of it begins */
};

static double compute_s(const struct shape *s, uint32_t from, uint32_t to)
{
    uint64_t ns = s->c->compute_ns[to] - s->c->compute_ns[from];

    if (s->recomputes)
        ns += s->c->forward_ns[to] - s->c->forward_ns[from];
    return (double)ns / 1e9 / s->width;
}

/* Of a microbatch of the file, in the steady state, when pieces from..to are a stage. */
static double stage_s(const struct shape *s, uint32_t from, uint32_t to)
{
    const struct dp_plan_hierarchical *net = s->ask->net;
    double params = (double)(s->c->param_bytes[to] - s->c->param_bytes[from]), moved = 0, messages = 0;
    double sync = 2.0 * (s->width - 1) / s->width * params / net->bytes_per_s[0] / net->microbatches;

    if (from > 0) {
        moved += (double)s->c->cross_bytes[from];
        messages++;
    }
    if (to < s->c->n) {
        moved += (double)s->c->cross_bytes[to];
        messages++;
    }
    moved = moved / net->bytes_per_s[0] + messages * (double)s->ask->latency_ns / 1e9 / s->microbatch;
    return fmax(compute_s(s, from, to) + moved / s->width, sync);
}

/* Stage i, from 0, has depth - i microbatches under way. */
static bool has_room(const struct shape *s, uint32_t i, uint32_t from, uint32_t to)
{
    const struct dp_pieces *c = s->c;
    uint64_t state = c->state_bytes[to] - c->state_bytes[from] + c->param_bytes[to] - c->param_bytes[from];
    uint64_t kept = c->kept_bytes[to] - c->kept_bytes[from], limit = s->ask->net->accel_bytes;
    uint64_t under_way = (uint64_t)(s->depth - i) * s->microbatch;

    if (!s->recomputes)
        return dp_paper_fits(state, kept, under_way, limit);
    return dp_paper_fits(state, kept, s->microbatch, limit) &&
           dp_paper_fits(state + kept * s->microbatch, from ? c->cross_bytes[from] : 0, under_way, limit);
}

static void cut_stage(struct shape *s, uint32_t i, double below_s)
{
    uint32_t n = s->c->n;
    double *before = s->least + (size_t)i * (n + 1), *to = before + n + 1;

    for (uint32_t end = 0; end <= n; end++) {
        to[end] = INFINITY;
        for (uint32_t from = end; from-- > i && compute_s(s, from, end) < fmin(below_s, to[end]);) {
            double t;

            if (before[from] >= to[end] || !has_room(s, i, from, end))
                continue;
            t = fmax(before[from], stage_s(s, from, end));
            if (t < to[end] && t < below_s) {
                to[end] = t;
                s->from[(size_t)(i + 1) * (n + 1) + end] = from;
            }
        }
    }
}

static void keep(const struct shape *s, double t, uint32_t *end, struct dp_graph_stage *stage, struct dp_paper_best *best)
{
    uint32_t n = s->c->n, at = n;

    for (uint32_t i = s->depth; i-- > 0;) {
        end[i] = at;
        stage[i] = (struct dp_graph_stage){.machines = 1, .replicas = s->width};
        at = s->from[(size_t)(i + 1) * (n + 1) + at];
    }
    dp_paper_keep(best, s->c, t, end, stage, s->depth);
    best->recomputes = s->recomputes;
    best->microbatch = s->microbatch;
    best->more_weights = 1;
    snprintf(best->how, sizeof best->how, "PipeDream-2BW: %u stage(s) of %u device(s), microbatches of %u, %s recomputation", s->depth,
             s->width, s->microbatch, s->recomputes ? "with" : "without");
}

static void try_shape(struct shape *s, uint32_t *end, struct dp_graph_stage *stage, struct dp_paper_best *best)
{
    uint32_t n = s->c->n;
    double t;

    s->least[0] = 0;
    for (uint32_t i = 1; i <= n; i++)
        s->least[i] = INFINITY;
    for (uint32_t i = 0; i < s->depth; i++)
        cut_stage(s, i, best->objective_s);
    t = s->least[(size_t)s->depth * (n + 1) + n];
    if (t < best->objective_s)
        keep(s, t, end, stage, best);
}

int dp_paper_cut_2bw(const struct dp_pieces *c, const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    uint32_t devices = ask->net->devices[0], most = devices < c->n ? devices : c->n;
    struct shape s = {.c = c, .ask = ask};
    uint32_t *end = calloc(most, sizeof *end);
    struct dp_graph_stage *stage = calloc(most, sizeof *stage);
    int rc = -1;

    s.least = calloc(((size_t)most + 1) * (c->n + 1), sizeof *s.least);
    s.from = calloc(((size_t)most + 1) * (c->n + 1), sizeof *s.from);
    if (end && stage && s.least && s.from)
        rc = 0;
    for (s.depth = 1; rc == 0 && s.depth <= most; s.depth++) {
        s.width = devices / s.depth;
        if (s.width * s.depth != devices)
            continue;
        for (uint64_t b = 1; b == 1 || b * s.width <= ask->net->microbatches; b *= 2) {
            s.microbatch = (uint32_t)b;
            for (int r = 0; r < 2 && dp_paper_go_on(ask, best); r++) {
                s.recomputes = r;
                try_shape(&s, end, stage, best);
            }
        }
    }
    free(end);
    free(stage);
    free(s.least);
    free(s.from);
    return rc;
}
