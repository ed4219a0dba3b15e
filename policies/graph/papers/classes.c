/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans for devices of several classes; classes/classes.h has the objective. From the end of the pipeline to its front:
 * least[from][state][before][kind] is the least time of the slowest of the stages that hold the pieces from there on, on just the
 * devices of the state, when the stage before them is of class `before` and the first of them is of the same class (kind SAME) or of
 * another (OTHER). So both ends of a transfer know what passes between them: a stage that is tried knows the class behind it by the
 * kind that it asks for, and the class before it by the kind that it is asked for.
 *
 * What cannot be part of a plan below the best one of other orders is left out: too much compute for the devices on either side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "policies/graph/papers/paper.h"

#define MOST_WORK 1e9   /* of the innermost loop, before anything is left out: seconds */
#define MOST_CELLS 2e7  /* of a table */
#define MOST_PIECES 512u   /* of an order */
#define FEWEST_PIECES 32u  /* a plan by fewer is not worth having */

enum kind { SAME, OTHER, N_KINDS };

struct program {
    const struct dp_pieces *c;
    const struct dp_classes *classes;
    const struct dp_paper_ask *ask;
    uint32_t n_states, stride[DP_CLASSES_MOST + 1]; /* a state: the sum of devices of each class times its stride */
    double all_speed, below_s;
    double *least; /* [n + 1][n_states][classes][N_KINDS] */
    uint32_t *end; /* [room] of the answer, and its stages */
    struct dp_graph_stage *stage;
};

/* A stage on replicas of a class, and which table cell it leaves. */
struct choice {
    uint32_t class, replicas, to;
    enum kind behind; /* kind of the stage behind it; where there is one */
};

static double count_states(const struct dp_classes *c)
{
    double n = 1;

    for (uint32_t i = 0; i < c->n; i++)
        n *= c->of[i].devices + 1.0;
    return n;
}

uint32_t dp_paper_pieces_of_classes(const struct dp_classes *c, bool is_straight)
{
    double states = count_states(c), stages = 0; /* choices of a class and of replicas, in the mean over the states */

    for (uint32_t i = 0; i < c->n; i++)
        stages += is_straight ? 1 : c->of[i].devices / 2.0;
    for (uint32_t n = MOST_PIECES; n >= FEWEST_PIECES; n /= 2)
        if (states * stages * N_KINDS * n * n / 2 <= MOST_WORK && states * c->n * N_KINDS * (n + 1) <= MOST_CELLS)
            return n;
    return 0;
}

static double *least_of(const struct program *t, uint32_t from, uint32_t state, uint32_t before, enum kind kind)
{
    return &t->least[(((size_t)from * t->n_states + state) * t->classes->n + before) * N_KINDS + kind];
}

/* Devices of a class in a state, and of all of them. */
static uint32_t devices_of(const struct program *t, uint32_t state, uint32_t class)
{
    return state % t->stride[class + 1] / t->stride[class];
}

static uint32_t all_devices_of(const struct program *t, uint32_t state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->classes->n; i++)
        n += devices_of(t, state, i);
    return n;
}

static double speed_of(const struct program *t, uint32_t state)
{
    double speed = 0;

    for (uint32_t i = 0; i < t->classes->n; i++)
        speed += devices_of(t, state, i) * t->classes->of[i].speed;
    return speed;
}

static double stage_s(const struct program *t, const struct choice *s, uint32_t from)
{
    const struct dp_device_class *d = &t->classes->of[s->class];
    const struct dp_plan_hierarchical own = {
        .n_levels = 1, .bytes_per_s = {d->bytes_per_s}, .microbatches = t->ask->net->microbatches};
    double compute = (double)(t->c->compute_ns[s->to] - t->c->compute_ns[from]) / 1e9 / d->speed;
    double params = (double)(t->c->param_bytes[s->to] - t->c->param_bytes[from]);

    return (compute + dp_plan_sync_s(&own, 0, params, s->replicas, false)) / s->replicas;
}

