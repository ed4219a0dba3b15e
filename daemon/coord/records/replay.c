/* SPDX-License-Identifier: BSD-3-Clause */
/* What a restart makes of the coordinator's records (journal.c writes them). Nothing in a journal is
 * believed that would index beyond an array or contradict the job: such a journal is refused as damaged. */
#include "daemon/coord/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int rd_layout(struct dp_reader *r, struct dp_layout *l, struct dp_err *err)
{
    memset(l, 0, sizeof *l);
    l->epoch = dp_rd_u64(r);
    l->n_workers = dp_rd_u32(r);
    l->n_layers = dp_rd_u32(r);
    if (r->bad || l->n_workers > DP_MAX_WORKERS || l->n_layers > DP_MAX_LAYERS)
        return dp_err_set(err, DP_ECORRUPT, "layout of %u layers on %u workers", l->n_layers, l->n_workers);
    for (uint32_t s = 0; s < l->n_workers; s++)
        l->cut[s + 1] = dp_rd_u16(r);
    for (uint32_t s = 0; s < l->n_workers; s++)
        l->gone[s] = dp_rd_u8(r);
    return dp_layout_check(l, err);
}

static int replay_start(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    uint32_t job_id, restart_count, step_id;
    uint64_t mig_id;

    c->life.incarnation = dp_rd_u32(r);
    job_id = dp_rd_u32(r);
    restart_count = dp_rd_u32(r);
    c->life.first_ns = dp_rd_u64(r);
    mig_id = dp_rd_u64(r);
    step_id = dp_rd_u32(r);
    if (job_id != c->job.job_id || restart_count != c->job.restart_count)
        return dp_err_set(err, DP_EINVAL, "journal of job %u, restart %u; this is job %u, restart %u", job_id,
                          restart_count, c->job.job_id, c->job.restart_count);
    if (mig_id > c->mig.id)
        c->mig.id = mig_id;
    c->life.is_over = false;
    if (!dp_rd_u8(r))
        return 0;
    if (!c->train.has_layout || step_id != c->train.step_id)
        coord_step_reset(c);
    c->train.step_id = step_id;
    c->train.has_step = c->train.has_layout = true;
    if (rd_layout(r, &c->layout, err) < 0)
        return -1;
    c->train.n_layers = c->layout.n_layers;
    if (!c->start_layout.n_workers)
        c->start_layout = c->layout;
    if (c->replay.n_workers != c->layout.n_workers)
        return dp_err_set(err, DP_ECORRUPT, "START of %u workers, %u are known", c->layout.n_workers,
                          c->replay.n_workers);
    c->train.n_workers = c->replay.n_workers;
    for (uint32_t s = 0; s < c->train.n_workers; s++) {
        c->worker[s].slot = c->replay.slot[s];
        c->worker[s].pid = c->replay.pid[s];
    }
    return 0;
}

static int replay_workers(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    c->replay.n_workers = dp_rd_u32(r);
    if (c->replay.n_workers > DP_MAX_WORKERS)
        return dp_err_set(err, DP_ECORRUPT, "%u workers", c->replay.n_workers);
    for (uint32_t s = 0; s < c->replay.n_workers; s++) {
        c->replay.slot[s] = dp_rd_u16(r);
        c->replay.pid[s] = dp_rd_u32(r);
        if (c->replay.slot[s] >= c->n_slots)
            return dp_err_set(err, DP_ECORRUPT, "worker %u in slot %u of %u", s, c->replay.slot[s],
                              c->n_slots);
    }
    return 0;
}

static int replay_slices(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    uint32_t n = dp_rd_u32(r);

    if (n < 1 || n > DP_MAX_SLOTS)
        return dp_err_set(err, DP_ECORRUPT, "%u slices", n);
    for (uint32_t s = 0; s < n; s++)
        c->replay.slice[s] = dp_rd_u32(r);
    for (uint32_t s = 0; s < n; s++)
        c->replay.restarts[s] = dp_rd_u16(r);
    c->replay.n_slices = n;
    if (!c->replay.slice[0])
        return dp_err_set(err, DP_ECORRUPT, "slices without jobs");
    return coord_slices_check(c->replay.slice, n, err);
}

