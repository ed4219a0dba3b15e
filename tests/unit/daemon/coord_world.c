/* SPDX-License-Identifier: BSD-3-Clause */
/* See coord_world.h. */
#include "tests/unit/daemon/coord_world.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/bench/recorded_loads.h"
#include "policies/predict/links.h"
#include "policies/predict/predict.h"
#include "tests/unit/random.h"

#define SEC 1000000000ull
#define DP_REC_MEMORY 21 /* coord/internal.h */
#define DP_REC_REGROUP 23
#define DP_REC_SEAT 24
#define TICK (SEC / 5)
#define KILL_WAIT (30 * SEC)  /* of Slurm, between SIGTERM and SIGKILL */
#define SAY_AGAIN (3 * SEC)
#define REPORT (SEC / 5)
#define PRUNE_BEGIN 140u /* 7 s */
#define PRUNE_EVERY 20u
#define PRUNE_END 500u   /* 25 s */
#define MICROBATCHES 8
#define BOUNDARY_BYTES 1000
#define STATE_BYTES 100000 /* of a layer, where layer_mb is 0 */

/* Where the workers are hostile, what they do to their own run is theirs. */
static void broken(struct world *w, const char *what, unsigned a, unsigned b)
{
    if (!w->broken[0] && !w->is_hostile)
        snprintf(w->broken, sizeof w->broken, "%s (%u, %u) at %.1f s", what, a, b, (double)w->now_ns / 1e9);
}

/* What concerns others than the run's owner holds whatever he does. */
static void broken_for_all(struct world *w, const char *what, unsigned a, unsigned b)
{
    if (!w->broken[0])
        snprintf(w->broken, sizeof w->broken, "%s (%u, %u) at %.1f s", what, a, b, (double)w->now_ns / 1e9);
}

uint32_t world_draw(struct world *w, uint32_t n)
{
    uint32_t v;

    if (w->input == w->input_end)
        return random_below(&w->seed, n);
    v = *w->input++;
    if (n > 256 && w->input < w->input_end)
        v |= (uint32_t)*w->input++ << 8;
    return v % n;
}

static bool chance(struct world *w, uint32_t percent)
{
    return percent && world_draw(w, 100) < percent;
}

static uint64_t soon(struct world *w, uint32_t ms)
{
    return w->now_ns + 1 + (uint64_t)world_draw(w, ms) * 1000000u;
}

/* --- what is in the journal --- */

static uint64_t be(const uint8_t *p, int n)
{
    uint64_t v = 0;

    while (n--)
        v = v << 8 | *p++;
    return v;
}

uint32_t world_count(const struct world *w, enum dp_record type)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n_records; i++)
        n += w->record[i].type == type;
    return n;
}

/* What is older is of the slice that had the slot before. */
static uint32_t newest_seat(const struct world *w, uint32_t slot)
{
    uint32_t i = w->n_records;

    while (i > 0 && (w->record[i - 1].type != (enum dp_record)DP_REC_SEAT || be(w->record[i - 1].payload, 4) != slot))
        i--;
    return i;
}

bool world_slot_has(const struct world *w, uint32_t slot, enum dp_record type)
{
    for (uint32_t i = newest_seat(w, slot); i < w->n_records; i++) {
        const struct world_record *r = &w->record[i];

        if (r->type != type || r->is_unconfirmed)
            continue;
        if (type != DP_REC_RELINTENT) {
            if (be(r->payload, 4) == slot)
                return true;
            continue;
        }
        for (uint32_t k = 0; k < be(r->payload + 8, 4); k++)
            if (be(r->payload + 12 + 2 * k, 2) == slot)
                return true;
    }
    return false;
}

/* May this outcome be told? COMMIT when it is durable, ABORT when the disk cannot hold COMMIT. */
static bool may_tell(struct world *w, uint64_t id, bool is_commit)
{
    bool has_commit = false, has_abort = false;

    for (uint32_t i = 0; i < w->n_records; i++)
        if (be(w->record[i].payload, 8) == id) {
            has_commit |= w->record[i].type == DP_REC_COMMIT;
            has_abort |= w->record[i].type == DP_REC_ABORT;
        }
    if (is_commit)
        return w->decided[id % 64] == 1;
    w->n_told_without += !has_abort;
    return !has_commit && w->decided[id % 64] != 1;
}

/* --- the coordinator's operations --- */

struct fresh {
    uint32_t n;
    struct world_record record[W_RECORDS];
};

static enum dp_journal_fate put_fresh(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                      struct dp_err *err)
{
    struct fresh *f = arg;
    struct world_record *r = &f->record[f->n];

    if (f->n == W_RECORDS || bytes > sizeof r->payload) {
        dp_err_set(err, DP_EIO, "the world is too small");
        return DP_JOURNAL_ABSENT;
    }
    f->n++;
    *r = (struct world_record){.type = type, .bytes = (uint32_t)bytes};
    memcpy(r->payload, payload, bytes);
    return DP_JOURNAL_DURABLE;
}

/* All or nothing, also when the coordinator's daemon dies meanwhile. */
static int renew(struct world *w, struct dp_err *err)
{
    struct fresh *f = calloc(1, sizeof *f);
    bool is_crash = chance(w, w->crash_percent), is_done;

    if (!f || dp_coord_snapshot(w->c, put_fresh, f, err) < 0)
        broken_for_all(w, "no snapshot", 0, 0);
    is_done = f && !w->is_disk_full && !w->is_disk_dead && (is_crash ? chance(w, 50) : !chance(w, w->full_percent));
    if (is_done) {
        memcpy(w->record, f->record, sizeof w->record);
        w->n_records = f->n;
        w->must_renew = false;
        w->n_renewals++;
    }
    w->has_crashed |= is_crash;
    free(f);
    return is_done && !is_crash ? 0 : dp_err_set(err, DP_EIO, "the journal cannot be written anew");
}

static int op_settle(void *arg, struct dp_err *err)
{
    struct world *w = arg;

    if (w->has_crashed)
        return dp_err_set(err, DP_EIO, "the journal is gone");
    return w->must_renew ? renew(w, err) : 0;
}

static int op_reserve(void *arg, size_t bytes, struct dp_err *err)
{
    struct world *w = arg;

    (void)bytes;
    return w->has_crashed || w->is_disk_full || chance(w, w->full_percent) ? dp_err_set(err, DP_EIO, "no room") : 0;
}

static void put_record(struct world *w, enum dp_record type, const void *payload, size_t bytes, bool is_unconfirmed)
{
    struct world_record *r = &w->record[w->n_records++];

    *r = (struct world_record){.is_unconfirmed = is_unconfirmed, .type = type, .bytes = (uint32_t)bytes};
    memcpy(r->payload, payload, bytes);
}

/* It fails and its coordinator lives on. */
static enum dp_journal_fate fail_append(struct world *w, enum dp_record type, const void *payload, size_t bytes)
{
    if (w->is_disk_full || (!w->is_disk_dead && chance(w, 40)))
        return DP_JOURNAL_ABSENT;
    w->must_renew = true;
    w->n_doubts++;
    if (chance(w, 50))
        put_record(w, type, payload, bytes, true);
    return DP_JOURNAL_DOUBTFUL;
}

static enum dp_journal_fate op_journal(void *arg, enum dp_record type, const void *payload, size_t bytes,
                                       struct dp_err *err)
{
    struct world *w = arg;
    bool is_at = w->n_appends++ == w->crash_at;
    bool is_lost = is_at ? w->crash_before : world_draw(w, 2);

    if (w->fail_type && type == w->fail_type) {
        *(w->fails_in_doubt ? &w->is_disk_dead : &w->is_disk_full) = true;
        w->fail_type = 0;
    }
    dp_err_set(err, DP_EIO, "the journal is gone");
    if (w->has_crashed || ((w->must_renew || chance(w, w->renew_percent)) && renew(w, err) < 0 &&
                           (w->must_renew || w->has_crashed)))
        return DP_JOURNAL_ABSENT;
    if (w->n_records == W_RECORDS || bytes > sizeof w->record[0].payload)
        return DP_JOURNAL_ABSENT;
    w->has_crashed = is_at || chance(w, w->crash_percent);
    if (!w->has_crashed && (w->is_disk_full || w->is_disk_dead || chance(w, w->full_percent)))
        return fail_append(w, type, payload, bytes);
    if (!w->has_crashed || !is_lost)
        put_record(w, type, payload, bytes, false);
    if (w->has_crashed)
        return DP_JOURNAL_DOUBTFUL;
    if (type == DP_REC_COMMIT || type == DP_REC_REGROUP)
        w->decided[be(payload, 8) % 64] = type == DP_REC_COMMIT ? 1 : 2;
    w->n_commits += type == DP_REC_COMMIT;
    w->n_aborts += type == DP_REC_ABORT;
    w->n_released += type == DP_REC_RELEASED;
    return DP_JOURNAL_DURABLE;
}

