/* SPDX-License-Identifier: BSD-3-Clause */
/* What every number of slots would give and cost from now to the last step: the options that packing has looked at,
 * laid open. A step takes what the model says of it times what the run measures over what the model says of the layout
 * in force; as the layers get sparser, it gets shorter by the same factor on every number of slots.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

/* The fastest option on each number of slots; one that has a layout before one that has none. NULL: not looked at. */
static void best_of_each(const struct dp_pack *p, const struct dp_pack_option **best /* [DP_MAX_SLOTS + 1] */)
{
    for (uint32_t i = 0; i < p->n_options; i++) {
        const struct dp_pack_option *o = &p->option[i], *b = o->slots <= DP_MAX_SLOTS ? best[o->slots] : o;

        if (!b || (o->iteration_ns && (!b->iteration_ns || o->iteration_ns < b->iteration_ns)))
            best[o->slots] = o;
    }
}

/* At most DP_TRADE_ROWS of them stay: the choice, what is held now, and some others evenly. */
static void thin_out(const struct dp_pack_option **best, uint32_t choice, uint32_t slots_now)
{
    uint32_t n = 0, seen = 0, rows = DP_TRADE_ROWS - 2;

    for (uint32_t s = 0; s <= DP_MAX_SLOTS; s++)
        n += best[s] != NULL;
    for (uint32_t s = 0; s <= DP_MAX_SLOTS && n > DP_TRADE_ROWS; s++) {
        if (!best[s])
            continue;
        if (s != choice && s != slots_now && seen * rows / n == (seen + 1) * rows / n)
            best[s] = NULL;
        seen++;
    }
}

/* That are left, each as long as one of now. */
static double steps_of_now(const struct dp_coord *c, const struct coord_plan *t)
{
    return c->train.steps_total > c->train.step ? (double)(c->train.steps_total - c->train.step) * t->left_mean : 0.0;
}

static void fill_row(const struct dp_coord *c, const struct dp_pack_option *o, double scale, double steps,
                     uint32_t slots_now, struct dp_trade_row *row)
{
    row->slots = o->slots;
    row->devices = o->slots * coord_per_slot(c);
    snprintf(row->why, sizeof row->why, "%s%s%.80s", o->slots == slots_now ? "held now" : "",
             o->slots == slots_now && o->why[0] ? "; " : "", o->why);
    if (!o->iteration_ns)
        return;
    row->step_s = (double)o->iteration_ns * scale;
    row->time_s = steps * row->step_s;
    row->device_s = row->time_s * row->devices;
}

void coord_trade_fill(const struct dp_coord *c, const struct coord_plan *t, const struct dp_pack *p, uint32_t slots_now,
                      struct dp_trade *out)
{
    double steps = steps_of_now(c, t);
    double scale = t->basis_ns ? (double)coord_recent_step_ns(c) / 1e9 / (double)t->basis_ns : 0.0;
    const struct dp_pack_option *best[DP_MAX_SLOTS + 1] = {NULL};

    memset(out, 0, sizeof *out);
    if (!(scale > 0.0))
        return;
    out->fixed_s = steps * (double)t->basis_start_ns * scale;
    out->fixed_device_s = out->fixed_s * coord_start_slots(c) * coord_per_slot(c);
    best_of_each(p, best);
    thin_out(best, p->slots, slots_now);
    for (uint32_t s = 0; s <= DP_MAX_SLOTS && out->n < DP_TRADE_ROWS; s++)
        if (best[s])
            fill_row(c, best[s], scale, steps, slots_now, &out->row[out->n++]);
}

/* The row of the slots that the decision keeps. */
void coord_trade_choose(struct dp_trade *t, uint32_t slots, const char *why)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct dp_trade_row *r = &t->row[i];
        size_t n;

        if (r->slots != slots)
            continue;
        r->is_chosen = true;
        n = strlen(r->why);
        snprintf(r->why + n, sizeof r->why - n, "%s%s", n ? "; " : "", why);
    }
}