static int replay_nodes(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    bool has_slices = c->replay.n_slices > 0;
    char name[64];
    uint32_t n_slots = dp_rd_u32(r), batch = dp_rd_u32(r), first = dp_rd_u32(r), n = dp_rd_u32(r);

    if (n_slots < 1 || n_slots > DP_MAX_SLOTS || batch >= n_slots || first > n_slots || n > n_slots - first)
        return dp_err_set(err, DP_ECORRUPT, "slots %u to %u of %u", first, first + n, n_slots);
    if (has_slices && n_slots != c->replay.n_slices)
        return dp_err_set(err, DP_ECORRUPT, "%u slots, %u slices", n_slots, c->replay.n_slices);
    c->n_slots = c->job.n_nodes = n_slots;
    c->join.wanted = coord_first_wanted(c);
    c->batch_slot = batch;
    for (uint32_t i = first; i < first + n; i++) {
        dp_rd_str(r, name, sizeof name);
        if (has_slices && !name[0] != !c->replay.slice[i])
            return dp_err_set(err, DP_ECORRUPT, "slot %u has a node and no job of its own, or a job and no node", i);
        coord_slot_set(c, i, name, has_slices ? c->replay.slice[i] : 0, has_slices ? c->replay.restarts[i] : 0);
        c->slot[i].state = has_slices && !c->replay.slice[i] ? SLOT_EMPTY : SLOT_ACTIVE;
    }
    c->replay.has_nodes = first + n == n_slots; /* slices stay: a journal written anew between the two has both before this */
    return 0;
}

static int replay_intent(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    struct coord_migration *m = &c->mig;

    if (!c->train.has_layout)
        return dp_err_set(err, DP_ECORRUPT, "INTENT before any layout");
    memset(m, 0, sizeof *m);
    m->id = dp_rd_u64(r);
    m->started_ns = dp_rd_u64(r);
    if (rd_layout(r, &m->next, err) < 0)
        return -1;
    m->moved_layers = dp_rd_u32(r);
    m->moved_bytes = dp_rd_u64(r);
    dp_rd_str(r, m->reason, sizeof m->reason);
    if (m->next.n_workers != c->train.n_workers || m->next.n_layers != c->train.n_layers)
        return dp_err_set(err, DP_ECORRUPT, "INTENT %llu has another shape", (unsigned long long)m->id);
    for (uint32_t s = 0; s < c->train.n_workers; s++)
        m->is_member[s] = !c->layout.gone[s] || !m->next.gone[s];
    m->state = MIG_PREPARING;
    return 0;
}

static struct coord_handover *newest_handover(struct dp_coord *c, uint64_t id)
{
    struct coord_handover *h = c->history.n_handovers ? &c->history.handover[(c->history.n_handovers - 1) % COORD_HANDOVERS] : NULL;

    if (h && h->id == id)
        return h;
    h = &c->history.handover[c->history.n_handovers++ % COORD_HANDOVERS];
    memset(h, 0, sizeof *h);
    h->id = id;
    h->started_ns = c->mig.started_ns;
    h->moved_layers = c->mig.moved_layers;
    h->moved_bytes = c->mig.moved_bytes;
    return h;
}

static int replay_decision(struct dp_coord *c, struct dp_reader *r, bool is_commit, struct dp_err *err)
{
    uint64_t id = dp_rd_u64(r), now = dp_rd_u64(r);
    struct coord_handover *h;

    if (id != c->mig.id || c->mig.state == MIG_NONE)
        return dp_err_set(err, DP_ECORRUPT, "decision of migration %llu, the newest is %llu",
                          (unsigned long long)id, (unsigned long long)c->mig.id);
    h = newest_handover(c, id);
    h->decided_ns = c->mig.decided_ns = now;
    h->is_committed = is_commit;
    h->n_leavers = 0;
    if (is_commit) {
        c->mig.before = c->layout;
        h->epoch = dp_rd_u64(r);
        h->boundary = c->mig.boundary = dp_rd_u64(r);
        snprintf(h->reason, sizeof h->reason, "%s", c->mig.reason);
        c->layout = c->mig.next;
        c->mig.state = MIG_COMMITTED;
        c->last_commit_id = id;
        dp_layout_format(&c->layout, h->layout, sizeof h->layout);
        for (uint32_t s = 0; s < c->train.n_workers; s++)
            h->n_leavers += c->layout.gone[s] && !c->mig.before.gone[s];
        for (uint32_t s = 0; s < c->train.n_workers; s++)
            if (c->mig.before.gone[s] && !c->layout.gone[s])
                coord_seat_joined(c, s);
        return 0;
    }
    if (c->mig.state == MIG_COMMITTED) /* written by 0.1, which could not say that a COMMIT had failed */
        c->layout = c->mig.before;
    if (c->last_commit_id == id)
        c->last_commit_id = 0;
    dp_rd_str(r, h->reason, sizeof h->reason);
    snprintf(c->mig.why, sizeof c->mig.why, "%s", h->reason);
    dp_layout_format(&c->layout, h->layout, sizeof h->layout);
    c->mig.state = MIG_ABORTED;
    return 0;
}

