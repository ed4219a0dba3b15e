/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: copies of layers on other workers (worker/copies/), kept up with every step. The leader says whether there are
 * any: the configuration, or the user's and the site's word, which comes by its daemon and may come late. */
#include "worker/train/trainer_internal.h"

#include "common/log.h"

static bool are_wanted(const struct dp_trainer *t)
{
    const struct dp_msg_welcome *w = dp_control_welcome(t->control);

    return t->config->handover.copies > 0 || (w && w->copies > 0);
}

/* Bytes that copies may take beside what is there. */
static uint64_t room(const struct dp_trainer *t)
{
    uint64_t limit = dp_trainer_memory_limit(t), held = dp_stage_bytes(t->stage, NULL);

    return !limit ? UINT64_MAX : limit > held ? limit - held : 0;
}

static void find_place(const struct dp_trainer *t, struct dp_copy_place *place)
{
    uint32_t node[DP_MAX_WORKERS];

    for (uint32_t r = 0; r < t->layout.n_workers; r++)
        node[r] = dp_transport_node(t->args->transport, r);
    dp_copies_place(&t->layout, node, place);
}

static int open_streams(struct dp_trainer *t, bool are_changed, struct dp_err *err)
{
    const struct dp_copies_args args = {.transport = t->args->transport, .rank = t->rank, .config = t->config, .backend = t->be,
                                        .tune = &t->start.tune};
    struct dp_copies_opening at = {.layout = &t->layout, .stage = t->stage, .step = t->step, .are_changed = are_changed};
    struct dp_copy_place place;

    if (!t->copies)
        t->copies = dp_copies_create(&args, err);
    if (!t->copies)
        return -1;
    find_place(t, &place);
    if (!place.is_apart && !t->is_told_together && dp_trainer_leads(t)) {
        dp_warn("workers hold copies of layers of their own node: a node that is lost takes both");
        t->is_told_together = true;
    }
    at.place = &place;
    at.room_bytes = room(t);
    return dp_copies_open(t->copies, &at, err);
}

int dp_trainer_copies_open(struct dp_trainer *t, bool are_changed, struct dp_err *err)
{
    uint64_t wanted = dp_trainer_leads(t) && are_wanted(t);

    if (!t->args->transport)
        return 0;
    if (dp_collectives_allreduce(&t->collectives, &wanted, 1, err) < 0 || (wanted && open_streams(t, are_changed, err) < 0))
        return dp_err_prefix(err, "copies of layers");
    if (!wanted)
        dp_trainer_copies_end(t);
    return 0;
}

int dp_trainer_copies_part(struct dp_trainer *t, uint32_t *requests, struct dp_err *err)
{
    const char *why;
    uint32_t layer;

    if (t->copies && dp_copies_gradients(t->copies, t->step, t->step_ns, t->squares, err) < 0)
        return dp_err_prefix(err, "copies of layers");
    while ((why = dp_copies_take_trouble(t->copies, &layer)))
        dp_warn("worker %u: no copy of layer %u: %s", t->rank, layer, why);
    if (dp_copies_want_opening(t->copies) || (t->args->transport && dp_trainer_leads(t) && are_wanted(t) != (t->copies != NULL)))
        *requests |= DP_REQUEST_COPIES;
    return 0;
}

int dp_trainer_copies_step(struct dp_trainer *t, const struct dp_step_order *order, struct dp_err *err)
{
    if (!t->copies)
        return 0;
    if (t->be->ops->lap(t->be, &t->optimizer_ns, err) < 0 ||
        dp_copies_step_again(t->copies, t->step, dp_trainer_grad_scale(t, order->grad_norm), err) < 0)
        return dp_err_prefix(err, "copies of layers");
    return t->be->ops->lap(t->be, &t->rest_ns, err);
}

static bool changes_layers(const struct dp_step_order *o)
{
    return o->flags & (DP_ORDER_SCHEME | DP_ORDER_HANDOVER | DP_ORDER_COPIES);
}

int dp_trainer_copies_settle(struct dp_trainer *t, const struct dp_step_order *o, struct dp_err *err)
{
    return t->copies && changes_layers(o) ? dp_copies_settle(t->copies, err) : 0;
}

int dp_trainer_copies_boundary(struct dp_trainer *t, const struct dp_step_order *o, struct dp_err *err)
{
    if (t->is_leaving)
        dp_trainer_copies_end(t);
    if (t->is_leaving || t->is_joining || o->flags & DP_ORDER_STOP)
        return 0;
    if (changes_layers(o))
        return dp_trainer_copies_open(t, o->flags & DP_ORDER_SCHEME, err);
    return t->copies ? dp_copies_send_states(t->copies, err) : 0;
}

void dp_trainer_copies_end(struct dp_trainer *t)
{
    dp_copies_destroy(t->copies);
    t->copies = NULL;
}
