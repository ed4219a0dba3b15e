/* SPDX-License-Identifier: BSD-3-Clause */
/* In the child of plan.c: what the best layouts would take with more slices than there are, in the seats that are free. What would
 * come there nobody knows: it counts as a device like the usual one, with home's memory, since companions ask Slurm for what
 * home asked for. A site's policy is not asked: its time is for the decisions that are made now.
 *
 * Of what was learned of this run, slots whose cores others have and links that were measured between slots that are held count;
 * a latency that was only concluded does not, nor links of whoever had the free seats before. A run on one slot has no message
 * that could refute them.
 */
#include "daemon/coord/internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "policies/list.h"
#include "policies/predict/answer.h"

struct work {
    const struct dp_policy *own; /* NULL: it is a site's */
    struct dp_policy_in in;
    struct dp_layout layout;
    struct dp_device device[DP_MAX_WORKERS];
    struct dp_links links;
    struct dp_policy_out out;
};

/* returns: the best iteration that a policy finds; 0: there is no layout. */
static uint64_t best_of(struct work *k)
{
    const struct dp_policy *policy[] = {&dp_policy_time, k->own};
    uint64_t best = 0;

    for (size_t i = 0; i < sizeof policy / sizeof policy[0]; i++)
        if (policy[i] && (i == 0 || policy[i] != policy[0]) && dp_policy_run(policy[i], NULL, &k->in, &k->out, NULL) == 0 &&
            k->out.iteration_ns && (!best || k->out.iteration_ns < best))
            best = k->out.iteration_ns;
    return best;
}

static void keep_links(const struct dp_coord *c, struct work *k)
{
    const struct dp_links *all = k->in.links;

    k->in.link_latency_s = c->limits.link_latency_s;
    for (uint32_t i = 0; all && i < all->n; i++)
        if (!coord_seat_is_free(c, all->link[i].a) && !coord_seat_is_free(c, all->link[i].b))
            dp_links_set(&k->links, all->link[i].a, all->link[i].b, all->link[i].ns);
    k->in.links = all ? &k->links : NULL;
}

static void allow(const struct dp_coord *c, struct work *k, uint32_t rank)
{
    k->layout.gone[rank] = 0;
    k->device[rank] = (struct dp_device){1.0, coord_memory_limit_bytes(c, dp_layout_leader(&c->layout)), rank, true};
}

void coord_grow_predict(const struct dp_coord *c, const struct dp_policy *own, const struct dp_policy_in *in, uint32_t slots_now,
                        struct coord_plan *t)
{
    uint32_t slots[DP_GROW_OPTIONS], have = slots_now, rank = 0;
    uint32_t most = dp_least_u32(c->limits.growth.max_gpus, slots_now + coord_count(c, coord_seat_is_free, NULL));
    struct work *k = calloc(1, sizeof *k);

    if (!k)
        return; /* nothing is asked for */
    k->own = own;
    k->in = *in;
    k->layout = *in->current;
    memcpy(k->device, in->device, c->train.n_workers * sizeof k->device[0]);
    k->in.current = &k->layout;
    k->in.device = k->device;
    keep_links(c, k);
    if (dp_predict_layout(&k->in, &c->layout, NULL, &t->grow.current_ns, NULL) < 0)
        goto out;
    t->grow.best_ns = best_of(k);
    if (!t->grow.best_ns || t->grow.current_ns < t->grow.best_ns)
        t->grow.best_ns = t->grow.current_ns;
    t->grow.n = dp_grow_numbers(slots_now, dp_least_u32(most, c->train.n_layers), slots);
    for (uint32_t i = 0; i < t->grow.n; i++) {
        for (; rank < c->train.n_workers && have < slots[i]; rank++)
            if (coord_seat_is_free(c, rank)) {
                allow(c, k, rank);
                have++;
            }
        t->grow.option[i] = (struct dp_grow_option){slots[i], best_of(k)};
    }
out:
    free(k);
}