/* INTENT and COMMIT in one. What was under way before it is over. */
static int replay_regroup(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    struct coord_migration *m = &c->mig;
    struct coord_handover *h;
    uint64_t last_id = m->id;

    if (!c->train.has_layout)
        return dp_err_set(err, DP_ECORRUPT, "REGROUP before any layout");
    memset(m, 0, sizeof *m);
    m->id = dp_rd_u64(r);
    m->started_ns = m->decided_ns = dp_rd_u64(r);
    if (rd_layout(r, &m->next, err) < 0)
        return -1;
    m->moved_layers = dp_rd_u32(r);
    m->moved_bytes = dp_rd_u64(r);
    dp_rd_str(r, m->reason, sizeof m->reason);
    if (m->next.n_workers != c->train.n_workers || m->next.n_layers != c->train.n_layers || m->id < last_id)
        return dp_err_set(err, DP_ECORRUPT, "REGROUP %llu has another shape, or comes after %llu", (unsigned long long)m->id,
                          (unsigned long long)last_id);
    for (uint32_t s = 0; s < c->train.n_workers; s++)
        m->is_member[s] = !m->next.gone[s];
    m->before = c->layout;
    m->is_regroup = true;
    m->state = MIG_COMMITTED;
    h = newest_handover(c, m->id);
    h->decided_ns = m->decided_ns;
    h->is_committed = h->is_regroup = true;
    h->epoch = m->next.epoch;
    h->n_leavers = 0;
    for (uint32_t s = 0; s < c->train.n_workers; s++)
        h->n_leavers += m->next.gone[s] && !c->layout.gone[s];
    snprintf(h->reason, sizeof h->reason, "%s", m->reason);
    c->layout = m->next;
    c->last_commit_id = c->last_regroup_id = m->id;
    dp_layout_format(&c->layout, h->layout, sizeof h->layout);
    return 0;
}

/* Release 0.1.0 ended before it. */
static uint64_t rd_copying(struct dp_reader *r)
{
    return dp_reader_at_end(r) ? 0 : dp_rd_u64(r);
}

static int replay_done(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    uint64_t id = dp_rd_u64(r);
    struct coord_handover *h;

    if (id != c->mig.id || (c->mig.state != MIG_COMMITTED && c->mig.state != MIG_NONE))
        return dp_err_set(err, DP_ECORRUPT, "DONE of migration %llu without its COMMIT", (unsigned long long)id);
    h = newest_handover(c, id);
    h->done_ns = dp_rd_u64(r);
    h->pause_max_ns = dp_rd_u64(r);
    h->pause_median_ns = dp_rd_u64(r);
    h->transfer_max_ns = dp_rd_u64(r);
    h->copying_max_ns = rd_copying(r);
    c->mig.state = MIG_NONE;
    return 0;
}

static int replay_slot(struct dp_coord *c, enum dp_record type, struct dp_reader *r, struct dp_err *err)
{
    uint32_t i = dp_rd_u32(r);
    uint64_t a = dp_rd_u64(r), b = dp_rd_u64(r);
    struct coord_slot *s = &c->slot[i < c->n_slots ? i : 0];
    char text[1024]; /* so long in journals of releases before */

    if (i >= c->n_slots || coord_is_fixed(c, i))
        return dp_err_set(err, DP_ECORRUPT, "record %d of slot %u", (int)type, i);
    dp_rd_str(r, text, sizeof text);
    snprintf(s->text, sizeof s->text, "%.255s", text);
    if (type == DP_REC_DRAIN) {
        s->state = SLOT_DRAINED;
        s->drained_ns = a;
    } else if (type == DP_REC_GONE) {
        s->state = SLOT_GONE;
        s->gone_ns = a;
        s->proof_took_ns = b;
    } else if (type == DP_REC_HELD) {
        s->state = SLOT_HELD;
    } else {
        s->state = SLOT_RELEASED;
        s->freed_ns = a;
        s->released_ns = b;
    }
    return 0;
}