static void post(struct world *w, bool to_worker, uint32_t rank, enum dp_msg_type type, const void *body,
                 size_t bytes)
{
    uint32_t copies = chance(w, w->loss_percent) ? 0 : chance(w, w->loss_percent) ? 2 : 1;

    for (size_t i = 0; copies && i < sizeof w->message / sizeof w->message[0]; i++) {
        struct world_message *m = &w->message[i];

        if (m->is_used || bytes > sizeof m->body)
            continue;
        *m = (struct world_message){true, to_worker, rank, type, soon(w, w->loss_percent ? 1500 : 50),
                                    (uint32_t)bytes, {0}};
        memcpy(m->body, body, bytes);
        copies--;
    }
}

/* A commit stands on equal votes of all that took part. */
static void check_votes(struct world *w, uint64_t id)
{
    const struct dp_msg_vote *first = NULL;

    for (uint32_t r = 0; r < W_MAX; r++) {
        const struct dp_msg_vote *v = &w->worker[r].vote;

        if (v->migration != id)
            continue;
        if (!v->yes || (first && (v->boundary != first->boundary ||
                                  memcmp(v->digest, first->digest, sizeof v->digest) != 0)))
            broken(w, "commit on votes that disagree", (unsigned)id, r);
        first = v;
    }
}

/* It is a decision: told when it is durable, and to nobody otherwise. */
static void check_regroup(struct world *w, const void *body, size_t bytes)
{
    struct dp_msg_regroup m;
    struct dp_reader r;

    dp_reader_init(&r, body, bytes);
    if (dp_msg_regroup_decode(&r, &m, NULL) < 0) {
        broken_for_all(w, "REGROUP that cannot be read", 0, 0);
        return;
    }
    if (m.go && w->decided[m.migration % 64] != 2)
        broken_for_all(w, "REGROUP told that is not durable", (unsigned)m.migration, (unsigned)m.epoch);
}

static void op_to_worker(void *arg, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes)
{
    struct world *w = arg;
    struct dp_msg_decision d;
    struct dp_reader r;

    if (w->has_crashed || !w->worker[rank].is_connected)
        return;
    if (type == DP_MSG_REGROUP)
        check_regroup(w, body, bytes);
    if (type == DP_MSG_DECISION) {
        dp_reader_init(&r, body, bytes);
        if (dp_msg_decision_decode(&r, &d, NULL) < 0 || !may_tell(w, d.migration, d.commit))
            broken_for_all(w, "decision told that the disk may contradict", (unsigned)d.migration, d.commit);
        else if (d.commit)
            check_votes(w, d.migration);
    }
    post(w, true, rank, type, body, bytes);
}

static bool op_is_outdated(void *arg, uint32_t slot, char *why, size_t cap)
{
    const struct world *w = arg;

    if (w->is_old[slot])
        snprintf(why, cap, "n%u is old", slot);
    return w->is_old[slot];
}

static void op_stop_slot(void *arg, uint32_t slot, uint32_t grace_ms)
{
    struct world *w = arg;

    if (w->has_crashed)
        return;
    if (w->job.slice[slot])
        broken_for_all(w, "stop of a slice", slot, grace_ms);
    if (!world_slot_has(w, slot, DP_REC_DRAIN) || slot == 0)
        broken_for_all(w, "stop of a slot that was not drained", slot, grace_ms);
    if (w->is_old[slot])
        broken_for_all(w, "stop of a slot whose daemon is old", slot, grace_ms);
    if (!w->stop_at_ns[slot] && !chance(w, w->loss_percent)) {
        w->stop_at_ns[slot] = soon(w, 1000);
        w->stop_incarnation[slot] = dp_coord_incarnation(w->c);
    }
}

static void op_requeue(void *arg, bool may_requeue)
{
    struct world *w = arg;

    w->n_requeues++;
    w->n_cancels += !may_requeue;
}

static void op_shrink(void *arg, const uint8_t keep[DP_MAX_SLOTS])
{
    struct world *w = arg;

    if (w->has_crashed)
        return;
    if (w->job.slice[0])
        broken_for_all(w, "Slurm is asked to shrink slices", 0, 0);
    w->n_shrinks++;
    for (uint32_t s = 0; s < W_MAX; s++) {
        w->keep[s] = keep[s];
        if (keep[s] || !w->held[s])
            continue;
        if (s == 0)
            broken_for_all(w, "release of the batch host", s, 0);
        if (!world_slot_has(w, s, DP_REC_GONE) || !world_slot_has(w, s, DP_REC_RELINTENT))
            broken_for_all(w, "release without proof or intent", s, 0);
        if (w->worker[s].is_alive || w->worker[s].is_stray || !w->is_fenced[s])
            broken_for_all(w, "release of a slot with a live process", s, 0);
    }
    w->shrink_at_ns = soon(w, 500);
}

static void op_memory(void *arg, uint32_t mb)
{
    struct world *w = arg;

    if (w->has_crashed)
        return;
    w->n_memory++;
    if (!world_count(w, (enum dp_record)DP_REC_MEMORY))
        broken_for_all(w, "memory is asked for that is not in the journal", mb, 0);
    w->mem_asked_mb = mb;
    w->mem_at_ns = soon(w, 500);
}

static void op_read_job(void *arg)
{
    struct world *w = arg;

    if (w->has_crashed)
        return;
    w->n_reads++;
    w->read_at_ns = soon(w, 300);
}

static void op_find_worker(void *arg, uint32_t rank)
{
    struct world *w = arg;

    if (!w->has_crashed && !chance(w, w->loss_percent))
        w->must_find[rank] = true;
}

/* Where its node's daemon cannot tell, its connection is lost, too. */
static void tell_lost(struct world *w, uint32_t rank)
{
    bool is_told = !w->is_cut_off[rank] && !chance(w, w->loss_percent);
    struct dp_msg_worker_lost m = {w->job.job_id, rank, w->worker[rank].pid, is_told};

    if (w->c && !w->has_crashed)
        dp_coord_worker_lost(w->c, w->now_ns, &m);
}

void world_kill(struct world *w, uint32_t rank)
{
    struct world_worker *k = &w->worker[rank];

    k->is_alive = k->is_connected = false;
    k->doubt = k->vote_at_ns = 0;
    tell_lost(w, rank);
}

void world_take(struct world *w, uint32_t rank)
{
    w->worker[rank].taken_ns = w->now_ns;
}

/* It says so again and again until it is let go. */
static void taken_tick(struct world *w, uint32_t r)
{
    struct world_worker *k = &w->worker[r];

    if (w->now_ns - k->taken_ns > KILL_WAIT) {
        world_kill(w, r);
    } else if (k->is_connected && !k->layout.gone[r] && (!k->said_ns || w->now_ns - k->said_ns > SAY_AGAIN)) {
        k->said_ns = w->now_ns;
        if (!chance(w, w->loss_percent))
            dp_coord_event(w->c, w->now_ns, r, &(struct dp_msg_event){.kind = DP_EV_LEAVE, .step = k->step});
    }
}

/* Worked out at once, told later; with faults some children die. */
static int op_plan(void *arg, double deadline_s, struct dp_err *err)
{
    struct world *w = arg;

    if (w->is_planning)
        broken_for_all(w, "two questions at once", 0, 0);
    if (!(deadline_s > 0.0))
        broken_for_all(w, "a question without a deadline", 0, 0);
    if (chance(w, w->loss_percent))
        return dp_err_set(err, DP_ENOMEM, "no child");
    w->is_planning = true;
    w->planned_at_ns = soon(w, w->plan_ms);
    w->plan_bytes = w->planner_dies || chance(w, w->loss_percent) ? 0 : (uint32_t)dp_coord_plan(w->c, w->plan);
    return 0;
}

static void plan_tick(struct world *w)
{
    if (!w->is_planning || w->now_ns < w->planned_at_ns || !w->c || w->has_crashed)
        return;
    w->is_planning = false;
    dp_coord_planned(w->c, w->now_ns, w->plan_bytes ? w->plan : NULL, w->plan_bytes,
                     w->plan_bytes ? "" : "the helper process died");
}

/* --- workers --- */

uint32_t world_job_of(const struct world *w, uint32_t slot)
{
    return w->job.slice[slot] ? w->job.slice[slot] : w->job.job_id;
}

