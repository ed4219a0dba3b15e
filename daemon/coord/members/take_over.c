/* SPDX-License-Identifier: BSD-3-Clause */
/* A coordinator that is made of what the workers know, because the one before is lost with its node and its journal (doc/protocol.md,
 * "When the coordinator is lost"). Only a run of slices can need it: of other jobs Slurm ends what has lost its batch host.
 *
 * A decision that no worker has heard of was none: who would have told it is gone, and is not heard any more. Of what they have heard
 * each says how far it came: a REGROUP with a higher epoch than any ends every hand-over, decided or not, and brings all to one layout,
 * as where a worker is lost. So nothing of the lost journal is needed but names and numbers, which HELLO brings.
 */
#include "daemon/coord/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/numbers.h"

/* A coordinator that is restarted counts up by ones, and does not come here. */
#define LIVES UINT32_C(1024)

/* The lowest rank whose layout is the newest. returns n: nobody is there. */
static uint32_t newest(const struct dp_survivor *survivor, uint32_t n)
{
    uint32_t best = n;

    for (uint32_t r = 0; r < n; r++)
        if (survivor[r].hello && (best == n || survivor[r].hello->epoch > survivor[best].hello->epoch))
            best = r;
    return best;
}

static int take_workers(struct dp_coord *c, const struct dp_survivor *survivor, uint32_t n, uint32_t lead, struct dp_err *err)
{
    uint32_t heard = 0;

    coord_member_shape(c, survivor[lead].hello);
    for (uint32_t r = 0; r < n; r++) {
        const struct dp_msg_hello *m = survivor[r].hello;

        if (!m)
            continue;
        if (m->rank != r || m->n_workers != n || m->joins || !coord_member_is_sane(m) || !coord_member_fits(c, m) || !c->slot[r].slice)
            return dp_err_set(err, DP_EINVAL, "worker %u belongs to another run", r);
        if (m->epoch == survivor[lead].hello->epoch && memcmp(m->cut, survivor[lead].hello->cut, (n + 1) * sizeof m->cut[0]))
            return dp_err_set(err, DP_EINVAL, "workers %u and %u have different layouts %" PRIu64, lead, r, m->epoch);
        coord_member_adopt(c, m, survivor[r].pid, r);
        heard = m->incarnation > heard ? m->incarnation : heard;
        c->mig.id = dp_most_u64(c->mig.id, dp_most_u64(m->migration, m->doubt));
    }
    if (heard >= UINT32_MAX - LIVES)
        return dp_err_set(err, DP_EINVAL, "worker with incarnation %u", heard);
    c->life.incarnation = heard / LIVES * LIVES + LIVES;
    return 0;
}

/* Those that have died may have been beyond it, by the one COMMIT that all had voted for and a REGROUP for each of them: take_layout()
 * goes further than that, so no epoch is used twice. */
static uint64_t heard_epoch(const struct dp_survivor *survivor, uint32_t n)
{
    uint64_t epoch = 0;

    for (uint32_t r = 0; r < n; r++)
        if (survivor[r].hello)
            epoch = dp_most_u64(epoch, dp_most_u64(survivor[r].hello->epoch, survivor[r].hello->heard_epoch));
    return epoch;
}

/* One layout in force, nobody in doubt, nobody about to leave, and all who have layers are there, and the leader, who takes part in each
 * step also without layers: nothing has to be done again. Of another one without layers nobody says whether it had left before. */
static bool are_at_one(const struct dp_survivor *survivor, uint32_t n, uint32_t lead)
{
    const struct dp_msg_hello *m = survivor[lead].hello;

    for (uint32_t r = 0; r < n; r++) {
        const struct dp_msg_hello *k = survivor[r].hello;

        if (k ? k->epoch != heard_epoch(survivor, n) || k->doubt || k->is_gone : m->cut[r] < m->cut[r + 1] || r == m->leader)
            return false;
    }
    return true;
}

/* As it was in force: whoever had layers and is not there any more is lost. Ranks below the leader's were to leave, also those that have
 * not heard so: who leads the newest layout has log and checkpoints by now, and does not give them back. */
static int take_layout(struct dp_coord *c, const struct dp_survivor *survivor, uint32_t n, uint32_t lead, bool is_at_one, uint64_t now_ns,
                       struct dp_err *err)
{
    const struct dp_msg_hello *m = survivor[lead].hello;
    struct dp_layout *l = &c->layout;

    *l = (struct dp_layout){.epoch = heard_epoch(survivor, n) + (is_at_one ? 0 : n + 1), .n_workers = n, .n_layers = m->n_layers};
    memcpy(l->cut, m->cut, sizeof l->cut);
    for (uint32_t r = 0; r < n; r++) {
        struct coord_worker *w = &c->worker[r];
        bool has_layers = l->cut[r] < l->cut[r + 1];

        w->slot = r;
        l->gone[r] = !has_layers && (!survivor[r].hello || survivor[r].hello->is_gone || r < m->leader);
        w->is_lost = !survivor[r].hello && has_layers;
        w->died_ns = now_ns;
        if (!c->slot[r].label[0])
            snprintf(c->slot[r].label, sizeof c->slot[r].label, "a node that is lost");
    }
    return dp_layout_check(l, err);
}

static void begin(struct dp_coord *c, const struct dp_survivor *survivor, uint32_t n, uint64_t now_ns)
{
    uint32_t n_there = 0;

    for (uint32_t r = 0; r < n; r++)
        n_there += survivor[r].hello != NULL;
    c->train.has_layout = true;
    c->start_layout = c->layout;
    c->join.wanted = dp_layout_members(&c->layout);
    c->life.is_begun = true;
    c->life.first_ns = c->life.begin_ns = c->stall.heard_ns = now_ns;
    c->last_change_ns = c->rel.next_ns = now_ns;
    coord_saving_begin(c, now_ns);
    for (uint32_t r = 0; r < n; r++)
        if (survivor[r].hello)
            coord_trait_take(c, now_ns, survivor[r].hello);
    coord_note(c, now_ns, "the coordinator before is lost; this one was made by %u worker%s", n_there, dp_plural(n_there));
}

int dp_coord_take_over(struct dp_coord *c, uint64_t now_ns, const struct dp_survivor *survivor, uint32_t n, struct dp_err *err)
{
    uint32_t lead = newest(survivor, n);
    struct dp_layout next;
    bool is_at_one;
    const char *why;

    if (n != c->n_slots || lead == n)
        return dp_err_set(err, DP_EINVAL, "no worker is left");
    is_at_one = are_at_one(survivor, n, lead);
    if (take_workers(c, survivor, n, lead, err) < 0 || take_layout(c, survivor, n, lead, is_at_one, now_ns, err) < 0)
        return -1;
    begin(c, survivor, n, now_ns);
    if (is_at_one)
        return 0;
    why = coord_regroup_why_not(c);
    if (!why && coord_regroup_lay_out(c, COORD_LIVE, &next) < 0)
        why = "the model does not fit into the memory of those who are left";
    if (why)
        coord_fail(c, now_ns, "the node of the coordinator was lost; the run ends: %s", why);
    else
        coord_migrate_take_over(c, now_ns, &next, "the node of the coordinator was lost");
    return 0;
}