static int replay_relintent(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    uint64_t now = dp_rd_u64(r);
    uint32_t n = dp_rd_u32(r), n_new = 0;

    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = dp_rd_u16(r);

        if (r->bad || i >= c->n_slots || coord_is_fixed(c, i))
            return dp_err_set(err, DP_ECORRUPT, "RELINTENT of slot %u", i);
        n_new += c->slot[i].state < SLOT_RELEASING; /* it may have been written twice */
        c->slot[i].state = SLOT_RELEASING;
        c->slot[i].intent_ns = now;
    }
    c->rel.shrinks_used += n_new > 0;
    return 0;
}

static int replay_reference(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    uint32_t n;

    c->reference.ns = dp_rd_u64(r);
    c->reference.step_ns = dp_rd_u64(r);
    c->reference.is_final = true; /* what the restart finds is not measured again */
    dp_rd_u8(r);
    n = dp_rd_u32(r);
    if (n != c->train.n_workers)
        return dp_err_set(err, DP_ECORRUPT, "speeds of %u workers, the run has %u", n, c->train.n_workers);
    for (uint32_t s = 0; s < n; s++) {
        uint32_t milli = dp_rd_u32(r);

        c->worker[s].speed = milli ? milli / 1000.0 : 1.0;
    }
    return 0;
}

static int replay_saving(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    struct coord_saving *s = &c->saving;
    double *number[] = {&s->sums.time_s[DP_WAY_RUN], &s->sums.time_s[DP_WAY_FIXED], &s->sums.time_s[DP_WAY_BALANCED],
                        &s->sums.dense_s, &s->sums.pruned_s, &s->sums.miss};

    memset(s, 0, sizeof *s);
    s->step = dp_rd_u64(r);
    s->since_ns = dp_rd_u64(r);
    s->sums.steps = dp_rd_u64(r);
    s->sums.unknown_steps = dp_rd_u64(r);
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        *number[i] = dp_rd_f64(r);
        if (!isfinite(*number[i]))
            return dp_err_set(err, DP_ECORRUPT, "a saving that is not a number");
    }
    s->sums.n_miss = dp_rd_u32(r);
    return 0;
}

static int replay_handover(struct dp_coord *c, struct dp_reader *r)
{
    uint32_t number = dp_rd_u32(r);
    struct coord_handover *h = &c->history.handover[number % COORD_HANDOVERS];
    uint8_t outcome;

    c->history.n_handovers = number + 1;
    memset(h, 0, sizeof *h);
    h->id = dp_rd_u64(r);
    h->epoch = dp_rd_u64(r);
    h->boundary = dp_rd_u64(r);
    h->started_ns = dp_rd_u64(r);
    h->decided_ns = dp_rd_u64(r);
    h->done_ns = dp_rd_u64(r);
    outcome = dp_rd_u8(r);
    h->is_committed = outcome != 0;
    h->is_regroup = outcome == HANDOVER_REGROUP;
    if (h->is_regroup)
        c->last_regroup_id = h->id;
    h->moved_layers = dp_rd_u32(r);
    h->n_leavers = dp_rd_u32(r);
    h->moved_bytes = dp_rd_u64(r);
    h->pause_max_ns = dp_rd_u64(r);
    h->pause_median_ns = dp_rd_u64(r);
    h->transfer_max_ns = dp_rd_u64(r);
    dp_rd_str(r, h->layout, sizeof h->layout);
    dp_rd_str(r, h->reason, sizeof h->reason);
    h->copying_max_ns = rd_copying(r);
    return 0;
}

static int replay_counts(struct dp_coord *c, struct dp_reader *r)
{
    c->last_commit_id = dp_rd_u64(r);
    c->rel.shrinks_used = dp_rd_u32(r);
    return 0;
}

static int replay_promise(struct dp_coord *c, struct dp_reader *r)
{
    struct coord_promise *p = &c->promise;

    dp_rd_u64(r);
    p->is_stopped = dp_rd_u8(r) != 0;
    p->n_missed = dp_rd_u32(r);
    p->until_ns = dp_rd_u64(r);
    dp_rd_str(r, p->why, sizeof p->why);
    return 0;
}

