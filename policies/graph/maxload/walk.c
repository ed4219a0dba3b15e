/* SPDX-License-Identifier: BSD-3-Clause */
/* See walk.h. */
#include "policies/graph/maxload/walk.h"

#include <stdlib.h>
#include <string.h>

#include "policies/graph/maxload/bound.h"

static void add_unit(struct dp_walk *w, uint32_t v)
{
    const struct dp_units *u = w->q->units;

    w->accel_ns += u->accel_ns[v];
    w->cpu_ns += u->cpu_ns[v];
    w->bytes += u->bytes[v];
    w->kept_bytes += u->kept_bytes[v];
    w->n_only_on_cpu += u->only_on_cpu[v];
    for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++) {
        uint32_t net = u->net_of[i], held = ++w->held[net];

        if (held == 1)
            w->traffic_ns += u->net_ns[net];
        else if (held == u->net_size[net])
            w->traffic_ns -= u->net_ns[net];
    }
}

static void remove_unit(struct dp_walk *w, uint32_t v)
{
    const struct dp_units *u = w->q->units;

    w->accel_ns -= u->accel_ns[v];
    w->cpu_ns -= u->cpu_ns[v];
    w->bytes -= u->bytes[v];
    w->kept_bytes -= u->kept_bytes[v];
    w->n_only_on_cpu -= u->only_on_cpu[v];
    for (uint32_t i = u->net_of_at[v]; i < u->net_of_at[v + 1]; i++) {
        uint32_t net = u->net_of[i], held = w->held[net]--;

        if (held == 1)
            w->traffic_ns -= u->net_ns[net];
        else if (held == u->net_size[net])
            w->traffic_ns += u->net_ns[net];
    }
}

bool dp_walk_accel_may(const struct dp_walk *w)
{
    return w->q->n_accel && w->accel_ns <= w->most_ns && w->bytes <= w->q->accel_bytes &&
           w->kept_bytes <= w->q->accel_bytes - w->bytes && !w->n_only_on_cpu;
}

uint32_t dp_walk_first_with_room(const struct dp_walk *w)
{
    uint64_t may_keep = w->q->accel_bytes - w->bytes;
    uint32_t n = w->q->n_accel;

    if (!w->kept_bytes || may_keep / w->kept_bytes >= n)
        return 1;
    return n + 1 - (uint32_t)(may_keep / w->kept_bytes);
}

static bool cpu_may(const struct dp_walk *w)
{
    return w->q->n_cpus && w->cpu_ns <= w->bound_ns;
}

uint64_t dp_walk_accel_load(const struct dp_walk *w, uint32_t k)
{
    uint64_t load = dp_plan_time_ns(w->accel_ns, w->q->speed ? w->q->speed[k - 1] : 1) + w->traffic_ns;

    return dp_walk_accel_may(w) && load <= w->bound_ns ? load : DP_WALK_NEVER;
}

uint64_t dp_walk_cpu_load(const struct dp_walk *w)
{
    return cpu_may(w) ? w->cpu_ns : DP_WALK_NEVER;
}

void dp_walk_begin(struct dp_walk *w, uint32_t from)
{
    if (++w->number == 0) { /* once in 2^32 walks */
        memset(w->seen, 0, w->q->ideals->n * sizeof *w->seen);
        w->number = 1;
    }
    w->depth = 0;
    w->next[0] = w->q->ideals->sub_at[from];
    w->path[0].id = from; /* overwritten by the first step */
    w->accel_ns = w->cpu_ns = w->bytes = w->kept_bytes = w->traffic_ns = 0;
    w->n_only_on_cpu = 0;
}

uint32_t dp_walk_next(struct dp_walk *w, uint32_t from)
{
    const struct dp_ideals *d = w->q->ideals;

    for (;;) {
        uint32_t at = w->depth ? w->path[w->depth - 1].id : from;

        while (w->next[w->depth] < d->sub_at[at + 1]) {
            struct dp_ideal_step s = d->sub[w->next[w->depth]++];

            if (w->seen[s.id] == w->number)
                continue;
            w->seen[s.id] = w->number;
            w->steps++;
            add_unit(w, s.unit);
            if (!dp_walk_accel_may(w) && !cpu_may(w)) {
                remove_unit(w, s.unit);
                continue;
            }
            w->path[w->depth++] = s;
            w->next[w->depth] = d->sub_at[s.id];
            return s.id;
        }
        if (w->depth == 0)
            return UINT32_MAX;
        remove_unit(w, w->path[--w->depth].unit);
    }
}

