/* SPDX-License-Identifier: BSD-3-Clause */
/* See trainer_internal.h: slices that come when the run trains already (doc/protocol.md, "Slices that come later").
 *
 * A newcomer is in none of the others' rounds, so it cannot hear the order that names a hand-over. It has PREPARE of the coordinator,
 * as all have; the leader, which is the lowest rank in that, tells it by a message of its own what the others are at: step, layout
 * in force, what the boundary asks, and what the run began with. From there on it does what they do. Until a COMMIT it is in no
 * layout: what fails is forgotten, and it waits for the next PREPARE.
 */
#include "worker/train/trainer_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/train/signals.h"

#define INVITATION_MAGIC 0x44504a31u /* "DPJ1" */
#define INVITE_NS (DP_SECOND_NS / 2) /* who lives takes it in milliseconds */
#define IDLE_NS (20 * DP_MS_NS) /* asleep, unless a message comes */

struct invitation {
    uint32_t magic, bytes;
    uint64_t migration;
    struct dp_step_order order;
    struct dp_layout layout; /* in force */
    struct dp_start start;
    struct dp_reached reached;
    /* What must be the same here: of the configuration, byte for byte. */
    uint8_t model[sizeof ((struct dp_train_config *)NULL)->model];
    uint8_t train[sizeof ((struct dp_train_config *)NULL)->train];
    uint8_t prune[sizeof ((struct dp_train_config *)NULL)->prune];
    uint8_t freeze[sizeof ((struct dp_train_config *)NULL)->freeze];
    uint8_t drop[sizeof ((struct dp_train_config *)NULL)->drop];
};

/* Of a hand-over, whatever the step: no two of them have the same number among the newest 2048. */
static uint64_t invitation_tag(uint64_t migration)
{
    return dp_tag(DP_CH_WIREUP, migration, 0, 0);
}

/* ---- the others ---- */

int dp_trainer_meet(void *arg, uint32_t rank, struct dp_err *err)
{
    struct dp_trainer *t = arg;
    size_t bytes;
    const void *card = dp_control_card(t->control, rank, &bytes);

    if (!card)
        return dp_err_set(err, DP_EGONE, "worker %u is to join, and its address is not known", rank);
    dp_transport_remove(t->args->transport, rank);
    return dp_transport_add(t->args->transport, rank, card, bytes, err);
}

static void fill(const struct dp_trainer *t, uint64_t migration, struct invitation *m)
{
    *m = (struct invitation){.magic = INVITATION_MAGIC, .bytes = sizeof *m, .migration = migration, .order = *t->order,
                             .layout = t->layout, .start = t->start, .reached = t->reached};
    memcpy(m->model, &t->config->model, sizeof m->model);
    memcpy(m->train, &t->config->train, sizeof m->train);
    memcpy(m->prune, &t->config->prune, sizeof m->prune);
    memcpy(m->freeze, &t->config->freeze, sizeof m->freeze);
    memcpy(m->drop, &t->config->drop, sizeof m->drop);
}

void dp_trainer_invite(void *arg, uint64_t migration, const struct dp_layout *next)
{
    struct dp_transport_request *x[DP_MAX_WORKERS] = {0};
    static struct invitation m; /* a newcomer that hangs may still fetch it */
    uint64_t end_ns = dp_now_ns() + INVITE_NS;
    struct dp_trainer *t = arg;

    fill(t, migration, &m);
    for (uint32_t r = 0; r < next->n_workers; r++)
        if (t->layout.gone[r] && !next->gone[r])
            x[r] = dp_transport_send(t->args->transport, r, invitation_tag(migration), &m, sizeof m, NULL);
    for (uint32_t r = 0; r < next->n_workers; r++) {
        uint64_t now_ns = dp_now_ns();
        struct dp_err err = {0};

        if (x[r] && dp_transport_wait(t->args->transport, x[r], now_ns < end_ns ? end_ns - now_ns : 1, NULL, &err) < 0 &&
            err.code == DP_ETIMEOUT)
            dp_transport_cancel(t->args->transport, x[r]);
    }
}

/* ---- a newcomer ---- */

/* returns: why it does not join any more, NULL: it still waits. */
static const char *why_leave(const struct dp_trainer *t)
{
    const struct dp_msg_welcome *w = dp_control_welcome(t->control);

    if (dp_control_no_regroup(t->control)[0])
        return dp_control_no_regroup(t->control);
    if (w && (w->verdict == DP_VERDICT_DENIED || w->verdict == DP_VERDICT_FENCED))
        return w->text;
    return dp_signals_take() & DP_REQUEST_STOP ? "Slurm ends its job" : NULL;
}