/* What crosses a cut, on the links of a stage's devices, to a stage of the same or another class. */
static double transfer_s(const struct program *t, const struct choice *s, uint32_t cut, enum kind kind)
{
    double link = t->classes->of[s->class].bytes_per_s;

    if (kind == OTHER)
        link = fmin(link, t->classes->between_bytes_per_s);
    return (double)t->c->cross_bytes[cut] / (link * s->replicas);
}

static bool has_room(const struct program *t, const struct choice *s, uint32_t from, uint32_t behind)
{
    uint64_t state = t->c->state_bytes[s->to] - t->c->state_bytes[from], kept = t->c->kept_bytes[s->to] - t->c->kept_bytes[from];

    return dp_paper_fits(state, kept, ((uint64_t)behind + s->replicas - 1) / s->replicas + 1, t->classes->of[s->class].accel_bytes);
}

/* Where a stage of s->class and s->replicas that begins at `from` should end, with `rest` behind it: sets the rest of *s.
 * returns: the time of the slowest stage from there on, but for what comes in; below_s: there is no way below that. */
static double end_stage(const struct program *t, struct choice *s, uint32_t from, uint32_t rest)
{
    uint32_t behind = all_devices_of(t, rest);
    double best = t->below_s;
    struct choice one = *s;

    for (one.to = from + 1; one.to <= t->c->n; one.to++) {
        double own = stage_s(t, &one, from);

        if (!(own < best) || !has_room(t, &one, from, behind)) /* a longer one takes longer, and needs more */
            break;
        if (one.to == t->c->n) {
            if (rest == 0) {
                best = own;
                *s = one;
            }
            break;
        }
        for (int k = SAME; k < N_KINDS; k++) {
            double later = *least_of(t, one.to, rest, one.class, (enum kind)k), time;

            one.behind = (enum kind)k;
            if (!(later < best))
                continue;
            time = fmax(fmax(own, later), transfer_s(t, &one, one.to, one.behind));
            if (time < best) {
                best = time;
                *s = one;
            }
        }
    }
    return best;
}

/* Can the devices of a state hold what lies behind `from`, and the others what lies before it, below below_s? */
static bool may_be(const struct program *t, uint32_t from, uint32_t state)
{
    double before = (double)t->c->compute_ns[from] / 1e9, behind = (double)t->c->compute_ns[t->c->n] / 1e9 - before;
    double speed = speed_of(t, state), room = 1 + 1e-12; /* for what doubles round */

    if (t->below_s == INFINITY)
        return true;
    return behind <= t->below_s * speed * room && before <= t->below_s * (t->all_speed - speed) * room + 1e-12;
}

/* The best stages of one class that begin at `from`, by the kind of what is before them. */
static void solve_class(struct program *t, uint32_t from, uint32_t state, uint32_t class, double best[N_KINDS])
{
    uint32_t most = devices_of(t, state, class);

    if (t->ask->net->is_straight && most > 1)
        most = 1;
    best[SAME] = best[OTHER] = INFINITY;
    for (uint32_t r = 1; r <= most; r++) {
        struct choice s = {.class = class, .replicas = r};
        double time = end_stage(t, &s, from, state - r * t->stride[class]);

        for (int k = SAME; k < N_KINDS && time < t->below_s; k++)
            best[k] = fmin(best[k], fmax(time, from ? transfer_s(t, &s, from, (enum kind)k) : 0));
    }
}

static void solve_state(struct program *t, uint32_t from, uint32_t state)
{
    uint32_t n = t->classes->n;

    for (uint32_t before = 0; before < n; before++)
        *least_of(t, from, state, before, SAME) = *least_of(t, from, state, before, OTHER) = INFINITY;
    if (!may_be(t, from, state))
        return;
    for (uint32_t class = 0; class < n; class++) {
        double best[N_KINDS];

        solve_class(t, from, state, class, best);
        for (uint32_t before = 0; before < n; before++) {
            double *cell = least_of(t, from, state, before, before == class ? SAME : OTHER);

            *cell = fmin(*cell, best[before == class ? SAME : OTHER]);
        }
    }
}