static void hello_of(const struct world *w, uint32_t r, struct dp_msg_hello *m)
{
    const struct world_worker *k = &w->worker[r];

    memset(m, 0, sizeof *m);
    m->job_id = world_job_of(w, r);
    m->rank = r;
    m->n_workers = W_MAX;
    m->n_layers = W_LAYERS;
    m->epoch = k->layout.epoch;
    m->doubt = k->doubt;
    m->step = k->step;
    m->steps_total = w->steps_total;
    m->prune_begin = PRUNE_BEGIN;
    m->prune_end = PRUNE_END;
    m->final_sparsity = 0.9;
    m->n_changes = (uint8_t)dp_changes_of_pruning(PRUNE_BEGIN, PRUNE_EVERY, PRUNE_END, 0.0, 0.9, m->change);
    m->blocks_differ = w->blocks_differ || k->has_own_costs;
    m->is_fixed = k->is_fixed;
    m->stays = k->stays;
    snprintf(m->trainer, sizeof m->trainer, "%s", w->trainer ? w->trainer : "");
    if (w->n_freezes) {
        m->prune_begin = m->prune_end = 0;
        m->n_changes = w->freezes_by_rule ? 0 : (uint8_t)w->n_freezes;
        memcpy(m->change, w->freeze, sizeof w->freeze);
    }
    m->microbatches = MICROBATCHES;
    m->tokens_per_microbatch = 64;
    m->stage_message_bytes = BOUNDARY_BYTES;
    m->mem_limit_bytes = w->mem_limit_bytes;
    m->regroups = !k->is_alone;
    m->n_there = w->n_there;
    m->joins = k->is_newcomer;
    m->is_gone = k->layout.gone[r];
    m->incarnation = w->heard_incarnation;
    m->migration = k->seen;
    m->heard_epoch = k->layout.epoch;
    m->leader = dp_layout_leader(&k->layout);
    memcpy(m->cut, k->layout.cut, sizeof m->cut);
    snprintf(m->checkpoint_dir, sizeof m->checkpoint_dir, "%s", w->has_checkpoints ? "/ckpt" : "");
}

static void connect_worker(struct world *w, uint32_t r)
{
    struct world_worker *k = &w->worker[r];
    struct dp_msg_welcome welcome;
    struct dp_msg_hello m;

    hello_of(w, r, &m);
    k->is_connected = true;
    dp_coord_hello(w->c, w->now_ns, w->job.node[r], k->pid, &m, &welcome);
    if (w->has_crashed) {
        k->is_connected = false;
        return;
    }
    k->copies = welcome.copies;
    if (welcome.verdict == DP_VERDICT_OK)
        return;
    k->is_connected = false;
    k->connect_at_ns = w->now_ns + SEC;
    if (k->is_newcomer && welcome.verdict != DP_VERDICT_UNKNOWN)
        broken(w, "a newcomer with a seat was refused", r, welcome.verdict);
    if (!k->layout.gone[r])
        broken(w, welcome.text[0] ? "a good worker was refused" : "refused without a reason", r, welcome.verdict);
}

/* A new process of the run on a slot: must never be let in once the slot was drained, and never as
 * the rank of a process that lives. */
static void try_start(struct world *w, uint32_t r)
{
    struct dp_msg_welcome welcome;
    struct dp_msg_hello m;

    if (w->worker[r].is_newcomer || !w->job.slice[r] != !w->job.slice[0])
        return; /* the first process of a seat has it; nobody names one that is empty */
    hello_of(w, r, &m);
    m.epoch = 1;
    m.doubt = 0;
    m.step = 0;
    memcpy(m.cut, ((uint32_t[W_MAX + 1]){0, 2, 4, 6, 8}), (W_MAX + 1) * sizeof(uint32_t));
    dp_coord_hello(w->c, w->now_ns, w->job.node[r], w->worker[r].pid + 5000, &m, &welcome);
    if (w->has_crashed)
        return;
    if (welcome.verdict == DP_VERDICT_OK)
        broken(w, "a second process was let in", r, world_slot_has(w, r, DP_REC_RELINTENT));
    else if (world_slot_has(w, r, DP_REC_GONE) && welcome.verdict != DP_VERDICT_FENCED)
        broken_for_all(w, "a start on a dead slot was not fenced", r, welcome.verdict);
    else
        w->n_refused_starts++;
}

static void send_up(struct world *w, uint32_t r, enum dp_msg_type type, const uint8_t *body,
                    const struct dp_writer *wr)
{
    if (w->worker[r].is_connected && !wr->bad)
        post(w, false, r, type, body, dp_writer_used(wr));
}

static void send_ack(struct world *w, uint32_t r, uint64_t id)
{
    struct dp_msg_decision_ack m = {id, r, w->worker[r].layout.epoch, 5000000 + r, 3000000, 0};
    uint8_t body[128];
    struct dp_writer wr;

    w->worker[r].answered = id; /* it never says so again, even when this is lost */
    dp_writer_init(&wr, body, sizeof body);
    dp_msg_decision_ack_encode(&wr, &m);
    send_up(w, r, DP_MSG_DECISION_ACK, body, &wr);
}

static void send_vote(struct world *w, uint32_t r)
{
    uint8_t body[512];
    struct dp_writer wr;

    dp_writer_init(&wr, body, sizeof body);
    dp_msg_vote_encode(&wr, &w->worker[r].vote);
    send_up(w, r, DP_MSG_VOTE, body, &wr);
}

/* The leader tells a newcomer what the others are at, at the boundary where they all hand over. */
static void heed_leader(const struct world *w, struct world_worker *k, const struct dp_msg_prepare *p)
{
    struct dp_layout next = {.n_workers = p->n_workers};
    const struct world_worker *leader;

    memcpy(next.gone, p->gone, sizeof next.gone);
    leader = &w->worker[dp_layout_leader(&next)];
    if (!leader->is_alive || leader->layout.epoch != p->epoch)
        return;
    k->layout = leader->layout;
    k->step = leader->step;
}

/* Each is told what comes to it: nothing without layers, and no more than reports said. Loads of recorded runs have sizes of their own. */
static void check_coming(struct world *w, const struct world_worker *k, uint32_t r, const struct dp_msg_prepare *p)
{
    uint64_t most = w->layer_mb ? (uint64_t)w->layer_mb << 20 : STATE_BYTES, n = 0;

    if (p->epoch != k->layout.epoch || w->is_recorded || w->is_timed)
        return;
    for (uint32_t l = p->cut[r]; l < p->cut[r + 1]; l++)
        n += l < k->layout.cut[r] || l >= k->layout.cut[r + 1];
    if (p->coming_bytes > n * most)
        broken_for_all(w, "a worker is told of more bytes that come than layers have", (unsigned)(p->coming_bytes >> 10), (unsigned)n);
    w->n_told_coming += p->coming_bytes > 0;
}

static void worker_prepare(struct world *w, uint32_t r, const struct dp_msg_prepare *p)
{
    struct world_worker *k = &w->worker[r];

    check_coming(w, k, r, p);
    if (k->doubt == p->migration || (k->has_voted_no && k->seen == p->migration)) {
        send_vote(w, r); /* heard again: say it again */
        return;
    }
    if (k->is_newcomer && !k->doubt && p->migration > k->seen && !p->gone[r])
        heed_leader(w, k, p);
    if (k->doubt || p->migration <= k->seen || p->epoch != k->layout.epoch || (k->is_newcomer && p->gone[r]))
        return;
    k->seen = p->migration;
    k->next = (struct dp_layout){.epoch = p->epoch + 1, .n_workers = p->n_workers, .n_layers = p->n_layers};
    memcpy(k->next.cut, p->cut, sizeof k->next.cut);
    memcpy(k->next.gone, p->gone, sizeof k->next.gone);
    k->vote = (struct dp_msg_vote){.incarnation = p->incarnation, .migration = p->migration, .rank = r,
                                   .yes = !chance(w, w->no_percent), .boundary = p->migration * 10 + p->incarnation};
    if (chance(w, w->no_percent))
        k->vote.digest[3] = (uint8_t)(r + 1);
    k->has_voted_no = !k->vote.yes;
    k->vote_at_ns = w->now_ns + 1 + (w->vote_ms / 2 + world_draw(w, w->vote_ms / 2)) * 1000000ull;
}

static void worker_decision(struct world *w, uint32_t r, const struct dp_msg_decision *d)
{
    struct world_worker *k = &w->worker[r];
    uint64_t id = d->migration % 64;

    if (k->doubt != d->migration) {
        if (d->commit && k->seen < d->migration)
            broken(w, "commit of a migration that was never voted for", r, (unsigned)d->migration);
        if (!d->commit && d->migration >= k->seen) {
            k->seen = d->migration;
            k->vote_at_ns = 0;
            k->has_voted_no = false;
        }
        if (k->answered < d->migration || k->is_newcomer) /* no report says the same for a newcomer: it says it again */
            send_ack(w, r, d->migration);
        return;
    }
    k->doubt = 0;
    w->outcome[id] |= d->commit ? 1 : 2;
    if (w->outcome[id] == 3)
        broken(w, "one worker commits, another aborts", r, (unsigned)d->migration);
    if (d->commit) {
        if (k->is_newcomer)
            k->step = w->worker[dp_layout_leader(&k->next)].step;
        k->is_newcomer = false;
        k->layout = k->next;
        if (d->epoch != k->layout.epoch)
            broken(w, "commit into another epoch", (unsigned)d->epoch, (unsigned)k->layout.epoch);
    }
    send_ack(w, r, d->migration);
}

