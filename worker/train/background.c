/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: layers of a hand-over that is to come are copied while training goes on (worker/shadow/). The leader says when
 * (worker/step/step_order.h); here is what a worker says to that, and does. */
#include "worker/train/trainer_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"

#define TELL_NS (2 * DP_SECOND_NS) /* between two words to the coordinator, which waits for a vote */

/* The layout that PREPARE of the hand-over leads to, where it is one that can be copied for: a newcomer trains with nobody yet. */
static bool find_next(const struct dp_trainer *t, uint64_t migration, struct dp_layout *next)
{
    const struct dp_msg_prepare *p = dp_control_prepare(t->control);

    return p && p->migration == migration && dp_member_next_layout(p, &t->layout, false, next, NULL) == 0;
}

static bool is_off(const struct dp_trainer *t)
{
    return strcmp(t->config->handover.background, "off") == 0 || !t->args->transport;
}

struct dp_step_shadow dp_trainer_shadow_state(struct dp_trainer *t, uint64_t migration)
{
    struct dp_step_shadow s = t->shadow;
    struct dp_layout next;

    s.is_allowed = migration && !is_off(t) && find_next(t, migration, &next);
    return s;
}

/* Has this worker so much to send that it should not be done at once? Layers that their destination follows are not sent. */
static bool is_worth(const struct dp_trainer *t, const struct dp_layout *next)
{
    struct dp_moves moves;
    uint64_t bytes = 0;
    uint32_t n = 0;

    dp_layout_moves(&t->layout, next, &moves);
    for (uint32_t i = 0; i < moves.n; i++)
        if (moves.move[i].from == t->rank && !dp_copies_is_followed(t->copies, moves.move[i].layer, moves.move[i].to)) {
            bytes += dp_layer_state_bytes(dp_stage_find(t->stage, moves.move[i].layer));
            n++;
        }
    return n && (strcmp(t->config->handover.background, "always") == 0 || dp_pace_is_worth(bytes, t->step_ns));
}

/* A coordinator that hears nothing takes a hand-over without votes for one that hangs. */
static void tell(struct dp_trainer *t)
{
    struct dp_msg_event m = {.kind = DP_EV_SHADOWING, .step = t->step, .value = (double)t->shadow.migration};
    uint64_t now_ns = dp_now_ns();

    if (!dp_trainer_leads(t) || (t->shadow_told_ns && now_ns - t->shadow_told_ns < TELL_NS))
        return;
    t->shadow_told_ns = now_ns;
    dp_control_event(t->control, &m);
}

int dp_trainer_shadow_part(struct dp_trainer *t, uint32_t *requests, struct dp_err *err)
{
    struct dp_layout next;

    if (t->shadowing) {
        tell(t);
        if (dp_shadowing_gradients(t->shadowing, t->step, t->step_ns, err) < 0)
            return dp_err_prefix(err, "copying for hand-over %llu", (unsigned long long)t->shadow.migration);
        if (dp_shadowing_failure(t->shadowing))
            *requests |= DP_REQUEST_UNSHADOW;
        if (!dp_shadowing_is_complete(t->shadowing))
            *requests |= DP_REQUEST_SHADOW;
    } else if (t->shadow.migration) {
        if (find_next(t, t->shadow.migration, &next))
            t->shadow_next = next; /* PREPARE may be gone by the boundary, and all begin there, or nobody */
        if (t->shadow_next.epoch != t->layout.epoch + 1)
            *requests |= DP_REQUEST_UNPREPARED;
        else if (is_worth(t, &t->shadow_next))
            *requests |= DP_REQUEST_SHADOW;
    }
    return 0;
}

/* Behind what schemes did at this boundary. */
int dp_trainer_shadow_begin(struct dp_trainer *t, const struct dp_step_order *o, struct dp_err *err)
{
    uint64_t limit = dp_trainer_memory_limit(t), held = dp_stage_bytes(t->stage, NULL);
    struct dp_shadowing_args args = {.transport = t->args->transport, .rank = t->rank, .layout = &t->layout, .next = &t->shadow_next,
                                     .stage = t->stage, .config = t->config, .backend = t->be, .tune = &t->start.tune,
                                     .migration = o->migration, .step = t->step, .room_bytes = UINT64_MAX};

    if (t->is_joining || o->shadow != DP_SHADOW_BEGIN)
        return 0;
    t->shadow.is_copying = true;
    held += dp_stage_activation_growth(t->config, t->be, &t->layout, &t->shadow_next, t->rank, t->reached.frozen);
    if (limit)
        args.room_bytes = limit > held ? limit - held : 0;
    t->shadowing = dp_shadowing_create(&args, err);
    return t->shadowing ? 0 : -1;
}

void dp_trainer_shadow_end(struct dp_trainer *t, bool is_in_step)
{
    if (t->shadowing)
        dp_shadowing_destroy(t->shadowing, is_in_step);
    t->shadowing = NULL;
    t->shadow.is_copying = false;
}

static void drop(struct dp_trainer *t)
{
    const char *why = dp_shadowing_failure(t->shadowing);

    if (why)
        dp_warn("worker %u: layers of hand-over %llu are not copied while training goes on: %s", t->rank,
                (unsigned long long)t->shadow.migration, why);
    dp_trainer_shadow_end(t, true);
    t->shadow.migration = 0;
}

static int go_on(struct dp_trainer *t, const struct dp_step_order *o, bool goes_on, struct dp_err *err)
{
    if (!t->shadowing)
        return 0;
    if (dp_shadowing_boundary(t->shadowing, t->step - 1, dp_trainer_grad_scale(t, o->grad_norm), goes_on, err) < 0)
        return dp_err_prefix(err, "copying for hand-over %llu", (unsigned long long)t->shadow.migration);
    return 0;
}

int dp_trainer_shadow_boundary(struct dp_trainer *t, const struct dp_step_order *o, struct dp_err *err)
{
    if (t->is_joining)
        return 0;
    switch (o->shadow) {
    case DP_SHADOW_ANNOUNCE:
        if (t->shadow.migration != o->migration) {
            t->shadow = (struct dp_step_shadow){.migration = o->migration};
            t->shadow_next = (struct dp_layout){0};
        }
        t->shadow.n_waits++;
        return 0;
    case DP_SHADOW_BEGIN:
        return 0;
    case DP_SHADOW_GO_ON:
        return go_on(t, o, !(o->flags & DP_ORDER_SCHEME), err);
    case DP_SHADOW_DROP:
        if (go_on(t, o, false, err) < 0)
            return -1;
        if (t->shadowing)
            drop(t);
        return 0;
    default:
        return go_on(t, o, false, err);
    }
}
