/* SPDX-License-Identifier: BSD-3-Clause */
/* What the trainer of a run expects of its layers at later steps (EXPECT): kept by step, looked at in the child of plan.c. A wrong one
 * costs its own run a wrong decision, and nobody more than a bounded piece of memory: a load for each layer and each of
 * DP_EXPECTED_MAX steps.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void drop(struct dp_coord *c, uint32_t i)
{
    free(c->expect.at[i]);
    c->expect.n--;
    memmove(&c->expect.at[i], &c->expect.at[i + 1], (c->expect.n - i) * sizeof c->expect.at[0]);
}

void coord_expect_forget(struct dp_coord *c)
{
    while (c->expect.n)
        drop(c, c->expect.n - 1);
}

/* Where a step is, or belongs. */
static uint32_t place_of(const struct dp_coord *c, uint64_t step)
{
    uint32_t i = 0;

    while (i < c->expect.n && c->expect.at[i]->step < step)
        i++;
    return i;
}

static struct coord_expected *make(uint64_t step, uint32_t n_layers)
{
    struct coord_expected *e = calloc(1, sizeof *e + n_layers * (sizeof e->load[0] + 1));

    if (e) {
        e->step = step;
        e->is_said = (uint8_t *)&e->load[n_layers];
    }
    return e;
}

/* The entry of a step, made where there is none. What has come already makes room. NULL: there is no room. */
static struct coord_expected *entry(struct dp_coord *c, uint64_t step)
{
    uint32_t i = place_of(c, step);
    struct coord_expected *e;

    if (i < c->expect.n && c->expect.at[i]->step == step)
        return c->expect.at[i];
    if (c->expect.n == DP_EXPECTED_MAX && c->expect.at[0]->step > c->train.step)
        return NULL;
    e = make(step, c->train.n_layers);
    if (!e)
        return NULL;
    if (c->expect.n == DP_EXPECTED_MAX) {
        drop(c, 0);
        i -= i > 0;
    }
    memmove(&c->expect.at[i + 1], &c->expect.at[i], (c->expect.n - i) * sizeof c->expect.at[0]);
    c->expect.at[i] = e;
    c->expect.n++;
    return e;
}

static const char *what_is_wrong(const struct dp_coord *c, const struct dp_msg_expect *m)
{
    if (!c->train.has_shape || m->rank >= c->train.n_workers || !c->worker[m->rank].is_known)
        return "unknown worker";
    if (m->step > c->train.steps_total)
        return "expects something beyond the end";
    if (m->first_layer > c->train.n_layers || m->n_layers > c->train.n_layers - m->first_layer)
        return "expects something of layers that there are not";
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const char *why = coord_load_why_not(&m->layer[i], c->layer[m->first_layer + i].load.params);

        if (why)
            return why;
    }
    return NULL;
}

static uint64_t load_ns(const struct dp_layer_load *l)
{
    return l->fwd_ns + l->bwd_input_ns + l->bwd_weight_ns;
}

static void put(struct coord_expected *e, uint32_t layer, const struct dp_layer_load *load)
{
    if (e->is_said[layer])
        e->said_ns -= load_ns(&e->load[layer]);
    e->n_said += !e->is_said[layer];
    e->is_said[layer] = 1;
    e->load[layer] = *load;
    e->said_ns += load_ns(load);
}

void dp_coord_expect(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_expect *m)
{
    const char *wrong = what_is_wrong(c, m);
    struct coord_expected *e = NULL;

    (void)now_ns;
    if (!wrong && m->n_layers && !(e = entry(c, m->step)))
        wrong = "expects something of too many steps, or there is no memory";
    if (wrong) {
        c->reports.n_ignored++;
        snprintf(c->reports.dropped_why, sizeof c->reports.dropped_why, "worker %u: %s", m->rank, wrong);
        return;
    }
    for (uint32_t i = 0; i < m->n_layers; i++)
        put(e, m->first_layer + i, &m->layer[i]);
    if (!m->n_layers) {
        uint32_t i = place_of(c, m->step);

        if (i < c->expect.n && c->expect.at[i]->step == m->step)
            drop(c, i);
    }
}

uint64_t coord_expect_first(const struct dp_coord *c)
{
    for (uint32_t i = 0; i < c->expect.n; i++)
        if (c->expect.at[i]->step > 0)
            return c->expect.at[i]->step;
    return UINT64_MAX;
}

uint32_t coord_expect_to_come(const struct dp_coord *c, struct dp_expected *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->expect.n; i++)
        if (c->expect.at[i]->step > c->train.step)
            out[n++] = (struct dp_expected){c->expect.at[i]->step, c->expect.at[i]->is_said, c->expect.at[i]->load};
    return n;
}

json_t *coord_expect_json(const struct dp_coord *c)
{
    json_t *a = json_array();

    for (uint32_t i = 0; i < c->expect.n; i++)
        if (c->expect.at[i]->step > c->train.step)
            json_array_append_new(a, json_pack("{s:I,s:I,s:f}", "step", (json_int_t)c->expect.at[i]->step, "layers",
                                               (json_int_t)c->expect.at[i]->n_said, "microbatch_ms",
                                               (double)c->expect.at[i]->said_ns / 1e6));
    return a;
}