/* Does it wait for one that is lost? It makes no step. */
static bool waits_for_lost(const struct world *w, const struct world_worker *k)
{
    for (uint32_t r = 0; r < W_MAX; r++)
        if (!k->layout.gone[r] && !w->worker[r].is_alive)
            return true;
    return false;
}

/* Every hundredth step has a checkpoint. */
static void worker_regroup(struct world *w, uint32_t r, const struct dp_msg_regroup *m)
{
    struct world_worker *k = &w->worker[r];

    if (!m->go) {
        k->n_refusals++;
        if (k->is_newcomer && !k->exit_at_ns)
            k->exit_at_ns = soon(w, 400);
        return;
    }
    if (m->epoch > k->layout.epoch) {
        if (k->doubt && m->migration <= k->doubt)
            broken(w, "an older REGROUP than the hand-over in doubt", (unsigned)m->migration, (unsigned)k->doubt);
        k->layout = (struct dp_layout){.epoch = m->epoch, .n_workers = m->n_workers, .n_layers = m->n_layers};
        memcpy(k->layout.cut, m->cut, sizeof k->layout.cut);
        memcpy(k->layout.gone, m->gone, sizeof k->layout.gone);
        k->n_regroups++;
        k->doubt = k->vote_at_ns = 0;
        k->has_voted_no = false;
        k->seen = m->migration;
        k->step = k->step / 100 * 100;
        k->is_newcomer &= k->layout.gone[r];
        if (k->layout.gone[r] && !k->is_newcomer)
            k->exit_at_ns = soon(w, 400);
        if (r == dp_layout_leader(&k->layout) && w->c && !w->has_crashed) {
            struct dp_msg_event said = {.kind = DP_EV_REGROUPED, .step = k->step};

            snprintf(said.text, sizeof said.text, "%.900s; they go on", m->text);
            dp_coord_event(w->c, w->now_ns, r, &said);
        }
    }
    if (m->epoch == k->layout.epoch && !k->is_newcomer)
        send_ack(w, r, m->migration);
}

static void worker_message(struct world *w, const struct world_message *m)
{
    struct world_worker *k = &w->worker[m->rank];
    struct dp_reader r;

    if (!k->is_alive || !k->is_connected || k->hangs)
        return;
    dp_reader_init(&r, m->body, m->bytes);
    if (m->type == DP_MSG_PREPARE) {
        struct dp_msg_prepare p;

        if (dp_msg_prepare_decode(&r, &p, NULL) == 0)
            worker_prepare(w, m->rank, &p);
    } else if (m->type == DP_MSG_DECISION) {
        struct dp_msg_decision d;

        if (dp_msg_decision_decode(&r, &d, NULL) == 0)
            worker_decision(w, m->rank, &d);
    } else if (m->type == DP_MSG_PING) {
        struct dp_msg_pong answer = {.rank = m->rank};
        struct dp_msg_ping p;

        if (w->c && !w->has_crashed && dp_msg_ping_decode(&r, &p, NULL) == 0) {
            answer.number = p.number;
            dp_coord_pong(w->c, w->now_ns, &answer);
        }
    } else if (m->type == DP_MSG_LIMIT) {
        struct dp_msg_limit l;

        if (dp_msg_limit_decode(&r, &l, NULL) == 0) {
            k->left_ms = l.left_ms;
            k->n_limits++;
        }
    } else if (m->type == DP_MSG_SAVE) {
        struct dp_msg_save s;

        k->n_stops += dp_msg_save_decode(&r, &s, NULL) == 0 && s.stop;
    } else if (m->type == DP_MSG_PROPOSAL) {
        if (dp_msg_proposal_decode(&r, &k->proposal, NULL) < 0)
            broken_for_all(w, "PROPOSAL that cannot be read", 0, 0);
        k->n_proposals++;
    } else if (m->type == DP_MSG_REGROUP) {
        struct dp_msg_regroup g;

        if (dp_msg_regroup_decode(&r, &g, NULL) == 0)
            worker_regroup(w, m->rank, &g);
    } else if (m->type == DP_MSG_FINISH && k->layout.gone[m->rank] && !k->is_newcomer && !k->doubt && !k->exit_at_ns) {
        k->exit_at_ns = soon(w, 400);
    }
}

/* Block `layer` at a step, as policies/bench/recorded_loads.h has it. */
static struct dp_layer_load recorded_load(uint64_t step, uint32_t layer)
{
    uint64_t at = step < PRUNE_BEGIN ? PRUNE_BEGIN : step > PRUNE_END ? PRUNE_END : step;
    double left = 1.0 - (double)(at / PRUNE_EVERY * PRUNE_EVERY - PRUNE_BEGIN) / (PRUNE_END - PRUNE_BEGIN);
    double density = 1.0 - 0.9 * (1.0 - left * left * left);
    uint64_t t = (uint64_t)(recorded_ms(density) * 1e6 / 24 * (1.0 + 0.01 * (layer % 3)));

    return (struct dp_layer_load){t, t, t, 3173688, 2637824, 198272,
                                  (uint64_t)(198272 * density * (density < 1.0 ? 1.0 + 0.02 * (layer % 3) : 1.0))};
}

double world_loss(uint64_t step)
{
    return 1000.0 / (double)(100 + step);
}

/* From -1 to 1, of a layer at a step. */
static double scattered(uint64_t step, uint32_t layer)
{
    uint64_t seed = step * W_LAYERS + layer;

    return (double)random_below(&seed, 2001) / 1000.0 - 1.0;
}

static struct dp_layer_load load_of(const struct world *w, uint64_t step, uint32_t layer)
{
    double done = step <= PRUNE_BEGIN ? 0.0
                  : step >= PRUNE_END ? 1.0
                                      : (double)(step - PRUNE_BEGIN) / (PRUNE_END - PRUNE_BEGIN);
    double density = w->density[layer] > 0.0 ? w->density[layer] : w->n_freezes ? 1.0 : 1.0 - 0.9 * done;
    uint64_t t = (uint64_t)(1e6 * (1.0 + 8.0 * density) / 9.0 * (1.0 + 0.1 * (layer % 3)) *
                            (1.0 + w->scatter * scattered(step, layer)));

    if (w->is_recorded || w->is_timed)
        return recorded_load(step, layer);
    if (layer < dp_changes_value(w->freeze, w->n_freezes, DP_CHANGE_FREEZE, step))
        return (struct dp_layer_load){t, 0, 0, 25000, 0, 10000, 10000};
    return (struct dp_layer_load){t, t, t, STATE_BYTES, 1000, 10000, w->all_params_left ? 10000 : (uint64_t)(10000 * density)};
}

/* Device time of a microbatch on worker r, in the layout that k knows. */
static uint64_t stage_ns(const struct world *w, const struct world_worker *k, uint32_t r)
{
    uint64_t ns = 0;

    for (uint32_t l = k->layout.cut[r]; l < k->layout.cut[r + 1]; l++) {
        struct dp_layer_load load = load_of(w, k->step, l);

        ns += load.fwd_ns + load.bwd_input_ns + load.bwd_weight_ns;
    }
    return ns;
}

/* That of the slowest stage; n: = stages. */
static uint64_t slowest_stage_ns(const struct world *w, const struct world_worker *k, uint32_t *n)
{
    uint64_t slowest = 0;

    *n = 0;
    for (uint32_t r = 0; r < W_MAX; r++) {
        uint64_t ns = stage_ns(w, k, r);

        slowest = ns > slowest ? ns : slowest;
        *n += ns > 0;
    }
    return slowest;
}

/* How many times its device time a worker takes now: drawn anew every 1 to 4 s. */
static double noise_of(const struct world *w, const struct world_worker *k, uint32_t r)
{
    uint32_t n;
    uint64_t seed = w->noise_seed + r * 7919, period_ns = SEC * (1 + r % 4), at = (w->now_ns + r * SEC / 3) / period_ns;

    seed = seed * 1000003 + at;
    (void)random_below(&seed, 2);
    if (w->is_followed)
        return stage_ns(w, k, r) == slowest_stage_ns(w, k, &n) ? w->noise : 1.0;
    return 1.0 + (w->noise - 1.0) * random_below(&seed, 1001) / 1000;
}

