/* SPDX-License-Identifier: BSD-3-Clause */
/* What people and programs see of the copies of layers that workers hold for each other, as their newest reports say. */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

/* Of a run that has ended, as it was last. */
static bool is_counted(const struct dp_coord *c, uint32_t rank)
{
    const struct coord_copied *k = &c->worker[rank].copies;

    return !c->layout.gone[rank] && !c->worker[rank].is_lost && (k->layers || k->held || k->bytes);
}

const char *coord_only_node(const struct dp_coord *c)
{
    const char *node = NULL;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        const char *mine = c->slot[c->worker[r].slot].name;

        if (!coord_is_live(c, r) || c->layout.cut[r + 1] == c->layout.cut[r])
            continue;
        if (node && strcmp(node, mine) != 0)
            return NULL;
        node = mine;
    }
    return node;
}

static void say(const struct dp_coord *c, uint32_t layers, uint32_t whole, char *out, size_t cap)
{
    const char *node = coord_only_node(c);

    out[0] = '\0';
    if (!layers && dp_layout_members(&c->layout) < 2)
        snprintf(out, cap, "no other worker is left that could hold one");
    else if (!layers)
        snprintf(out, cap, "none is there yet");
    else if (node)
        snprintf(out, cap, "layers and copies are on %s alone: a worker may be lost, not the node", node);
    else if (whole < layers)
        snprintf(out, cap, "%u being copied; where their worker is lost now, the newest checkpoint is taken", layers - whole);
}

json_t *coord_copies_json(const struct dp_coord *c)
{
    uint64_t bytes = 0, step_bytes = 0;
    uint32_t layers = 0, whole = 0;
    bool is_any = c->train.has_layout && coord_copies(c);
    char text[200];

    for (uint32_t r = 0; c->train.has_layout && r < c->train.n_workers; r++) {
        const struct coord_copied *k = &c->worker[r].copies;

        if (!is_counted(c, r))
            continue;
        is_any = true;
        layers += k->layers;
        whole += k->whole;
        bytes += k->bytes;
        step_bytes += k->step_bytes;
    }
    if (!is_any)
        return NULL;
    say(c, layers, whole, text, sizeof text);
    return json_pack("{s:i, s:i, s:i, s:I, s:I, s:s}", "of_each", (int)coord_copies(c), "layers", (int)layers, "whole", (int)whole,
                     "bytes", (json_int_t)bytes, "step_bytes", (json_int_t)step_bytes, "text", text);
}

json_t *coord_worker_copies_json(const struct dp_coord *c, uint32_t rank)
{
    const struct coord_copied *k = &c->worker[rank].copies;
    json_t *o;

    if (!c->train.has_layout || !is_counted(c, rank))
        return NULL;
    o = json_pack("{s:i, s:i, s:i, s:I, s:I}", "layers", (int)k->layers, "whole", (int)k->whole, "held_layers", (int)k->held,
                  "held_bytes", (json_int_t)k->bytes, "step_bytes", (json_int_t)k->step_bytes);
    json_object_set_new(o, "holder", k->layers ? json_integer(k->holder) : json_null());
    json_object_set_new(o, "lag_steps", k->layers && k->whole == k->layers ? json_integer(0) : json_null());
    return o;
}