/* The others regrouped. Is this worker one of them by now, because the hand-over was committed before? */
static bool is_in_regroup(struct dp_trainer *t)
{
    const struct dp_msg_regroup *m = dp_control_regroup(t->control);
    struct dp_layout l;

    if (!m)
        return false;
    if (!m->gone[t->rank])
        return true;
    l = (struct dp_layout){.epoch = m->epoch, .n_workers = m->n_workers, .n_layers = m->n_layers};
    memcpy(l.cut, m->cut, (m->n_workers + 1) * sizeof m->cut[0]);
    memcpy(l.gone, m->gone, m->n_workers);
    if (m->n_workers == t->layout.n_workers && m->n_layers == t->layout.n_layers && dp_layout_check(&l, NULL) == 0)
        t->layout = l;
    t->layout.epoch = m->epoch;
    dp_control_state(t->control, t->step, 0, &t->layout);
    return false;
}

static bool is_over(struct dp_trainer *t, uint64_t migration)
{
    const struct dp_msg_prepare *p = dp_control_prepare(t->control);

    return !p || p->migration != migration || dp_control_regroup(t->control);
}

/* returns 1: it is there; 0: this hand-over is over, or the leader is gone; -1. */
static int await_invitation(struct dp_trainer *t, uint64_t migration, uint32_t leader, struct invitation *m, struct dp_err *err)
{
    struct dp_transport *tr = t->args->transport;
    struct dp_transport_request *x = dp_transport_recv(tr, leader, invitation_tag(migration), m, sizeof *m, err);

    if (!x)
        return err->code == DP_EGONE ? 0 : -1;
    while (!dp_transport_test(tr, x)) {
        if (is_over(t, migration) || dp_transport_is_gone(tr, leader)) {
            dp_transport_cancel(tr, x);
            return 0;
        }
        dp_transport_idle(tr, IDLE_NS);
        dp_trainer_serve(t);
    }
    return dp_transport_wait(tr, x, DP_SECOND_NS, NULL, err) == 0 ? 1 : err->code == DP_EGONE ? 0 : -1;
}

static int check(const struct dp_trainer *t, const struct invitation *m, struct dp_err *err)
{
    if (m->magic != INVITATION_MAGIC || m->bytes != sizeof *m || m->layout.n_workers != t->layout.n_workers)
        return dp_err_set(err, DP_EPROTO, "the others speak another version");
    if (memcmp(m->model, &t->config->model, sizeof m->model) || memcmp(m->train, &t->config->train, sizeof m->train) ||
        memcmp(m->prune, &t->config->prune, sizeof m->prune) || memcmp(m->freeze, &t->config->freeze, sizeof m->freeze) ||
        memcmp(m->drop, &t->config->drop, sizeof m->drop) || m->layout.n_layers != t->layout.n_layers)
        return dp_err_set(err, DP_EINVAL, "the run that this slice would join has another configuration (model, train, prune, freeze or "
                          "drop)");
    return dp_layout_check(&m->layout, err);
}

/* One PREPARE. returns as dp_trainer_join(), and 2: wait for another one. */
static int try(struct dp_trainer *t, struct dp_step_order *order, struct dp_err *err)
{
    static struct invitation m;
    const struct dp_msg_prepare *p = dp_control_prepare(t->control);
    struct dp_layout next = {.n_workers = p->n_workers, .n_layers = p->n_layers};
    uint64_t migration = p->migration;
    int rc;

    memcpy(next.gone, p->gone, sizeof next.gone);
    rc = await_invitation(t, migration, dp_layout_leader(&next), &m, err);
    if (rc <= 0)
        return rc < 0 ? -1 : 2;
    if (check(t, &m, err) < 0)
        return -1;
    t->layout = m.layout;
    t->start = m.start;
    t->reached = m.reached;
    t->step = m.order.step;
    t->standing = (struct dp_standing){.step = t->step, .given = t->step, .order = m.order, .reached = m.reached, .schemes_done = ~0u};
    *order = m.order;
    if (dp_trainer_boundary(t, order, err) < 0) {
        if (!t->is_joining || err->code != DP_EGONE)
            return -1;
        dp_warn("worker %u: %s; waiting for another hand-over", t->rank, err->text);
        return 2;
    }
    return t->is_joining ? 2 : 1;
}

int dp_trainer_join(struct dp_trainer *t, struct dp_step_order *order, struct dp_err *err)
{
    const char *why;
    int rc = 2;

    dp_info("worker %u has a seat in the run of %u, and waits to be taken in", t->rank, t->args->wireup->n_workers);
    while (rc == 2) {
        const struct dp_msg_prepare *p;

        dp_trainer_serve(t);
        if (is_in_regroup(t)) {
            t->is_joining = false;
            t->is_new = true;
            dp_control_joined(t->control);
            return dp_err_set(err, DP_EGONE, "the run regrouped while this worker joined");
        }
        why = why_leave(t);
        if (why) {
            dp_info("worker %u does not join the run: %s", t->rank, why);
            return 0;
        }
        p = dp_control_prepare(t->control);
        if (p && p->n_workers == t->layout.n_workers && !p->gone[t->rank]) {
            rc = try(t, order, err);
            continue;
        }
        if (dp_handover_poll(t->handover, err) < 0)
            return -1;
        dp_control_wait(t->control, 100);
    }
    if (rc == 1)
        dp_info("worker %u joined at step %llu", t->rank, (unsigned long long)t->step);
    return rc;
}