static void true_links(const struct world *w, struct dp_links *l)
{
    memset(l, 0, sizeof *l);
    for (uint32_t a = 0; a < W_MAX; a++)
        for (uint32_t b = a + 1; b < W_MAX; b++)
            dp_links_set(l, a, b, (uint32_t)w->link_ns[a][b]);
}

/* Step of this layout, where device d takes factor[d] times the device time of its layers. */
static uint64_t pipeline_ns(const struct world *w, const struct dp_layout *layout, uint64_t step, const double *factor)
{
    struct dp_links links;
    struct dp_layer_load load[W_LAYERS];
    struct dp_device device[W_MAX];
    struct dp_policy_in in = {.n_layers = W_LAYERS, .n_devices = W_MAX, .n_slots = W_MAX, .layer = load,
                              .current = layout, .device = device, .microbatches = MICROBATCHES,
                              .stage_message_bytes = BOUNDARY_BYTES, .link_bytes_per_s = 1e9};
    uint64_t ns = 0;

    for (uint32_t l = 0; l < W_LAYERS; l++)
        load[l] = load_of(w, step, l);
    for (uint32_t d = 0; d < W_MAX; d++)
        device[d] = (struct dp_device){.speed = 1.0 / factor[d], .slot = d};
    true_links(w, &links);
    in.links = &links;
    if (dp_predict_layout(&in, layout, NULL, &ns, NULL) < 0)
        abort();
    return ns;
}

/* Others have the cores for some seconds: own work takes longer, and the whole pipeline waits for it. */
static void measure_noise(const struct world *w, const struct world_worker *k, uint64_t device_ns, struct dp_msg_report *m)
{
    double factor[W_MAX];
    uint64_t own_ns;

    for (uint32_t r = 0; r < W_MAX; r++)
        factor[r] = noise_of(w, k, r);
    own_ns = (uint64_t)((double)device_ns * factor[k - w->worker]);
    m->step_ns = 1000000 + pipeline_ns(w, &k->layout, k->step, factor);
    m->wait_ns = m->step_ns > own_ns ? m->step_ns - own_ns : 0;
    m->lost_ns = own_ns - device_ns;
}

/* The first microbatch on its way to the last stage and back, as each worker sees it; its messages are waited for. */
static void measure_links(const struct world *w, const struct world_worker *k, uint64_t device_ns, struct dp_msg_report *m)
{
    const double factor[W_MAX] = {1.0, 1.0, 1.0, 1.0};
    uint32_t self = (uint32_t)(k - w->worker), next = W_MAX;
    uint64_t held_ns = 0;

    for (uint32_t r = W_MAX; r-- > self;) {
        if (!stage_ns(w, k, r))
            continue;
        m->ahead_ns = next == W_MAX ? 0 : held_ns + 2 * w->link_ns[r][next];
        held_ns = m->ahead_ns + stage_ns(w, k, r);
        next = r;
    }
    m->held_ns = held_ns;
    m->step_ns = 1000000 + pipeline_ns(w, &k->layout, k->step, factor);
    m->wait_ns = m->step_ns - device_ns;
}

/* A step as it is measured: of 1F1B, and a millisecond that no prediction knows. */
static void measure_step(const struct world *w, const struct world_worker *k, struct dp_msg_report *m)
{
    uint32_t n;
    uint64_t device_ns = slowest_stage_ns(w, k, &n) * MICROBATCHES, pipe_ns = device_ns / MICROBATCHES * (n ? n - 1 : 0);
    double factor = n <= w->crowded && (n > 1 || !w->is_network) ? w->crowd_factor : 1.0;

    m->step_ns = w->is_timed ? world_step_ns(&k->layout, k->step) : w->step_ns;
    if (m->step_ns)
        return;
    if (w->has_links) {
        measure_links(w, k, stage_ns(w, k, (uint32_t)(k - w->worker)) * MICROBATCHES, m);
        return;
    }
    if (w->noise > 1.0) {
        measure_noise(w, k, stage_ns(w, k, (uint32_t)(k - w->worker)) * MICROBATCHES, m);
        return;
    }
    m->step_ns = 1000000 + (uint64_t)((double)(device_ns + pipe_ns) * factor);
    m->wait_ns = w->is_network ? m->step_ns - device_ns : (uint64_t)((double)pipe_ns * factor);
    m->lost_ns = w->is_network ? 0 : (uint64_t)((double)device_ns * (factor - 1.0));
}

/* Of a worker: its layers by their nonzeros. */
static uint64_t stage_mb(const struct world *w, const struct world_worker *k, uint32_t r, uint64_t *largest)
{
    uint64_t mb = 0;

    *largest = 0;
    for (uint32_t l = k->layout.cut[r]; l < k->layout.cut[r + 1]; l++) {
        struct dp_layer_load load = load_of(w, k->step, l);
        uint64_t one = (uint64_t)w->layer_mb * load.nnz / load.params + 1;

        mb += one;
        *largest = one > *largest ? one : *largest;
    }
    return mb;
}

/* A worker has 50 MiB besides, the script of the batch host 20. */
static void measure_memory(const struct world *w, const struct world_worker *k, struct dp_msg_report *m)
{
    uint64_t largest, mb = stage_mb(w, k, m->rank, &largest);

    m->mem_bytes = mb << 20;
    m->rss_bytes = (mb + 50) << 20;
    m->need_bytes = (mb + 50 + 16 + 2 * largest) << 20;
    for (uint32_t i = 0; i < m->n_layers; i++)
        m->layer[i].state_bytes = (uint64_t)w->layer_mb * m->layer[i].nnz / m->layer[i].params << 20;
}

/* Does a node take more than the job has there? */
static void check_memory(struct world *w)
{
    for (uint32_t r = 0; w->layer_mb && r < W_MAX; r++) {
        uint64_t largest, mb = stage_mb(w, &w->worker[r], r, &largest) + 50 + 20;

        if (w->worker[r].is_alive && mb > w->mem_mb)
            broken_for_all(w, "a worker is ended for its memory", (unsigned)mb, w->mem_mb);
    }
}

/* Each worker's layers are copied to the next one that is in the layout and has layers; bytes tell nothing but who has how many. */
static void measure_copies(const struct world *w, const struct world_worker *k, struct dp_msg_report *m)
{
    uint32_t next = m->rank, before = m->rank;

    do
        next = (next + 1) % W_MAX;
    while (next != m->rank && k->layout.cut[next + 1] == k->layout.cut[next]);
    do
        before = (before + W_MAX - 1) % W_MAX;
    while (before != m->rank && k->layout.cut[before + 1] == k->layout.cut[before]);
    if (next == m->rank || !m->n_layers)
        return;
    m->copy_layers = m->n_layers;
    m->copy_whole = m->n_layers - (w->copies_missing < m->n_layers ? w->copies_missing : m->n_layers);
    m->copy_holder = next;
    m->copy_held = k->layout.cut[before + 1] - k->layout.cut[before];
    m->copy_bytes = (uint64_t)m->copy_held << 20;
    m->copy_step_bytes = (uint64_t)m->copy_layers << 18;
}

static void send_report(struct world *w, uint32_t r, bool is_garbage)
{
    struct world_worker *k = &w->worker[r];
    struct dp_msg_report *m = calloc(1, sizeof *m);
    uint32_t a = k->layout.cut[r], n = k->layout.cut[r + 1] - a;
    uint8_t body[1600];
    struct dp_writer wr;

    *m = (struct dp_msg_report){.rank = r, .epoch = k->layout.epoch, .step = k->step, .window_steps = 1,
                                .loss = world_loss(k->step), .grad_norm = NAN, .busy_ns = SEC / 40,
                                .optimizer_ns = 1000, .mem_bytes = 1000, .first_layer = a, .n_layers = n};
    measure_step(w, k, m);
    for (uint32_t i = 0; i < n; i++)
        m->layer[i] = load_of(w, k->step, a + i);
    if (w->layer_mb)
        measure_memory(w, k, m);
    if (w->limits.copies)
        measure_copies(w, k, m);
    switch (is_garbage ? world_draw(w, w->limits.copies ? 9 : 6) : 99) {
    case 0: m->loss = -INFINITY; break;
    case 1: m->epoch += 50 + world_draw(w, 5); break; /* broken, but no liar about a decision */
    case 2: m->step_ns = UINT64_MAX; break;
    case 3: m->first_layer += 1; break;
    case 4: m->step = W_STEPS + 5; break;
    case 5: m->layer[0].nnz = 1ull << 60; m->n_layers = 1; break;
    case 6: m->copy_layers = n + 1; break;
    case 7: m->copy_whole = m->copy_layers + 1; break;
    case 8: m->copy_holder = W_MAX; m->copy_layers = n; m->copy_bytes = UINT64_MAX; break;
    }
    dp_writer_init(&wr, body, sizeof body);
    dp_msg_report_encode(&wr, m);
    send_up(w, r, DP_MSG_REPORT, body, &wr);
    free(m);
}

