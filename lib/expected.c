/* SPDX-License-Identifier: BSD-3-Clause */
/* See expected.h. Entries are few and looked for one by one; the oldest word on a step is in front. */
#include "lib/expected.h"

#include <stdlib.h>
#include <string.h>

/* Of a layer: was its cost said, and has this connection had it? */
enum known { UNSAID = 0, SAID = 1, DUE = 2 };

struct entry {
    uint64_t step;
    bool was_cleared, is_clear_due; /* the step was taken back once: say so before what was said since */
    uint8_t *known;                 /* [n_layers] enum known */
    struct dp_layer_load *load;     /* [n_layers] */
};

struct dp_expected {
    uint32_t n_layers, n;
    struct entry entry[DP_EXPECTED_STEPS];
};

struct dp_expected *dp_expected_create(uint32_t n_layers, struct dp_err *err)
{
    struct dp_expected *e = calloc(1, sizeof *e);

    if (!e) {
        dp_err_set(err, DP_ENOMEM, "expected costs: out of memory");
        return NULL;
    }
    e->n_layers = n_layers;
    return e;
}

static void drop(struct dp_expected *e, uint32_t i)
{
    free(e->entry[i].known);
    free(e->entry[i].load);
    e->n--;
    memmove(e->entry + i, e->entry + i + 1, (e->n - i) * sizeof e->entry[0]);
}

void dp_expected_destroy(struct dp_expected *e)
{
    if (!e)
        return;
    while (e->n)
        drop(e, e->n - 1);
    free(e);
}

static struct entry *find(struct dp_expected *e, uint64_t step)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->entry[i].step == step)
            return &e->entry[i];
    return NULL;
}

static bool says_nothing(const struct dp_expected *e, const struct entry *t)
{
    return !t->is_clear_due && !memchr(t->known, SAID, e->n_layers) && !memchr(t->known, DUE, e->n_layers);
}

/* A step that was taken back, and the daemon has heard it, makes room. */
static void make_room(struct dp_expected *e)
{
    for (uint32_t i = 0; i < e->n && e->n == DP_EXPECTED_STEPS; i++)
        if (says_nothing(e, &e->entry[i]))
            drop(e, i);
}

static struct entry *add(struct dp_expected *e, uint64_t step, struct dp_err *err)
{
    struct entry t = {.step = step};

    make_room(e);
    if (e->n == DP_EXPECTED_STEPS) {
        dp_err_set(err, DP_EINVAL, "costs are expected from %u steps on already; allowed: %u", e->n, DP_EXPECTED_STEPS);
        return NULL;
    }
    t.known = calloc(e->n_layers + 1, sizeof *t.known);
    t.load = calloc(e->n_layers + 1, sizeof *t.load);
    if (!t.known || !t.load) {
        free(t.known);
        free(t.load);
        dp_err_set(err, DP_ENOMEM, "expected costs: out of memory");
        return NULL;
    }
    e->entry[e->n] = t;
    return &e->entry[e->n++];
}

int dp_expected_set(struct dp_expected *e, uint64_t step, uint32_t first, const struct dp_layer_load *load, uint32_t n,
                    struct dp_err *err)
{
    struct entry *t = find(e, step);

    if (first > e->n_layers || n > e->n_layers - first)
        return dp_err_set(err, DP_EINVAL, "costs of layers %u to %u; the model has %u", first, first + n - 1, e->n_layers);
    if (!t && !n)
        return 0;
    if (!t && !(t = add(e, step, err)))
        return -1;
    if (!n) {
        memset(t->known, UNSAID, e->n_layers);
        t->was_cleared = t->is_clear_due = true;
        return 0;
    }
    memcpy(t->load + first, load, n * sizeof *load);
    memset(t->known + first, DUE, n);
    return 0;
}

void dp_expected_pass(struct dp_expected *e, uint64_t step)
{
    for (uint32_t i = e->n; i-- > 0;)
        if (e->entry[i].step < step)
            drop(e, i);
}

void dp_expected_restart(struct dp_expected *e)
{
    for (uint32_t i = 0; i < e->n; i++) {
        struct entry *t = &e->entry[i];

        t->is_clear_due = t->was_cleared;
        for (uint32_t k = 0; k < e->n_layers; k++)
            t->known[k] = t->known[k] == UNSAID ? UNSAID : DUE;
    }
}

bool dp_expected_due(const struct dp_expected *e, struct dp_msg_expect *m)
{
    for (uint32_t i = 0; i < e->n; i++) {
        const struct entry *t = &e->entry[i];
        const uint8_t *due = memchr(t->known, DUE, e->n_layers);

        m->step = t->step;
        m->first_layer = m->n_layers = 0;
        if (t->is_clear_due)
            return true;
        if (!due)
            continue;
        m->first_layer = (uint32_t)(due - t->known);
        while (m->first_layer + m->n_layers < e->n_layers && due[m->n_layers] == DUE)
            m->n_layers++;
        memcpy(m->layer, t->load + m->first_layer, m->n_layers * sizeof m->layer[0]);
        return true;
    }
    return false;
}

void dp_expected_sent(struct dp_expected *e, const struct dp_msg_expect *m)
{
    struct entry *t = find(e, m->step);

    if (!t)
        return;
    if (!m->n_layers)
        t->is_clear_due = false;
    else
        memset(t->known + m->first_layer, SAID, m->n_layers);
}
