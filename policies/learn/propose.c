/* SPDX-License-Identifier: BSD-3-Clause */
/* See propose.h. */
#include "policies/learn/propose.h"

#include <stdlib.h>

#include "policies/graph/search/draw.h"

/* What a network takes, in looks of a rule at a ready unit (some 30 ns of a core): searches by rules and by networks
 * end after as many steps, and should take as long. Measured on published graphs of 37 to 919 units. */
#define STEPS_PER_LOOK 8u
#define STEPS_PER_CHOICE 28u /* of a unit: its memory */
#define STEPS_PER_CODE 48u /* of a unit: its encoder, once for each network */

struct proposals {
    const struct dp_weights *weights;
    struct dp_net_graph graph;
    struct dp_net_code code[DP_WEIGHTS_MOST]; /* of each network that was asked; x NULL: was not */
};

static void end(void *walk)
{
    struct proposals *p = walk;

    for (uint32_t i = 0; p && i < DP_WEIGHTS_MOST; i++)
        dp_net_code_release(&p->code[i]);
    if (p)
        dp_net_graph_release(&p->graph);
    free(p);
}

static int begin(const void *arg, const struct dp_units *units, uint32_t n_devices, void **walk, struct dp_err *err)
{
    struct proposals *p = calloc(1, sizeof *p);

    if (!p)
        return dp_err_set(err, DP_ENOMEM, "orders of networks: out of memory");
    p->weights = arg;
    if (dp_net_graph_create(&p->graph, units, n_devices, err) < 0) {
        end(p);
        return -1;
    }
    *walk = p;
    return 0;
}

static int propose(void *walk, uint64_t seed, uint64_t number, uint64_t max_steps, uint32_t *order, uint64_t *steps, struct dp_err *err)
{
    struct proposals *p = walk;
    uint32_t n = p->weights->n, which = (uint32_t)(number % n);
    const struct dp_net *net = &p->weights->net[which];
    uint64_t draws = dp_draw_stream(seed, number), looks = 0, fixed = (uint64_t)p->graph.facts.units->n * STEPS_PER_CHOICE;
    struct dp_net_walk ask = {.is_drawn = number >= n};
    int rc;

    ask.key_seed = dp_draw(&draws);
    ask.draw_seed = dp_draw(&draws);
    if (!p->code[which].x) {
        fixed += (uint64_t)p->graph.facts.units->n * STEPS_PER_CODE;
        if (dp_net_encode(&p->code[which], net, &p->graph, err) < 0)
            return -1;
    }
    ask.max_steps = max_steps < fixed ? 0 : (max_steps - fixed) / STEPS_PER_LOOK;
    rc = dp_net_order(net, &p->graph, &p->code[which], &ask, order, &looks, err);
    *steps += fixed + looks * STEPS_PER_LOOK;
    return rc;
}

struct dp_order_source dp_weights_source(const struct dp_weights *w)
{
    return (struct dp_order_source){.n = w->n, .begin = begin, .order = propose, .end = end, .arg = w};
}