static void worker_exits(struct world *w, uint32_t r)
{
    struct dp_msg_goodbye bye = {.rank = r, .how = DP_BYE_DRAINED, .step = w->worker[r].step, .loss = NAN};
    uint8_t body[512];
    struct dp_writer wr;

    dp_writer_init(&wr, body, sizeof body);
    dp_msg_goodbye_encode(&wr, &bye);
    send_up(w, r, DP_MSG_GOODBYE, body, &wr);
    w->worker[r].is_alive = false;
    w->worker[r].is_stray = chance(w, 20);
    if (w->c && !w->has_crashed) {
        struct dp_msg_worker_lost m = {7, r, w->worker[r].pid, 1};

        dp_coord_worker_lost(w->c, w->now_ns, &m);
    }
}

uint64_t world_step_ns(const struct dp_layout *layout, uint64_t step)
{
    struct dp_layer_load load[W_LAYERS];
    struct dp_device device[W_MAX] = {{.speed = 1.0}, {.speed = 1.0}, {.speed = 1.0}, {.speed = 1.0}};
    struct dp_policy_in in = {.n_layers = W_LAYERS, .n_devices = W_MAX, .n_slots = W_MAX, .layer = load,
                              .current = layout, .device = device, .microbatches = MICROBATCHES,
                              .stage_message_bytes = BOUNDARY_BYTES, .link_bytes_per_s = 1e9};
    uint64_t ns = 0;

    for (uint32_t l = 0; l < W_LAYERS; l++)
        load[l] = recorded_load(step, l);
    if (dp_predict_layout(&in, layout, NULL, &ns, NULL) < 0)
        abort();
    return ns + ns / 2;
}

/* Four steps in the time of one tick, or as many as fit. */
static void train(const struct world *w, struct world_worker *k)
{
    uint64_t ns;

    if (!w->is_timed) {
        k->step += 4;
        return;
    }
    k->credit_ns += TICK;
    while (k->step < w->steps_total && (ns = world_step_ns(&k->layout, k->step)) <= k->credit_ns) {
        k->credit_ns -= ns;
        k->step++;
    }
}

static void worker_tick(struct world *w, uint32_t r)
{
    struct world_worker *k = &w->worker[r];

    if (!k->is_alive)
        return;
    if (!k->is_connected && w->c && !w->has_crashed && w->now_ns >= k->connect_at_ns)
        connect_worker(w, r);
    if (w->has_crashed)
        return;
    if (k->exit_at_ns && w->now_ns >= k->exit_at_ns) {
        worker_exits(w, r);
        return;
    }
    if (k->taken_ns)
        taken_tick(w, r);
    if (!k->is_alive || w->has_crashed)
        return;
    if (k->vote_at_ns && w->now_ns >= k->vote_at_ns && !k->is_slow) {
        k->vote_at_ns = 0;
        k->doubt = k->vote.yes ? k->vote.migration : 0;
        send_vote(w, r);
    }
    for (uint32_t i = 0; i < W_MAX; i++)
        if (w->worker[i].hangs && !w->worker[i].is_newcomer)
            return; /* the others wait for it */
    if (waits_for_lost(w, k) || k->is_newcomer)
        return;
    if (!k->doubt)
        train(w, k);
    if (k->is_connected && !k->doubt && w->now_ns - k->reported_ns >= REPORT) { /* in doubt it stands still */
        k->reported_ns = w->now_ns;
        send_report(w, r, false);
    }
}

/* --- node daemons and slurmctld --- */

static void node_tick(struct world *w, uint32_t s)
{
    struct dp_msg_slot_gone m = {.job_id = world_job_of(w, s), .took_ns = 1000, .incarnation = w->stop_incarnation[s]};

    if (w->must_find[s] && !w->worker[s].is_alive)
        tell_lost(w, s);
    w->must_find[s] = false;
    if (!w->stop_at_ns[s] || w->now_ns < w->stop_at_ns[s] || w->is_cut_off[s])
        return;
    w->stop_at_ns[s] = 0;
    if (!w->is_stuck[s]) {
        w->worker[s].is_alive = w->worker[s].is_stray = false;
        w->is_fenced[s] = true;
    }
    m.gone = w->is_fenced[s];
    snprintf(m.text, sizeof m.text, "%s%0900d", m.gone ? "cgroup empty" : "a process cannot be killed", 0); /* or many of them */
    w->last_gone[s] = m;
    if (w->c && !w->has_crashed && !chance(w, w->loss_percent))
        dp_coord_slot_gone(w->c, w->now_ns, w->job.node[s], &m);
}

static struct dp_job_info read_job(const struct world *w)
{
    struct dp_job_info job = w->job;

    job.n_nodes = 0;
    for (uint32_t s = 0; s < W_MAX; s++)
        if (w->held[s]) {
            job.slice[job.n_nodes] = w->job.slice[s];
            job.is_companion[job.n_nodes] = w->job.is_companion[s];
            job.slice_restarts[job.n_nodes] = w->job.slice_restarts[s];
            memcpy(job.node[job.n_nodes++], w->job.node[s], sizeof job.node[0]);
        }
    job.boot_s = w->boot_s;
    job.mem_mb = w->mem_mb;
    job.is_mem_resizing = w->mem_done_at_ns != 0;
    return job;
}

static void ctld_shrink(struct world *w)
{
    for (uint32_t s = 0; s < W_MAX; s++)
        if (w->held[s] && !w->keep[s]) {
            w->held[s] = false;
            if (w->worker[s].is_alive || w->worker[s].is_stray)
                broken_for_all(w, "Slurm gives away a slot with a live process", s, 0);
        }
    w->save_at_ns = w->now_ns + 5 * SEC;
}

/* It says yes at once, and has the lower number; its nodes do it later, or one of them does not. */
static void ctld_memory(struct world *w)
{
    bool is_done = !w->is_ctld_down && !w->mem_is_refused && w->mem_asked_mb < w->mem_mb && !w->mem_done_at_ns;

    w->mem_at_ns = 0;
    if (is_done) {
        w->mem_before_mb = w->mem_mb;
        w->mem_mb = w->mem_asked_mb;
        w->mem_done_at_ns = soon(w, 2000);
        w->save_at_ns = w->now_ns + 5 * SEC;
    }
    if (w->c && !w->has_crashed && !chance(w, w->loss_percent / 4))
        dp_coord_memory_answer(w->c, w->now_ns, w->is_ctld_down ? -1 : w->mem_is_refused ? 1 : is_done ? 0 : -1,
                               w->mem_is_refused ? "not with this job" : is_done ? "" : "no");
}

/* Slurm ends what is left of a slice, and its job, when its script is over. */
static void slice_tick(struct world *w, uint32_t s)
{
    if (!w->job.slice[s] || !w->held[s] || w->worker[s].is_alive || w->is_stuck[s] || w->is_ctld_down || !chance(w, 20))
        return;
    w->worker[s].is_stray = w->held[s] = false;
    if (!w->save_at_ns)
        w->save_at_ns = w->now_ns + 5 * SEC;
}

static void ctld_tick(struct world *w)
{
    if (w->mem_at_ns && w->now_ns >= w->mem_at_ns)
        ctld_memory(w);
    if (w->mem_done_at_ns && w->now_ns >= w->mem_done_at_ns) {
        w->mem_done_at_ns = 0;
        if (w->mem_node_fails)
            w->mem_mb = w->mem_before_mb;
    }
    if (w->is_ctld_down && w->now_ns >= w->ctld_up_at_ns)
        w->is_ctld_down = false;
    if (w->save_at_ns && w->now_ns >= w->save_at_ns) {
        memcpy(w->held_durable, w->held, sizeof w->held);
        w->mem_durable_mb = w->mem_mb;
        w->save_at_ns = 0;
    }
    if (w->shrink_at_ns && w->now_ns >= w->shrink_at_ns) {
        bool is_timeout = chance(w, w->fault_percent);

        w->shrink_at_ns = 0;
        if (!w->is_ctld_down)
            ctld_shrink(w);
        if (w->c && !w->has_crashed && !chance(w, w->loss_percent / 4))
            dp_coord_release_answer(w->c, w->now_ns, w->is_ctld_down || is_timeout ? 5004 : 0,
                                    w->is_ctld_down || is_timeout ? "timed out" : "");
    }
    if (w->read_at_ns && w->now_ns >= w->read_at_ns && w->c && !w->has_crashed) {
        struct dp_job_info job = read_job(w);

        w->read_at_ns = 0;
        dp_coord_job_read(w->c, w->now_ns, w->is_ctld_down ? NULL : &job, "no controller");
    }
}

