/* SPDX-License-Identifier: BSD-3-Clause */
/* See ways.h. Another way of the same run is a copy of the case with other events: same costs, other layouts. */
#include "policies/saving/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEST "time"

/* One stretch between two events. Every way has the same ones. */
struct stretch {
    uint64_t n, iteration_ns, pause_ns, measured_ns;
    uint32_t held, used;
};

struct stretches {
    struct stretch *at; /* [n] */
    uint32_t n, cap;
};

bool dp_sim_has_ways(const struct dp_sim_case *c)
{
    return !c->width;
}

static int take(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    struct stretches *s = arg;

    if (s->n == s->cap)
        return dp_err_set(err, DP_EINVAL, "more stretches than events");
    s->at[s->n++] = (struct stretch){p->n, p->out->iteration_ns, p->pause_ns, p->measured_ns, p->held, p->layout->n_used};
    return 0;
}

/* Does an event ask for another layout? A recorded run tells with each what is in force. */
static bool is_move(const struct dp_sim_case *c, uint32_t i)
{
    const struct dp_sim_event *e = &c->event[i];
    const uint32_t *before = i ? e[-1].count : c->count;
    uint32_t n = i ? e[-1].n_count : c->n_count;

    if (!e->count)
        return e->policy[0];
    return !before || n != e->n_count || memcmp(before, e->count, n * sizeof *before) != 0;
}

/* The costs of an event and, where it moves nothing, its pause. */
static struct dp_sim_event costs_of(const struct dp_sim_case *c, uint32_t i)
{
    struct dp_sim_event e = c->event[i];

    if (is_move(c, i))
        e.pause_ns = e.overhead_ns = 0;
    e.has_pause = true;
    e.count = NULL;
    e.n_count = 0;
    e.policy[0] = '\0';
    e.devices = 0;
    e.release = DP_SIM_RELEASE_NONE;
    return e;
}

/* The layout that the run starts with, to the end. What happens before the first iteration is part of the start. */
static void keep_layout(const struct dp_sim_case *c, struct dp_sim_case *way)
{
    way->n_events = c->n_events;
    for (uint32_t i = 0; i < c->n_events; i++) {
        way->event[i] = c->event[i].iteration == 1 ? c->event[i] : costs_of(c, i);
        way->event[i].release = DP_SIM_RELEASE_NONE;
    }
}

/* Is the run its own fixed way? */
static bool is_fixed(const struct dp_sim_case *c)
{
    for (uint32_t i = 0; i < c->n_events; i++)
        if (c->event[i].release != DP_SIM_RELEASE_NONE || (c->event[i].iteration > 1 && is_move(c, i)))
            return false;
    return true;
}

/* The best layout of the first n devices, by a policy, at every event, and before the first iteration. */
static void balance(const struct dp_sim_case *c, uint32_t n, const char *policy, struct dp_sim_case *way)
{
    bool has_start = c->n_events && c->event[0].iteration == 1;

    way->n_events = 0;
    if (!has_start)
        way->event[way->n_events++] = (struct dp_sim_event){.iteration = 1, .has_pause = true};
    for (uint32_t i = 0; i < c->n_events; i++)
        way->event[way->n_events++] = costs_of(c, i);
    for (uint32_t i = 0; i < way->n_events; i++)
        snprintf(way->event[i].policy, sizeof way->event[i].policy, "%s", policy);
    way->event[0].devices = n;
    way->event[0].release = n < c->devices ? DP_SIM_RELEASE_DEVICES : DP_SIM_RELEASE_NONE;
}

/* A copy that borrows everything but its events. */
static int copy_case(const struct dp_sim_case *c, struct dp_sim_case *way, struct dp_err *err)
{
    *way = *c;
    way->event = calloc(c->n_events + 1, sizeof *way->event);
    return way->event ? 0 : dp_err_set(err, DP_ENOMEM, "another way of a run of %u events: out of memory", c->n_events);
}

static int run(const struct dp_sim_case *c, struct stretches *s, struct dp_err *err)
{
    struct dp_sim_totals totals;

    s->n = 0;
    s->cap = c->n_events + 1;
    s->at = calloc(s->cap, sizeof *s->at);
    if (!s->at)
        return dp_err_set(err, DP_ENOMEM, "run of %u events: out of memory", c->n_events);
    return dp_sim_run(c, take, s, &totals, err);
}

static int as_before(const struct stretches *from, struct stretches *to, struct dp_err *err)
{
    *to = *from;
    to->at = malloc(from->cap * sizeof *to->at);
    if (!to->at)
        return dp_err_set(err, DP_ENOMEM, "run of %u stretches: out of memory", from->n);
    memcpy(to->at, from->at, from->n * sizeof *to->at);
    return 0;
}

static uint64_t best_of(const struct stretch *as_it_was, const struct stretch *fixed, const struct stretch *balanced)
{
    uint64_t best = balanced->iteration_ns < fixed->iteration_ns ? balanced->iteration_ns : fixed->iteration_ns;

    return as_it_was->held == fixed->held && as_it_was->iteration_ns < best ? as_it_was->iteration_ns : best;
}

/* Stretch i of all three ways; dense_s: a step of the first one, 0 for that one itself. */
static struct dp_saving_window window_of(const struct stretches *s, uint32_t i, double dense_s)
{
    const struct stretch *as_it_was = &s[DP_WAY_RUN].at[i], *fixed = &s[DP_WAY_FIXED].at[i];
    struct dp_saving_window w = {.steps = as_it_was->n,
                                 .besides_s = (double)fixed->pause_ns * 1e-9,
                                 .is_whole = as_it_was->used == fixed->used};

