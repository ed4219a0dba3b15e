/* SPDX-License-Identifier: BSD-3-Clause */
/* What an observed run should begin again with: the layout that would be put in force if its mode, or its trainer, let layers move.
 * The same policies decide it. People see it in `dynpipe explain` as other programs take layouts; workers that cannot move layers hear
 * of it (PROPOSAL) when it changes and when they have said HELLO. It is taken back by proposing the layout in force.
 */
#include "daemon/coord/internal.h"

#include <stdlib.h>
#include <string.h>

#include "policies/saving/notation.h"

static bool is_same(const struct dp_layout *a, const struct dp_layout *b)
{
    return a->n_workers == b->n_workers && !memcmp(a->cut, b->cut, (a->n_workers + 1) * sizeof a->cut[0]) &&
           !memcmp(a->gone, b->gone, a->n_workers);
}

void coord_proposal_made(struct dp_coord *c, uint64_t now_ns, const struct coord_plan *t, const struct dp_layout *next)
{
    struct coord_proposal *p = &c->proposal;

    if (!p->number || !is_same(&p->layout, next)) {
        p->number++;
        p->since_ns = now_ns;
        p->layout = *next;
    }
    p->now_ns = t->basis_ns;
    p->then_ns = is_same(&c->layout, next) ? t->basis_ns : t->out.iteration_ns;
    p->first_block = t->first_block;
    p->end_block = t->end_block;
}

static void send_proposal(struct dp_coord *c, uint32_t rank)
{
    const struct coord_proposal *p = &c->proposal;
    struct dp_msg_proposal *m = calloc(1, sizeof *m);
    uint8_t body[8192];
    struct dp_writer w;

    if (!m)
        return; /* the next tick tries again */
    m->incarnation = c->life.incarnation;
    m->number = p->number;
    m->now_ns = (double)p->now_ns;
    m->then_ns = (double)p->then_ns;
    m->n_workers = p->layout.n_workers;
    m->n_layers = p->layout.n_layers;
    memcpy(m->cut, p->layout.cut, sizeof m->cut);
    memcpy(m->gone, p->layout.gone, sizeof m->gone);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_proposal_encode(&w, m);
    free(m);
    if (w.bad)
        return;
    c->worker[rank].told_proposal = p->number;
    c->ops.to_worker(c->arg, rank, DP_MSG_PROPOSAL, body, dp_writer_used(&w));
}

void coord_proposal_tick(struct dp_coord *c)
{
    if (!c->train.is_fixed || !c->proposal.number)
        return;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_is_live(c, r) && c->worker[r].is_connected && c->worker[r].told_proposal != c->proposal.number)
            send_proposal(c, r);
}

/* As other programs take it: stages of those who would train on. */
static json_t *notation_json(const struct coord_proposal *p)
{
    uint32_t count[DP_MAX_WORKERS];
    struct dp_notation n = {.count = count, .chunks = 1, .n_layers = p->layout.n_layers, .first = p->first_block, .end = p->end_block};

    for (uint32_t r = 0; r < p->layout.n_workers; r++)
        if (!p->layout.gone[r])
            count[n.n_stages++] = p->layout.cut[r + 1] - p->layout.cut[r];
    return dp_notation_json(&n);
}

json_t *coord_proposal_json(const struct dp_coord *c)
{
    const struct coord_proposal *p = &c->proposal;
    char text[8 * DP_MAX_WORKERS];
    json_t *o, *cuts;

    if (coord_mode(c) != DP_MODE_OBSERVE || !p->number || is_same(&p->layout, &c->layout))
        return json_null();
    o = notation_json(p);
    cuts = json_array();
    for (uint32_t r = 0; r <= p->layout.n_workers; r++)
        json_array_append_new(cuts, json_integer((json_int_t)p->layout.cut[r]));
    dp_layout_format(&p->layout, text, sizeof text);
    json_object_set_new(o, "text", json_string(text));
    json_object_set_new(o, "cuts", cuts);
    json_object_set_new(o, "workers", json_integer((json_int_t)dp_layout_members(&p->layout)));
    json_object_set_new(o, "since_s", json_real(coord_seconds(c, p->since_ns)));
    json_object_set_new(o, "now_ms", coord_ms(p->now_ns));
    json_object_set_new(o, "then_ms", coord_ms(p->then_ns));
    return o;
}