static void ctld_crash(struct world *w)
{
    if (memcmp(w->held, w->held_durable, sizeof w->held) != 0)
        w->n_lost_updates++;
    memcpy(w->held, w->held_durable, sizeof w->held);
    w->mem_mb = w->mem_durable_mb;
    w->mem_done_at_ns = 0;
    w->save_at_ns = 0;
    w->boot_s++;
    w->is_ctld_down = true;
    w->ctld_up_at_ns = soon(w, 4000);
}

/* --- the coordinator's life --- */

static void start_coordinator(struct world *w)
{
    struct dp_job_info job = read_job(w);
    struct dp_err err = {0};

    w->has_crashed = false;
    w->c = dp_coord_create(&job, &w->limits, &w->ops, w, &err);
    w->must_renew = false;
    for (uint32_t i = 0; i < w->n_records; i++) {
        w->record[i].is_unconfirmed = false; /* what a restart finds is made durable first */
        if (w->record[i].type == DP_REC_COMMIT || w->record[i].type == DP_REC_REGROUP)
            w->decided[be(w->record[i].payload, 8) % 64] = w->record[i].type == DP_REC_COMMIT ? 1 : 2;
    }
    for (uint32_t i = 0; w->c && i < w->n_records; i++)
        if (dp_coord_replay(w->c, w->record[i].type, w->record[i].payload, w->record[i].bytes, &err) < 0)
            snprintf(w->broken, sizeof w->broken, "replay: %.200s", err.text);
    if (!w->c)
        snprintf(w->broken, sizeof w->broken, "create: %.200s", err.text);
    else if (dp_coord_begin(w->c, w->now_ns, &err) < 0)
        w->has_crashed = true; /* the daemon tries again later */
    for (uint32_t r = 0; r < W_MAX; r++) {
        w->worker[r].is_connected = false;
        w->worker[r].connect_at_ns = soon(w, 2000);
    }
}

static void bury_coordinator(struct world *w)
{
    dp_coord_destroy(w->c);
    w->c = NULL;
    w->has_crashed = true; /* until it is started again */
    w->n_crashes++;
    w->restart_at_ns = soon(w, 2000);
    w->read_at_ns = 0;
    w->is_planning = false; /* the daemon cancels its helpers */
}

/* One owner per layer, among those that may step (not in doubt). */
static void check_owners(struct world *w)
{
    for (uint32_t l = 0; l < W_LAYERS; l++) {
        int owner = -1;

        for (uint32_t r = 0; r < W_MAX; r++) {
            const struct world_worker *k = &w->worker[r];

            if (!k->is_alive || k->doubt || waits_for_lost(w, k) || l < k->layout.cut[r] || l >= k->layout.cut[r + 1])
                continue;
            if (owner >= 0)
                broken(w, "two owners of a layer", l, r);
            owner = (int)r;
        }
    }
}

/* A START that names the layout is longer than one that does not. */
static bool knows_layout(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_records; i++)
        if (w->record[i].type == DP_REC_START && w->record[i].bytes > 33)
            return true;
    return false;
}

static bool is_another_alive(const struct world *w, uint32_t rank)
{
    for (uint32_t r = 0; r < W_MAX; r++)
        if (r != rank && w->worker[r].is_alive)
            return true;
    return false;
}

static void faults(struct world *w)
{
    uint32_t r = world_draw(w, W_MAX);

    if (w->worker[r].is_alive && is_another_alive(w, r) && knows_layout(w) && chance(w, w->kill_percent))
        world_kill(w, r);
    if (!chance(w, w->fault_percent))
        return;
    switch (world_draw(w, 9)) {
    case 0:
        if (w->c)
            bury_coordinator(w);
        break;
    case 1:
        ctld_crash(w);
        break;
    case 2:
        w->worker[r].is_connected = false;
        w->worker[r].connect_at_ns = soon(w, 3000);
        break;
    case 3:
    case 4:
        if (w->c && !w->has_crashed && w->worker[r].is_connected)
            send_report(w, r, true);
        break;
    case 5:
        /* Before the layout is journalled whoever comes first has the rank. */
        if (w->c && !w->has_crashed && knows_layout(w))
            try_start(w, r);
        break;
    case 6:
        w->is_stuck[r] = !w->is_stuck[r];
        break;
    case 8: /* the same proof again */
        if (w->c && !w->has_crashed && w->last_gone[r].job_id)
            dp_coord_slot_gone(w->c, w->now_ns, w->job.node[r], &w->last_gone[r]);
        break;
    case 7: /* a proof that nobody asked for, of a wrong incarnation */
        if (w->c && !w->has_crashed) {
            struct dp_msg_slot_gone m = {.job_id = world_job_of(w, r), .incarnation = dp_coord_incarnation(w->c) - 1, .gone = 1};

            dp_coord_slot_gone(w->c, w->now_ns, w->job.node[r], &m);
        }
        break;
    }
}

static bool op_introduce(void *arg, uint32_t rank, bool tell)
{
    const struct world *w = arg;

    (void)tell;
    return !w->is_unknown && w->worker[rank].is_connected;
}

static void come_tick(struct world *w, struct world_comer *k)
{
    struct dp_err err = {0};
    uint32_t rank;
    int rc;

    if (!k->slice || k->is_seated || k->is_refused || !w->c || w->has_crashed)
        return;
    rc = dp_coord_seat(w->c, w->now_ns, k->node, k->slice, k->restarts, &rank, &err);
    if (w->has_crashed || chance(w, w->loss_percent))
        return; /* asked again */
    if (rc < 0) {
        k->is_refused = err.code == DP_EAUTH;
        snprintf(k->text, sizeof k->text, "%.255s", err.text);
        return;
    }
    /* A controller that forgot the end of a job may show it again, without a process (held[]). */
    if (rank == 0 || rank >= W_MAX || w->worker[rank].is_alive || w->worker[rank].is_stray) {
        broken_for_all(w, "a seat that is taken was given", rank, k->slice);
        return;
    }
    k->is_seated = true;
    k->rank = rank;
    w->job.slice[rank] = k->slice;
    w->job.slice_restarts[rank] = k->restarts;
    memcpy(w->job.node[rank], k->node, sizeof k->node);
    w->held[rank] = w->held_durable[rank] = true;
    w->is_fenced[rank] = w->is_stuck[rank] = false;
    w->worker[rank] = (struct world_worker){.is_alive = true, .is_newcomer = true, .pid = 1000 + w->n_pids++,
                                            .connect_at_ns = soon(w, 1500),
                                            .layout = {.n_workers = W_MAX, .n_layers = W_LAYERS,
                                                       .cut = {0, W_LAYERS, W_LAYERS, W_LAYERS, W_LAYERS}}};
    memset(w->worker[rank].layout.gone + 1, 1, W_MAX - 1);
}

uint32_t world_come(struct world *w, const char *node, uint32_t slice, uint32_t restarts)
{
    uint32_t i = 0;

    while (w->comer[i].slice)
        i++;
    w->comer[i].slice = slice;
    w->comer[i].restarts = restarts;
    snprintf(w->comer[i].node, sizeof w->comer[i].node, "%s", node);
    return i;
}

static void deliver(struct world *w)
{
    for (size_t i = 0; i < sizeof w->message / sizeof w->message[0]; i++) {
        struct world_message *m = &w->message[i];
        struct dp_reader r;

        if (!m->is_used || w->now_ns < m->due_ns)
            continue;
        m->is_used = false;
        if (m->to_worker) {
            worker_message(w, m);
            continue;
        }
        if (!w->c || w->has_crashed)
            continue;
        dp_reader_init(&r, m->body, m->bytes);
        if (m->type == DP_MSG_VOTE) {
            struct dp_msg_vote v;

            if (dp_msg_vote_decode(&r, &v, NULL) == 0)
                dp_coord_vote(w->c, w->now_ns, &v);
        } else if (m->type == DP_MSG_DECISION_ACK) {
            struct dp_msg_decision_ack a;

            if (dp_msg_decision_ack_decode(&r, &a, NULL) == 0)
                dp_coord_decision_ack(w->c, w->now_ns, &a);
        } else if (m->type == DP_MSG_GOODBYE) {
            struct dp_msg_goodbye g;

            if (dp_msg_goodbye_decode(&r, &g, NULL) == 0)
                dp_coord_goodbye(w->c, w->now_ns, &g);
        } else {
            static struct dp_msg_report p;

            if (dp_msg_report_decode(&r, &p, NULL) == 0)
                dp_coord_report(w->c, w->now_ns, &p);
        }
    }
}