    w.pause_s = (double)as_it_was->pause_ns * 1e-9 - w.besides_s;
    w.step_s = (double)(as_it_was->measured_ns ? as_it_was->measured_ns : as_it_was->iteration_ns) * 1e-9;
    w.dense_s = i ? dense_s : w.step_s;
    w.predicted_s[DP_WAY_RUN] = (double)as_it_was->iteration_ns * 1e-9;
    w.predicted_s[DP_WAY_FIXED] = (double)fixed->iteration_ns * 1e-9;
    w.predicted_s[DP_WAY_BALANCED] = (double)best_of(as_it_was, fixed, &s[DP_WAY_BALANCED].at[i]) * 1e-9;
    return w;
}

static int add_up(const struct stretches *s /* [DP_N_WAYS] */, struct dp_saving *out, struct dp_err *err)
{
    uint32_t n = s[DP_WAY_RUN].n;
    struct dp_saving_held *held = calloc(n, sizeof *held);
    struct dp_saving_sums sums = {0};
    struct dp_saving_window w = {0};

    if (!held)
        return dp_err_set(err, DP_ENOMEM, "run of %u stretches: out of memory", n);
    for (uint32_t i = 0; i < n; i++) {
        held[i] = (struct dp_saving_held){sums.time_s[DP_WAY_RUN], s[DP_WAY_RUN].at[i].held};
        w = window_of(s, i, w.dense_s);
        dp_saving_add(&sums, &w);
    }
    held[0].devices = s[DP_WAY_FIXED].at[0].held; /* what is given back before the first step was held, too */
    dp_saving_close(&sums, held, n, out);
    for (int way = 0; way < DP_N_WAYS; way++)
        out->step_s[way] = dp_saving_step_s(&sums, &w, (enum dp_way)way);
    free(held);
    return 0;
}

static int run_fixed(const struct dp_sim_case *c, struct dp_sim_case *way, struct stretches *s, struct dp_err *err)
{
    if (is_fixed(c))
        return as_before(&s[DP_WAY_RUN], &s[DP_WAY_FIXED], err);
    keep_layout(c, way);
    return run(way, &s[DP_WAY_FIXED], err);
}

/* A policy that has no layout leaves the fixed one. */
static int run_balanced(const struct dp_sim_case *c, struct dp_sim_case *way, struct stretches *s, struct dp_err *err)
{
    struct dp_err none;

    balance(c, c->devices, BEST, way);
    if (run(way, &s[DP_WAY_BALANCED], &none) == 0)
        return 0;
    free(s[DP_WAY_BALANCED].at);
    return as_before(&s[DP_WAY_FIXED], &s[DP_WAY_BALANCED], err);
}

int dp_sim_saving(const struct dp_sim_case *c, struct dp_saving *out, struct dp_err *err)
{
    struct stretches s[DP_N_WAYS] = {{0}};
    struct dp_sim_case way;
    int rc = copy_case(c, &way, err);

    if (rc == 0)
        rc = run(c, &s[DP_WAY_RUN], err);
    if (rc == 0)
        rc = run_fixed(c, &way, s, err);
    if (rc == 0)
        rc = run_balanced(c, &way, s, err);
    if (rc == 0)
        rc = add_up(s, out, err);
    for (int i = 0; i < DP_N_WAYS; i++)
        free(s[i].at);
    free(way.event);
    return rc;
}

static int note_last(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    (void)err;
    *(uint64_t *)arg = p->out->iteration_ns;
    return 0;
}

int dp_sim_run_by(const struct dp_sim_case *c, uint32_t n, const char *policy, dp_sim_phase_fn on_phase, void *arg,
                  struct dp_sim_totals *out, struct dp_err *err)
{
    struct dp_sim_case way;
    int rc = copy_case(c, &way, err);

    if (rc == 0) {
        balance(c, n, policy, &way);
        rc = dp_sim_run(&way, on_phase, arg, out, err);
    }
    free(way.event);
    return rc;
}

int dp_sim_run_on(const struct dp_sim_case *c, uint32_t n, struct dp_sim_totals *out, uint64_t *last_ns, struct dp_err *err)
{
    return dp_sim_run_by(c, n, BEST, note_last, last_ns, out, err);
}

static void fill_row(const struct dp_sim_case *c, uint32_t n, struct dp_trade_row *row)
{
    struct dp_sim_totals totals;
    uint64_t last_ns = 0;
    struct dp_err err;

    row->devices = n * c->replicas;
    if (dp_sim_run_on(c, n, &totals, &last_ns, &err) < 0) {
        snprintf(row->why, sizeof row->why, "%.*s", (int)sizeof row->why - 1, err.text);
        return;
    }
    row->step_s = (double)last_ns * 1e-9;
    row->time_s = totals.time_s;
    row->device_s = totals.device_s;
}

void dp_sim_trade(const struct dp_sim_case *c, const struct dp_saving *saving, struct dp_trade *out)
{
    uint32_t devices[DP_TRADE_ROWS];

    memset(out, 0, sizeof *out);
    out->fixed_s = saving->time_s[DP_WAY_FIXED];
    out->fixed_device_s = saving->device_s[DP_WAY_FIXED];
    out->n = dp_trade_numbers(c->devices, devices);
    for (uint32_t i = 0; i < out->n; i++)
        fill_row(c, devices[i], &out->row[i]);
    dp_trade_mark(out);
}