void dp_walk_leave(struct dp_walk *w)
{
    while (w->depth)
        remove_unit(w, w->path[--w->depth].unit);
}

/* Accelerators that so much work needs, when `cpus` CPUs help. */
static uint32_t least_accel(const struct dp_walk *w, uint64_t work_ns, uint32_t cpus)
{
    uint64_t left = work_ns > w->spared_ns[cpus] ? work_ns - w->spared_ns[cpus] : 0, n;

    if (left == 0)
        return 0;
    n = w->most_ns ? (left - 1) / w->most_ns + 1 : UINT32_MAX;
    return n < w->q->n_accel + 1 ? (uint32_t)n : w->q->n_accel + 1;
}

struct dp_walk_window dp_walk_window_at(const struct dp_walk *w, uint32_t ideal, uint32_t cpus)
{
    uint64_t all = w->work_ns[w->q->ideals->n - 1], own = w->work_ns[ideal];
    uint32_t rest = least_accel(w, all - own, w->q->n_cpus - cpus);

    if (rest > w->q->n_accel)
        return (struct dp_walk_window){1, 0};
    return (struct dp_walk_window){least_accel(w, own, cpus), w->q->n_accel - rest};
}

/* ---- around it ---- */

static void sum_work(struct dp_walk *w)
{
    const struct dp_maxload *q = w->q;

    for (uint32_t i = 1; i < q->ideals->n; i++) {
        struct dp_ideal_step s = q->ideals->sub[q->ideals->sub_at[i]];

        w->work_ns[i] = w->work_ns[s.id] + (q->units->only_on_cpu[s.unit] ? 0 : q->units->accel_ns[s.unit]);
    }
}

int dp_walk_create(struct dp_walk *w, const struct dp_maxload *q)
{
    size_t units = (size_t)q->units->n + 1;

    *w = (struct dp_walk){.q = q,
                          .seen = calloc(q->ideals->n, sizeof *w->seen),
                          .held = calloc((size_t)q->units->n_nets + 1, sizeof *w->held),
                          .path = calloc(units, sizeof *w->path),
                          .next = calloc(units, sizeof *w->next),
                          .work_ns = calloc(q->ideals->n, sizeof *w->work_ns),
                          .spared_ns = calloc((size_t)q->n_cpus + 1, sizeof *w->spared_ns)};
    if (!w->seen || !w->held || !w->path || !w->next || !w->work_ns || !w->spared_ns)
        return -1;
    sum_work(w);
    return dp_walk_limit(w, q->bound_ns);
}

void dp_walk_release(struct dp_walk *w)
{
    free(w->seen);
    free(w->held);
    free(w->path);
    free(w->next);
    free(w->work_ns);
    free(w->spared_ns);
}

int dp_walk_limit(struct dp_walk *w, uint64_t bound_ns)
{
    const struct dp_maxload *q = w->q;
    double fastest = 0;

    w->bound_ns = w->most_ns = bound_ns;
    for (uint32_t k = 0; q->speed && k < q->n_accel; k++)
        fastest = q->speed[k] > fastest ? q->speed[k] : fastest;
    if (fastest > 0) {
        double most = (double)bound_ns * fastest * (1 + 1e-9) + 2;

        w->most_ns = most < 1e19 ? (uint64_t)most : UINT64_MAX;
    }
    for (uint32_t c = 0; c <= q->n_cpus; c++) {
        uint64_t time;

        if (__builtin_mul_overflow(bound_ns, (uint64_t)c, &time))
            time = UINT64_MAX;
        if (dp_bound_cpus_take(q->units, time, &w->spared_ns[c], NULL) < 0)
            return -1;
    }
    return 0;
}
