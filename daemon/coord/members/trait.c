/* SPDX-License-Identifier: BSD-3-Clause */
/* What the trainer of a run can: move layers, leave early, promise that its blocks cost alike. Our own worker can all three; of others
 * nothing is taken for granted (doc/protocol.md, "Trainers"). Each worker says it in its HELLO, and again after a restart.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>

void coord_trait_take(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_hello *m)
{
    bool was_observed = coord_why_observed(c) != NULL;

    c->worker[m->rank].stays = m->stays;
    c->train.blocks_differ |= m->blocks_differ != 0;
    c->train.is_fixed |= m->is_fixed != 0;
    if (!c->train.trainer[0])
        snprintf(c->train.trainer, sizeof c->train.trainer, "%s", m->trainer);
    if (!was_observed && coord_why_observed(c))
        coord_note(c, now_ns, "observed: %s", coord_why_observed(c));
}

const char *coord_why_observed(const struct dp_coord *c)
{
    return c->train.is_fixed && c->limits.mode > DP_MODE_OBSERVE ? "its trainer cannot move layers" : NULL;
}

enum dp_mode coord_mode(const struct dp_coord *c)
{
    return coord_why_observed(c) ? DP_MODE_OBSERVE : (enum dp_mode)c->limits.mode;
}

uint8_t coord_copies(const struct dp_coord *c)
{
    return coord_mode(c) >= DP_MODE_BALANCE ? (uint8_t)c->limits.copies : 0;
}

bool coord_slot_stays(const struct dp_coord *c, uint32_t slot)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->worker[r].slot == slot && c->worker[r].stays && coord_is_live(c, r))
            return true;
    return false;
}

json_t *coord_trait_json(const struct dp_coord *c)
{
    const char *why = coord_why_observed(c);
    bool stays = false;
    json_t *name;

    if (!c->train.has_shape)
        return json_null();
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        stays |= c->worker[r].stays;
    name = json_string(c->train.trainer[0] ? c->train.trainer : "dynpipe-worker");
    if (!name)
        name = json_string("(not UTF-8)");
    return json_pack("{s:o,s:b,s:b,s:b,s:s,s:s?}", "name", name, "moves_layers", !c->train.is_fixed, "leaves", !stays, "equal_cost",
                     !c->train.blocks_differ, "mode_asked", dp_mode_name(c->limits.mode), "observed", why);
}
