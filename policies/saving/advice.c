/* SPDX-License-Identifier: BSD-3-Clause */
/* See advice.h. */
#include "policies/saving/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEST "iteration"

struct collector {
    const struct dp_sim_case *c;
    struct dp_advice_part *part; /* [cap] */
    uint32_t n, cap;
};

static void release_parts(struct dp_advice_part *part, uint32_t n)
{
    for (uint32_t i = 0; i < n && part; i++)
        free(part[i].count);
    free(part);
}

void dp_advice_release(struct dp_advice *a)
{
    for (uint32_t i = 0; i < DP_TRADE_ROWS; i++)
        release_parts(a->row[i].part, a->n_parts);
    memset(a, 0, sizeof *a);
}

static int collect(void *arg, const struct dp_sim_phase *p, struct dp_err *err)
{
    struct collector *k = arg;
    struct dp_advice_part *part = &k->part[k->n];
    size_t all = (size_t)k->c->replicas * p->layout->n_used;

    if (k->n == k->cap)
        return dp_err_set(err, DP_EINVAL, "more stretches than events");
    *part = (struct dp_advice_part){.first = p->first, .n = p->n, .iteration_ns = p->out->iteration_ns, .pause_ns = p->pause_ns,
                                    .n_stages = p->layout->n_stages};
    for (size_t i = 0; i < all; i++)
        if (p->out->device[i].mem_bytes > part->mem_bytes)
            part->mem_bytes = p->out->device[i].mem_bytes;
    part->count = calloc(part->n_stages, sizeof *part->count);
    if (!part->count)
        return dp_err_set(err, DP_ENOMEM, "layout of %u stages: out of memory", part->n_stages);
    k->n++;
    for (uint32_t s = 0; s < part->n_stages; s++)
        part->count[s] = p->layout->cut[s + 1] - p->layout->cut[s];
    return 0;
}

/* The run on so many devices. Where there is none the trade's row says why. returns -1: out of memory. */
static int fill_row(const struct dp_sim_case *c, uint32_t devices, struct dp_advice *a, uint32_t i, struct dp_err *err)
{
    struct dp_trade_row *row = &a->trade.row[i];
    struct collector k = {.c = c, .cap = c->n_events + 1};
    struct dp_sim_totals totals;
    struct dp_err why;

    a->row[i].devices = devices;
    row->devices = devices * c->replicas;
    k.part = calloc(k.cap, sizeof *k.part);
    if (!k.part)
        return dp_err_set(err, DP_ENOMEM, "run of %u stretches: out of memory", k.cap);
    if (dp_sim_run_by(c, devices, BEST, collect, &k, &totals, &why) < 0) {
        release_parts(k.part, k.n);
        snprintf(row->why, sizeof row->why, "%.*s", (int)sizeof row->why - 1, why.text);
        return 0;
    }
    a->row[i].part = k.part;
    a->n_parts = k.n; /* the same for every number of devices: events do not depend on it */
    row->step_s = (double)k.part[k.n - 1].iteration_ns * 1e-9;
    row->time_s = totals.time_s;
    row->device_s = totals.device_s;
    return 0;
}

static void note_fast(const struct dp_advice *a, struct dp_advice_row *r)
{
    for (uint32_t p = 0; r->part && p < a->n_parts; p++) {
        if (r->part[p].iteration_ns > a->start_ns) {
            r->fast_from = 0;
            continue;
        }
        r->fast_from = r->fast_from ? r->fast_from : r->part[p].first;
        r->fast_iterations += r->part[p].n;
    }
}

/* The first row that is fast enough in a stretch: the last one is, or is all that there is. */
static uint32_t needed(const struct dp_advice *a, uint32_t p)
{
    uint32_t i = 0;

    while (i + 1 < a->trade.n && (!a->row[i].part || a->row[i].part[p].iteration_ns > a->start_ns))
        i++;
    return i;
}

/* From the last stretch to the first: what a later one needs must still be there. */
static void give_back(const struct dp_sim_case *c, struct dp_advice *a)
{
    uint32_t most = 0;

    for (uint32_t p = a->n_parts; p-- > 0;) {
        uint32_t need = p ? needed(a, p) : a->trade.n - 1;
        const struct dp_advice_part *part;
        double s;

        most = need > most ? need : most;
        part = &a->row[most].part[p];
        s = ((double)part->iteration_ns * (double)part->n + (double)part->pause_ns) * 1e-9;
        if (p + 1 == a->n_parts)
            a->last_devices = a->row[most].devices;
        a->time_s += s;
        a->device_s += s * a->row[most].devices * c->replicas;
    }
}

int dp_sim_advise(const struct dp_sim_case *c, const struct dp_saving *saving, struct dp_advice *out, struct dp_err *err)
{
    const struct dp_trade_row *within;
    uint32_t devices[DP_TRADE_ROWS];

    memset(out, 0, sizeof *out);
    if (c->n_events >= DP_ADVICE_PARTS)
        return dp_err_set(err, DP_EINVAL, "%u changes in the run; advice is given for at most %u", c->n_events, DP_ADVICE_PARTS - 1);
    out->trade.fixed_s = saving->time_s[DP_WAY_FIXED];
    out->trade.fixed_device_s = saving->device_s[DP_WAY_FIXED];
    out->trade.n = dp_trade_numbers(c->devices, devices);
    for (uint32_t i = 0; i < out->trade.n; i++)
        if (fill_row(c, devices[i], out, i, err) < 0)
            return -1;
    if (!out->row[out->trade.n - 1].part)
        return dp_err_set(err, DP_EINVAL, "no layout on all %u devices: %s", c->devices, out->trade.row[out->trade.n - 1].why);
    out->start_ns = out->row[out->trade.n - 1].part[0].iteration_ns;
    for (uint32_t i = 0; i < out->trade.n; i++)
        note_fast(out, &out->row[i]);
    give_back(c, out);
    dp_trade_mark(&out->trade);
    within = dp_trade_within(&out->trade, DP_TRADE_LATER);
    out->chosen = within ? (uint32_t)(within - out->trade.row) : out->trade.n;
    return 0;
}
