/* SPDX-License-Identifier: BSD-3-Clause */
/* See place.h. */
#include "policies/learn/place.h"

#include <stdlib.h>

#include "policies/graph/search/draw.h"

#define STEPS_PER_UNIT 40u /* a unit's placement, in looks of a rule (propose.c): some 1.2 us of a core, the pipeline included */
#define STEPS_PER_CODE 40u /* of a unit: its encoder, once */

struct placements {
    const struct dp_cutter *cutter;
    struct dp_net_graph graph;
    struct dp_cutter_code code;
    struct dp_cutter_tape tape;
    bool is_encoded; /* and its steps are told */
};

static void end(void *walk)
{
    struct placements *p = walk;

    if (!p)
        return;
    dp_cutter_tape_release(&p->tape);
    dp_cutter_code_release(&p->code);
    dp_net_graph_release(&p->graph);
    free(p);
}

static int begin(const void *arg, const struct dp_units *units, uint32_t n_devices, void **walk, struct dp_err *err)
{
    struct placements *p = calloc(1, sizeof *p);

    if (!p)
        return dp_err_set(err, DP_ENOMEM, "placements by a network: out of memory");
    p->cutter = ((const struct dp_weights *)arg)->cutter;
    if (dp_net_graph_create(&p->graph, units, n_devices, err) < 0 || dp_cutter_encode(&p->code, p->cutter, &p->graph, err) < 0 ||
        dp_cutter_tape_create(&p->tape, units->n, n_devices, err) < 0) {
        end(p);
        return -1;
    }
    *walk = p;
    return 0;
}

static int place(void *walk, uint64_t seed, uint64_t number, uint32_t *device, uint64_t *steps, struct dp_err *err)
{
    struct placements *p = walk;

    (void)err;
    dp_cutter_place(p->cutter, &p->graph, &p->code, number ? DP_CUTTER_DRAWN : DP_CUTTER_BEST, dp_draw_stream(seed, number), &p->tape);
    dp_cutter_devices(&p->tape, device);
    *steps += (uint64_t)p->code.n * (p->is_encoded ? STEPS_PER_UNIT : STEPS_PER_UNIT + STEPS_PER_CODE);
    p->is_encoded = true;
    return 0;
}

struct dp_place_source dp_weights_placer(const struct dp_weights *w)
{
    return (struct dp_place_source){.most_devices = DP_CUTTER_PARTS, .begin = begin, .place = place, .end = end, .arg = w};
}
