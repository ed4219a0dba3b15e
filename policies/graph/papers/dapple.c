/* SPDX-License-Identifier: BSD-3-Clause */
/* DAPPLE's objective, planned exactly on a chain of pieces; papers.h has the formula. From the end of the pipeline to its front:
 * of the pieces from `from` on, on just so many devices, a label is a way to have them, by its three figures (struct tail). What a
 * stage more in front makes of them rises with each of the three, so a label that another one of as many first replicas beats in
 * all is dropped, and no best plan is lost. That transfers depend on the replicas on both of their sides is why these count. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "policies/graph/papers/paper.h"

#define MOST_LABELS 256u /* of a cell; more were not seen: then those with the least latency stay */

/* What a pipeline of computing and transferring stages adds up to; each figure -INFINITY: there is none. */
struct tail {
    double latency_s; /* the longest over all pivots */
    double turn_s;    /* the longest over pivots: there and back, and the steady phase between */
    double after_s;   /* the longest over stages: exchange of gradients, less the backward up to it */
};

struct label {
    struct tail tail;
    uint32_t replicas, to, next; /* of its first stage: up to piece `to`, behind which label `next` of its cell goes on */
};

struct cell {
    struct label *label;
    uint32_t n, room;
};

struct program {
    const struct dp_pieces *c;
    const struct dp_paper_ask *ask;
    uint32_t devices;
    double steps;      /* microbatches - 1 */
    struct cell *cell; /* [n + 1][devices + 1] */
    uint32_t *end;     /* [room] of the answer, and its stages */
    struct dp_graph_stage *stage;
};

static const struct tail nothing = {-INFINITY, -INFINITY, -INFINITY};

/* A stage in front: it goes forward, backward, and exchanges gradients at the end. */
static struct tail add_stage(struct tail t, double steps, double forward_s, double backward_s, double sync_s)
{
    double both = forward_s + backward_s, own = both + steps * both;
    struct tail out;

    out.latency_s = fmax(t.latency_s + forward_s, fmax(own, both + t.turn_s) + sync_s);
    out.latency_s = fmax(out.latency_s, forward_s + steps * both + t.after_s - backward_s);
    out.turn_s = fmax(own, both + t.turn_s);
    out.after_s = fmax(sync_s, t.after_s) - backward_s;
    return out;
}

static struct cell *cell_of(const struct program *p, uint32_t from, uint32_t devices)
{
    return &p->cell[(size_t)from * (p->devices + 1) + devices];
}

/* Pieces [from, to) on so many replicas, behind them `behind` with that many in their first stage (0: the end). */
static struct tail put_before(const struct program *p, struct tail t, uint32_t from, uint32_t to, uint32_t replicas, uint32_t behind)
{
    const struct dp_pieces *c = p->c;
    double bytes_per_s = p->ask->net->bytes_per_s[0];
    double forward_s = (double)(c->forward_ns[to] - c->forward_ns[from]) / 1e9 / replicas;
    double compute_s = (double)(c->compute_ns[to] - c->compute_ns[from]) / 1e9 / replicas;
    double sync_s = 2.0 * (replicas - 1) / replicas * (double)(c->param_bytes[to] - c->param_bytes[from]) / bytes_per_s;

    if (behind) {
        double move_s = (double)c->cross_bytes[to] / bytes_per_s / (replicas < behind ? replicas : behind);

        t = add_stage(t, p->steps, move_s, move_s, 0);
    }
    return add_stage(t, p->steps, forward_s, compute_s - forward_s, sync_s);
}

/* returns 0, or -1: out of memory. */
static int insert(struct cell *cell, struct label new)
{
    uint32_t n = 0, longest = 0;

    for (uint32_t i = 0; i < cell->n; i++) {
        const struct label *l = &cell->label[i];

        if (l->replicas == new.replicas && l->tail.latency_s <= new.tail.latency_s && l->tail.turn_s <= new.tail.turn_s &&
            l->tail.after_s <= new.tail.after_s)
            return 0;
    }
    for (uint32_t i = 0; i < cell->n; i++) {
        const struct label *l = &cell->label[i];

        if (l->replicas != new.replicas || l->tail.latency_s < new.tail.latency_s || l->tail.turn_s < new.tail.turn_s ||
            l->tail.after_s < new.tail.after_s)
            cell->label[n++] = *l;
    }
    cell->n = n;
    if (n == MOST_LABELS) {
        for (uint32_t i = 1; i < n; i++)
            longest = cell->label[i].tail.latency_s > cell->label[longest].tail.latency_s ? i : longest;
        if (cell->label[longest].tail.latency_s > new.tail.latency_s)
            cell->label[longest] = new;
        return 0;
    }
    if (n == cell->room) {
        uint32_t room = cell->room ? 2 * cell->room : 4;
        struct label *more = realloc(cell->label, room * sizeof *more);

        if (!more)
            return -1;
        cell->label = more;
        cell->room = room;
    }
    cell->label[cell->n++] = new;
    return 0;
}