void world_run(struct world *w, double seconds, bool with_faults)
{
    uint64_t end = w->now_ns + (uint64_t)(seconds * 1e9);

    while (w->now_ns < end && !w->broken[0]) {
        w->now_ns += TICK;
        if (!w->c && w->now_ns >= w->restart_at_ns)
            start_coordinator(w);
        deliver(w);
        for (uint32_t r = 0; r < W_MAX; r++) {
            worker_tick(w, r);
            node_tick(w, r);
            slice_tick(w, r);
        }
        for (size_t i = 0; i < sizeof w->comer / sizeof w->comer[0]; i++)
            come_tick(w, &w->comer[i]);
        ctld_tick(w);
        plan_tick(w);
        if (with_faults)
            faults(w);
        if (w->c && !w->has_crashed)
            dp_coord_tick(w->c, w->now_ns);
        check_owners(w);
        check_memory(w);
        if (w->c && w->has_crashed)
            bury_coordinator(w);
    }
}

static const char *text_of(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

bool world_is_settled(struct world *w)
{
    bool is_settled = w->c && !w->has_crashed, is_used_up;
    json_t *o, *slots;

    if (!is_settled)
        return false;
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    slots = json_object_get(o, "slots");
    is_used_up = json_integer_value(json_object_get(json_object_get(o, "job"), "shrinks_used")) >=
                 w->job.shrinks_allowed;
    is_settled = strcmp(text_of(o, "state"), "training") == 0;
    for (uint32_t i = 0; i < json_array_size(slots); i++) {
        const char *state = text_of(json_array_get(slots, i), "state");
        uint32_t s = (uint32_t)json_integer_value(json_object_get(json_array_get(slots, i), "slot")); /* empty ones are not there */

        is_settled &= !strcmp(state, "active") || !strcmp(state, "released") || !strcmp(state, "held") ||
                      (!strcmp(state, "gone") && is_used_up);
        if (!strcmp(state, "released") && w->held[s])
            broken_for_all(w, "a released slot is in the job", s, 0);
        if (!strcmp(state, "held") && !w->held[s])
            broken_for_all(w, "a held slot is free in Slurm", s, 0);
    }
    json_decref(o);
    return is_settled;
}

void world_settle(struct world *w)
{
    uint32_t tries = 0;

    w->loss_percent = w->fault_percent = w->crash_percent = w->full_percent = w->no_percent = 0;
    memset(w->is_stuck, 0, sizeof w->is_stuck);
    do
        world_run(w, 20.0, false);
    while (!world_is_settled(w) && ++tries < 20 && !w->broken[0]);
    if (tries == 20 && !w->broken[0])
        snprintf(w->broken, sizeof w->broken, "seed %llu is not settled after the faults stopped", (unsigned long long)w->noise_seed);
}

void world_init(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->seed = seed * 7919 + 1;
    w->noise_seed = seed;
    w->now_ns = SEC;
    w->crash_at = UINT32_MAX;
    w->steps_total = W_STEPS;
    w->vote_ms = 700;
    w->plan_ms = 20;
    w->boot_s = 1000;
    w->job = (struct dp_job_info){.job_id = 7, .uid = 1000, .gid = 1000, .is_running = true, .n_nodes = W_MAX,
                                  .batch_host = "n0", .start_s = 1, .boot_s = 1000, .shrinks_allowed = 1};
    w->limits = (struct dp_run_limits){.mode = DP_MODE_RELEASE, .pack.min_devices = 1, .pack.max_slowdown = 5.0,
                                       .policy = "time", .hysteresis = 5.0, .cooldown_s = 1.0,
                                       .warmup_reports = 1, .vote_timeout_s = 5.0, .gone_timeout_s = 8.0,
                                       .grace_s = 2.0, .confirm_s = 6.0, .link_bytes_per_s = 1e9};
    w->ops = (struct dp_coord_ops){
        .journal = op_journal,
        .settle = op_settle,
        .reserve = op_reserve,
        .to_worker = op_to_worker,
        .stop_slot = op_stop_slot,
        .shrink = op_shrink,
        .requeue = op_requeue,
        .read_job = op_read_job,
        .plan = op_plan,
        .is_outdated = op_is_outdated,
        .memory = op_memory,
        .find_worker = op_find_worker,
        .introduce = op_introduce,
    };
    w->n_there = W_MAX;
    for (uint32_t r = 0; r < W_MAX; r++) {
        struct world_worker *k = &w->worker[r];

        snprintf(w->job.node[r], sizeof w->job.node[r], "n%u", r);
        k->is_alive = true;
        k->pid = 100 + r;
        k->layout = (struct dp_layout){.epoch = 1, .n_workers = W_MAX, .n_layers = W_LAYERS,
                                       .cut = {0, 2, 4, 6, 8}};
        w->held[r] = w->held_durable[r] = true;
    }
}

void world_slice(struct world *w)
{
    w->job.shrinks_allowed = 50; /* each ends by itself */
    for (uint32_t s = 0; s < W_MAX; s++) {
        w->job.slice[s] = 201 + s;
        snprintf(w->job.node[s], sizeof w->job.node[s], "n%u", s / 2);
    }
}

void world_slice_few(struct world *w, uint32_t n_there)
{
    world_slice(w);
    w->n_there = n_there;
    w->job.n_nodes = n_there;
    w->job.n_seats = W_MAX;
    for (uint32_t s = n_there; s < W_MAX; s++) {
        w->job.slice[s] = 0;
        w->job.node[s][0] = '\0';
        w->held[s] = w->held_durable[s] = w->worker[s].is_alive = false;
    }
    for (uint32_t r = 0; r < n_there; r++) {
        struct dp_layout *l = &w->worker[r].layout;

        for (uint32_t i = 1; i <= W_MAX; i++)
            l->cut[i] = i < n_there ? i * W_LAYERS / n_there : W_LAYERS;
        for (uint32_t i = n_there; i < W_MAX; i++)
            l->gone[i] = 1;
    }
}

void world_start(struct world *w)
{
    start_coordinator(w);
}

void world_crash(struct world *w)
{
    bury_coordinator(w);
}

/* As its daemon has it: seats by rank, and home's in the first one. */
static struct dp_job_info job_of_survivors(const struct world *w)
{
    struct dp_job_info job = w->job;

    job.n_nodes = job.n_seats = W_MAX;
    for (uint32_t r = 0; r < W_MAX; r++)
        if (!w->worker[r].is_alive || w->worker[r].is_newcomer) {
            job.slice[r] = r ? 0 : w->job.slice[0];
            if (r)
                job.node[r][0] = '\0';
        }
    for (uint32_t r = W_MAX; r-- > 0;)
        if (w->worker[r].is_alive && !w->worker[r].is_newcomer)
            memcpy(job.batch_host, job.node[r], sizeof job.batch_host);
    return job;
}

bool world_take_over(struct world *w, const char *node)
{
    static struct dp_msg_hello hello[W_MAX];
    struct dp_survivor survivor[W_MAX] = {{NULL, 0}};
    struct world_record *record;
    struct dp_job_info job;
    struct dp_err err = {0};

    w->heard_incarnation = w->c ? dp_coord_incarnation(w->c) : w->heard_incarnation;
    bury_coordinator(w);
    memset(w->message, 0, sizeof w->message);
    for (uint32_t r = 0; r < W_MAX; r++) {
        if (!strcmp(w->job.node[r], node)) {
            w->worker[r].is_alive = w->worker[r].is_connected = false;
            w->worker[r].doubt = w->worker[r].vote_at_ns = 0;
            w->held[r] = w->held_durable[r] = false;
        }
        hello_of(w, r, &hello[r]);
        if (w->worker[r].is_alive && !w->worker[r].is_newcomer)
            survivor[r] = (struct dp_survivor){&hello[r], w->worker[r].pid};
    }
    job = job_of_survivors(w);
    w->c = dp_coord_create(&job, &w->limits, &w->ops, w, &err);
    if (!w->c || dp_coord_take_over(w->c, w->now_ns, survivor, W_MAX, &err) < 0) {
        snprintf(w->broken, sizeof w->broken, "take over: %.200s", err.text);
        return false;
    }
    w->n_records = 0;
    record = world_snapshot(w->c, &w->n_records);
    memcpy(w->record, record, sizeof w->record);
    free(record);
    bury_coordinator(w); /* as if it died before it said a word: what is durable is all that it needs */
    memcpy(w->job.batch_host, job.batch_host, sizeof job.batch_host);
    start_coordinator(w);
    return true;
}

struct world_record *world_snapshot(const struct dp_coord *c, uint32_t *n)
{
    struct fresh *f = calloc(1, sizeof *f);
    struct world_record *record = NULL;

    if (f && dp_coord_snapshot(c, put_fresh, f, NULL) == 0 && (record = malloc(sizeof f->record))) {
        memcpy(record, f->record, sizeof f->record);
        *n = f->n;
    }
    free(f);
    return record;
}

void world_release(struct world *w)
{
    dp_coord_destroy(w->c);
    w->c = NULL;
}