static int rd_correction(struct dp_reader *r, struct dp_correction *k, const struct dp_coord *c, struct dp_err *err)
{
    uint32_t n = dp_rd_u32(r);

    memset(k, 0, sizeof *k);
    if (!n)
        return 0;
    if (n != c->n_slots)
        return dp_err_set(err, DP_ECORRUPT, "a correction of %u slots, the run has %u", n, c->n_slots);
    for (uint32_t s = 0; s < n; s++)
        k->slot[s] = dp_rd_u16(r) / 1000.0;
    k->link_ns = dp_rd_u64(r);
    k->rest_ns = dp_rd_u64(r);
    k->scale = dp_rd_f64(r);
    if (!(k->scale >= 0.0 && k->scale <= 1.0))
        return dp_err_set(err, DP_ECORRUPT, "a correction by no number");
    return 0;
}

static int replay_balance(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    struct coord_balance *b = &c->balance;

    memset(b, 0, sizeof *b);
    b->n = dp_rd_u32(r);
    b->until_ns = dp_rd_u64(r);
    b->quiet_ns = dp_rd_u64(r);
    b->now.is_corrected = dp_rd_u8(r) != 0;
    b->now.is_balancing = dp_rd_u8(r) != 0;
    b->now.is_counted = dp_rd_u8(r) != 0;
    b->now.weights_left = dp_rd_u64(r);
    b->before.n_workers = dp_rd_u32(r);
    if (b->before.n_workers && b->before.n_workers != c->train.n_workers)
        return dp_err_set(err, DP_ECORRUPT, "a layout of %u workers, the run has %u", b->before.n_workers, c->train.n_workers);
    for (uint32_t s = 0; s < b->before.n_workers; s++)
        b->before.cut[s + 1] = dp_rd_u16(r);
    c->promise.is_corrected = dp_rd_u8(r) != 0;
    if (rd_correction(r, &b->now.correction, c, err) < 0)
        return -1;
    return rd_correction(r, &c->promise.correction, c, err);
}

static int replay_links(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    uint64_t step_ns = dp_rd_u64(r);
    uint32_t n = dp_rd_u32(r);

    if (n > DP_LINKS_MAX)
        return dp_err_set(err, DP_ECORRUPT, "%u links", n);
    coord_link_forget(c);
    for (uint32_t i = 0; i < n; i++) {
        struct coord_pair *p = &c->links.pair[i];

        p->a = dp_rd_u16(r);
        p->b = dp_rd_u16(r);
        p->ns[0] = dp_rd_u32(r);
        if (p->a >= p->b || p->b >= c->n_slots)
            return dp_err_set(err, DP_ECORRUPT, "a link between slots %u and %u of %u", p->a, p->b, c->n_slots);
        for (p->n = 1; p->n < COORD_MEDIAN; p->n++)
            p->ns[p->n] = p->ns[0];
        c->links.n++;
    }
    if (c->promise.is_corrected)
        coord_link_fill(c, step_ns, &c->promise.correction.links);
    if (c->balance.now.is_corrected)
        coord_link_fill(c, step_ns, &c->balance.now.correction.links);
    return 0;
}

static int replay_seat(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    struct coord_seat s = {.rank = dp_rd_u32(r)};

    s.slice = dp_rd_u32(r);
    s.restarts = dp_rd_u32(r);
    s.pid = dp_rd_u32(r);
    s.since_ns = dp_rd_u64(r);
    dp_rd_str(r, s.node, sizeof s.node);
    if (r->bad || s.rank >= c->n_slots || s.rank >= c->train.n_workers || !s.slice || !s.node[0] ||
        !coord_is_sliced(c) || !c->train.has_layout)
        return dp_err_set(err, DP_ECORRUPT, "SEAT %u of job %u", s.rank, s.slice);
    coord_seat_take(c, &s);
    if (!c->layout.gone[s.rank]) /* of a journal that was written anew */
        coord_seat_joined(c, s.rank);
    return 0;
}

static int replay_wanted(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    c->join.wanted = dp_rd_u32(r);
    return c->join.wanted <= DP_MAX_SLOTS ? 0 : dp_err_set(err, DP_ECORRUPT, "%u slices are wanted", c->join.wanted);
}