/* All labels of the pieces from `from` on, on so many devices, whose latency is below. */
static int fill(const struct program *p, uint32_t from, uint32_t devices, double below_s)
{
    const struct dp_pieces *c = p->c;

    for (uint32_t replicas = 1; replicas <= devices; replicas++)
        for (uint32_t to = c->n; to > from; to--) {
            const struct cell *rest = cell_of(p, to, devices - replicas);
            uint64_t state = c->state_bytes[to] - c->state_bytes[from], kept = c->kept_bytes[to] - c->kept_bytes[from];
            uint64_t under_way = (devices - 1) / replicas + 1; /* those behind it, by its replicas, and one */

            if (!rest->n || !dp_paper_fits(state, kept, under_way, p->ask->net->accel_bytes))
                continue;
            for (uint32_t i = 0; i < rest->n; i++) {
                struct tail t = put_before(p, rest->label[i].tail, from, to, replicas, rest->label[i].replicas);

                if (t.latency_s < below_s &&
                    insert(cell_of(p, from, devices), (struct label){.tail = t, .replicas = replicas, .to = to, .next = i}) < 0)
                    return -1;
            }
        }
    return 0;
}

/* The whole graph on so many devices, by this label. */
static void keep(const struct program *p, uint32_t devices, const struct label *label, struct dp_paper_best *best)
{
    uint32_t n = 0, used = devices;
    double latency_s = label->tail.latency_s, turn_s = label->tail.turn_s;

    for (; label->replicas; n++) {
        uint32_t to = label->to;

        p->end[n] = to;
        p->stage[n] = (struct dp_graph_stage){.machines = 1, .replicas = label->replicas};
        used -= label->replicas;
        label = &cell_of(p, to, used)->label[label->next];
    }
    dp_paper_keep(best, p->c, latency_s, p->end, p->stage, n);
    best->microbatch = 1;
    snprintf(best->how, sizeof best->how,
             "DAPPLE: %u microbatches take %.4g ms, of which the exchange of gradients at their end %.4g ms that nothing hides",
             p->ask->net->microbatches, latency_s * 1e3, (latency_s - turn_s) * 1e3);
}

static int search(const struct program *p, const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    struct label end = {.tail = nothing};

    if (insert(cell_of(p, p->c->n, 0), end) < 0)
        return -1;
    for (uint32_t from = p->c->n; from-- > 0;)
        for (uint32_t devices = 1; devices <= p->devices; devices++) {
            if (!dp_paper_go_on(ask, best))
                return 0;
            if (fill(p, from, devices, best->objective_s) < 0)
                return -1;
        }
    for (uint32_t devices = 1; devices <= p->devices; devices++) { /* the others are idle */
        const struct cell *cell = cell_of(p, 0, devices);

        for (uint32_t i = 0; i < cell->n; i++)
            if (cell->label[i].tail.latency_s < best->objective_s)
                keep(p, devices, &cell->label[i], best);
    }
    return 0;
}

int dp_paper_cut_dapple(const struct dp_pieces *c, const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    struct program p = {.c = c, .ask = ask, .devices = ask->net->devices[0], .steps = ask->net->microbatches - 1.0};
    size_t cells = ((size_t)c->n + 1) * (p.devices + 1);
    int rc = -1;

    p.cell = calloc(cells, sizeof *p.cell);
    p.end = calloc((size_t)best->room + 1, sizeof *p.end);
    p.stage = calloc((size_t)best->room + 1, sizeof *p.stage);
    if (p.cell && p.end && p.stage)
        rc = search(&p, ask, best);
    for (size_t i = 0; p.cell && i < cells; i++)
        free(p.cell[i].label);
    free(p.cell);
    free(p.end);
    free(p.stage);
    return rc;
}