/* The stage at `from` that the table's time comes from. returns: false: there is none, which cannot be. */
static bool find_stage(const struct program *t, uint32_t from, uint32_t state, uint32_t before, enum kind kind, struct choice *out)
{
    double wanted = *least_of(t, from, state, before, kind);

    for (uint32_t class = 0; class < t->classes->n; class++)
        for (uint32_t r = 1; r <= devices_of(t, state, class) && (r == 1 || !t->ask->net->is_straight); r++) {
            struct choice s = {.class = class, .replicas = r};
            double time;

            if (from && (class == before) != (kind == SAME))
                continue;
            time = end_stage(t, &s, from, state - r * t->stride[class]);
            if (time < t->below_s && fmax(time, from ? transfer_s(t, &s, from, kind) : 0) == wanted) {
                *out = s;
                return true;
            }
        }
    return false;
}

static int keep(struct program *t, uint32_t state, uint32_t before, enum kind kind, struct dp_paper_best *best)
{
    double objective_s = *least_of(t, 0, state, before, kind);
    uint32_t n = 0;

    for (uint32_t from = 0; from < t->c->n;) {
        struct choice s;

        if (n == best->room || !find_stage(t, from, state, before, kind, &s))
            return -1;
        t->end[n] = s.to;
        t->stage[n++] = (struct dp_graph_stage){.machines = 1, .replicas = s.replicas, .device_class = s.class};
        state -= s.replicas * t->stride[s.class];
        before = s.class;
        kind = s.behind;
        from = s.to;
    }
    dp_paper_keep(best, t->c, objective_s, t->end, t->stage, n);
    best->microbatch = 1;
    snprintf(best->how, sizeof best->how, "%u classes of devices, cuts of %u pieces", t->classes->n, t->c->n);
    return 0;
}

/* Of all states, since devices may stay idle. */
static int keep_best(struct program *t, struct dp_paper_best *best)
{
    uint32_t at = 0, class = 0;
    enum kind kind = SAME;

    for (uint32_t state = 0; state < t->n_states; state++)
        for (uint32_t before = 0; before < t->classes->n; before++)
            for (int k = SAME; k < N_KINDS; k++)
                if (*least_of(t, 0, state, before, (enum kind)k) < *least_of(t, 0, at, class, kind)) {
                    at = state;
                    class = before;
                    kind = (enum kind)k;
                }
    return *least_of(t, 0, at, class, kind) < t->below_s ? keep(t, at, class, kind, best) : 0;
}

static int create(struct program *t, uint32_t room)
{
    t->stride[0] = 1;
    for (uint32_t i = 0; i < t->classes->n; i++)
        t->stride[i + 1] = t->stride[i] * (t->classes->of[i].devices + 1);
    t->n_states = t->stride[t->classes->n];
    t->all_speed = dp_classes_speed(t->classes);
    t->least = malloc(((size_t)t->c->n + 1) * t->n_states * t->classes->n * N_KINDS * sizeof *t->least);
    t->end = calloc((size_t)room + 1, sizeof *t->end);
    t->stage = calloc((size_t)room + 1, sizeof *t->stage);
    return t->least && t->end && t->stage ? 0 : -1;
}

int dp_paper_cut_classes(const struct dp_pieces *c, const struct dp_paper_ask *ask, struct dp_paper_best *best)
{
    struct program t = {.c = c, .classes = ask->classes, .ask = ask, .below_s = best->objective_s};
    int rc = create(&t, best->room);

    for (uint32_t from = c->n; rc == 0 && from-- > 0 && dp_paper_go_on(ask, best);)
        for (uint32_t state = 0; state < t.n_states; state++)
            solve_state(&t, from, state);
    if (rc == 0 && !best->was_ended)
        rc = keep_best(&t, best);
    free(t.least);
    free(t.end);
    free(t.stage);
    return rc;
}