static int replay_grow(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    struct coord_grow *g = &c->grow;
    uint8_t state = dp_rd_u8(r), why = dp_rd_u8(r);

    memset(g, 0, sizeof *g);
    g->state = (enum coord_grow_state)state;
    g->why = (enum dp_grow_why)why;
    c->join.wanted = dp_rd_u32(r);
    g->held = dp_rd_u32(r);
    g->asked = dp_rd_u32(r);
    g->asked_ns = dp_rd_u64(r);
    g->ended_ns = dp_rd_u64(r);
    g->since_s = dp_rd_u64(r);
    g->n = dp_rd_u32(r);
    g->n_vain = dp_rd_u32(r);
    g->n_back = dp_rd_u32(r);
    g->back_of = dp_rd_u32(r);
    g->next_ns = dp_rd_u64(r);
    g->given_load = dp_rd_u64(r);
    dp_rd_str(r, g->reason, sizeof g->reason);
    dp_rd_str(r, g->text, sizeof g->text);
    if (r->bad || state > GROW_OVERTAKEN || why > DP_GROW_SPEED || c->join.wanted > c->n_slots || g->asked > c->n_slots ||
        g->held > c->n_slots || !coord_is_sliced(c))
        return dp_err_set(err, DP_ECORRUPT, "a request for %u slices of %u, %u are wanted", g->asked, c->n_slots, c->join.wanted);
    return 0;
}

static int replay_past(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    uint64_t from_ns = dp_rd_u64(r), freed_ns = dp_rd_u64(r);

    if (freed_ns < from_ns)
        return dp_err_set(err, DP_ECORRUPT, "a slot that was free before it was held");
    coord_past_add(c, from_ns, freed_ns);
    return 0;
}

static int replay_end(struct dp_coord *c, struct dp_reader *r)
{
    dp_rd_u64(r);
    dp_rd_str(r, c->life.over_why, sizeof c->life.over_why);
    c->life.is_over = true;
    coord_step_reset(c); /* what holds for the job stays: its slots, and the shrinks that were used */
    c->train.n_workers = c->train.n_layers = 0;
    return 0;
}

static int replay_one(struct dp_coord *c, enum dp_record type, struct dp_reader *r, struct dp_err *err)
{
    switch ((int)type) {
    case DP_REC_START:
        return replay_start(c, r, err);
    case DP_REC_NODES:
        return replay_nodes(c, r, err);
    case DP_REC_SLICES:
        return replay_slices(c, r, err);
    case DP_REC_WORKERS:
        return replay_workers(c, r, err);
    case DP_REC_INTENT:
        return replay_intent(c, r, err);
    case DP_REC_COMMIT:
        return replay_decision(c, r, true, err);
    case DP_REC_ABORT:
        return replay_decision(c, r, false, err);
    case DP_REC_REGROUP:
        return replay_regroup(c, r, err);
    case DP_REC_DONE:
        return replay_done(c, r, err);
    case DP_REC_DRAIN:
    case DP_REC_GONE:
    case DP_REC_RELEASED:
    case DP_REC_HELD:
        return replay_slot(c, type, r, err);
    case DP_REC_RELINTENT:
        return replay_relintent(c, r, err);
    case DP_REC_REFERENCE:
        return replay_reference(c, r, err);
    case DP_REC_SAVING:
        return replay_saving(c, r, err);
    case DP_REC_HANDOVER:
        return replay_handover(c, r);
    case DP_REC_COUNTS:
        return replay_counts(c, r);
    case DP_REC_PROMISE:
        return replay_promise(c, r);
    case DP_REC_BALANCE:
        return replay_balance(c, r, err);
    case DP_REC_LINKS:
        return replay_links(c, r, err);
    case DP_REC_MEMORY:
        return coord_memory_replay(c, r, err);
    case DP_REC_SEAT:
        return replay_seat(c, r, err);
    case DP_REC_WANTED:
        return replay_wanted(c, r, err);
    case DP_REC_GROW:
        return replay_grow(c, r, err);
    case DP_REC_PAST:
        return replay_past(c, r, err);
    case DP_REC_END:
        return replay_end(c, r);
    }
    return dp_err_set(err, DP_ECORRUPT, "unknown record %d", (int)type);
}

int dp_coord_replay(struct dp_coord *c, enum dp_record type, const void *payload, size_t bytes,
                    struct dp_err *err)
{
    struct dp_reader r;

    dp_reader_init(&r, payload, bytes);
    if (replay_one(c, type, &r, err) < 0)
        return dp_err_prefix(err, "journal of job %u", c->job.job_id);
    if (!dp_reader_at_end(&r))
        return dp_err_set(err, DP_ECORRUPT, "journal of job %u: record %d has the wrong length", c->job.job_id,
                          (int)type);
    return 0;
}
