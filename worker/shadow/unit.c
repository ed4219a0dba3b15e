/* SPDX-License-Identifier: BSD-3-Clause */
/* See shadowing_internal.h: a layer in units. Both ends find the same ones, in the same order, because both know the layer's head. */
#include <stdlib.h>
#include <string.h>

#include "worker/shadow/shadowing_internal.h"

/* unit NULL: only counted. returns: how many. */
static uint32_t ranges_of(struct dp_layer *l, struct dp_param *p, struct dp_unit *unit)
{
    uint32_t n = 0;

    for (int64_t at = 0; at < p->n; at += DP_UNIT_FLOATS, n++) {
        int64_t count = p->n - at < DP_UNIT_FLOATS ? p->n - at : DP_UNIT_FLOATS;

        if (unit)
            unit[n] = (struct dp_unit){.layer = l, .param = p, .first = at, .n = count,
                                       .bytes = (size_t)count * sizeof(float), .is_device = true};
    }
    return n;
}

static uint32_t pieces_of(struct dp_layer *l, const struct dp_layer_part *part, struct dp_unit *unit)
{
    const size_t most = (size_t)DP_UNIT_FLOATS * sizeof(float);
    uint32_t n = 0;

    for (size_t at = 0; at < part->bytes; at += most, n++)
        if (unit)
            unit[n] = (struct dp_unit){.layer = l, .data = (uint8_t *)part->data + at, .is_device = part->is_device,
                                       .bytes = part->bytes - at < most ? part->bytes - at : most};
    return n;
}

/* Parts that no step changes: those that are none of a learning param's. */
static bool is_stepped(struct dp_layer *l, const void *data)
{
    for (uint32_t i = 0; i < l->n_params; i++) {
        const struct dp_param *p = &l->param[i];

        if (p->m && (data == p->w || data == p->m || data == p->v))
            return true;
    }
    return false;
}

/* Patterns first: what is built of them is built while weights still come. */
static uint32_t units_of(struct dp_layer *l, struct dp_unit *unit)
{
    struct dp_layer_part part[DP_LAYER_MAX_PARTS];
    uint32_t n_parts = dp_layer_parts(l, part), n = 0;

    for (uint32_t i = 0; i < n_parts; i++)
        if (part[i].is_replayed && !is_stepped(l, part[i].data))
            n += pieces_of(l, &part[i], unit ? unit + n : NULL);
    for (uint32_t i = 0; i < l->n_params; i++)
        if (l->param[i].m)
            n += ranges_of(l, &l->param[i], unit ? unit + n : NULL);
    return n;
}

uint32_t dp_shadow_count_units(struct dp_layer *l)
{
    return units_of(l, NULL);
}

int dp_shadow_units(struct dp_shadow_stream *st, struct dp_err *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < st->n_layers; i++) {
        n += units_of(st->layer[i].layer, NULL);
        if (n > DP_UNITS_MAX)
            return dp_err_set(err, DP_EINVAL, "more than %u units move between two workers", DP_UNITS_MAX);
    }
    st->unit = calloc(n + 1, sizeof *st->unit);
    if (!st->unit)
        return dp_err_set(err, DP_ENOMEM, "no memory for %u units", n);
    for (uint32_t i = 0; i < st->n_layers; i++)
        st->n_units += units_of(st->layer[i].layer, st->unit + st->n_units);
    return 0;
}

void *dp_unit_state(const struct dp_unit *u, int at)
{
    if (!u->param)
        return at == 0 ? u->data : NULL;
    return (at == 0 ? u->param->w : at == 1 ? u->param->m : u->param->v) + u->first;
}
