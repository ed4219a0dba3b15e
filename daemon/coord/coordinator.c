/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a coordinator: created for a job, fed the journal's records, begun, ticked, ended.
 *
 * See coordinator.h for the contract, internal.h for the map of the other files, and
 * doc/protocol.md for the protocol. Nothing here reads a clock: every entry is given the time.
 */
#include "daemon/coord/coordinator.h"

#include "daemon/coord/internal.h"
#include "policies/list.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_job(const struct dp_job_info *job, struct dp_err *err)
{
    if (job->n_nodes < 1 || job->n_nodes > DP_MAX_SLOTS)
        return dp_err_set(err, DP_EINVAL, "job %u has %u nodes; allowed: 1 to %d", job->job_id,
                          job->n_nodes, DP_MAX_SLOTS);
    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (!job->node[i][0] != (job->slice[0] && !job->slice[i]) || (job->slice[i] && !job->slice[0]))
            return dp_err_set(err, DP_EINVAL, "job %u: node %u has no name, or no job of its own where others have", job->job_id, i);
    if (job->n_seats > DP_MAX_SLOTS || (job->n_seats && !job->slice[0]))
        return dp_err_set(err, DP_EINVAL, "job %u: %u seats", job->job_id, job->n_seats);
    return coord_slices_check(job->slice, job->n_nodes, err);
}

int coord_slices_check(const uint32_t *slice, uint32_t n, struct dp_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (slice[i] && !slice[0])
            return dp_err_set(err, DP_EINVAL, "slot %u has a job of its own, slot 0 has none", i);
        for (uint32_t k = 0; k < i && slice[i]; k++)
            if (slice[k] == slice[i])
                return dp_err_set(err, DP_EINVAL, "slots %u and %u are both of job %u", k, i, slice[i]);
    }
    return 0;
}

void coord_slot_set(struct dp_coord *c, uint32_t slot, const char *node, uint32_t slice, uint32_t restarts)
{
    struct coord_slot *s = &c->slot[slot];
    char name[sizeof s->name]; /* node may lie in *c */

    snprintf(name, sizeof name, "%s", node);
    memcpy(s->name, name, sizeof s->name);
    memcpy(c->job.node[slot], name, sizeof c->job.node[slot]);
    s->slice = c->job.slice[slot] = slice;
    c->job.slice_restarts[slot] = restarts;
    if (slice)
        snprintf(s->label, sizeof s->label, "%s (job %u)", name, slice);
    else
        snprintf(s->label, sizeof s->label, "%s", name);
}

static void set_slots(struct dp_coord *c, const struct dp_job_info *job)
{
    c->n_slots = c->job.n_nodes = job->n_seats > job->n_nodes ? job->n_seats : job->n_nodes;
    c->join.wanted = coord_first_wanted(c);
    for (uint32_t i = job->n_nodes; i < c->n_slots; i++)
        c->slot[i].state = SLOT_EMPTY;
    for (uint32_t i = job->n_nodes; i-- > 0;) { /* of several on the batch host the first one */
        if (!job->node[i][0]) {
            c->slot[i].state = SLOT_EMPTY;
            continue;
        }
        coord_slot_set(c, i, job->node[i], job->slice[i], job->slice_restarts[i]);
        if (!strcmp(job->node[i], job->batch_host))
            c->batch_slot = i;
    }
}

struct dp_coord *dp_coord_create(const struct dp_job_info *job, const struct dp_run_limits *limits,
                                 const struct dp_coord_ops *ops, void *arg, struct dp_err *err)
{
    const struct dp_policy *policy = NULL;
    struct dp_coord *c;

    if (!limits->policy_file[0])
        policy = dp_policy_find(limits->policy, err);
    if ((!policy && !limits->policy_file[0]) || check_job(job, err) < 0)
        return NULL;
    c = calloc(1, sizeof *c);
    if (c && !policy)
        c->site = calloc(1, sizeof *c->site);
    if (!c || (!policy && !c->site)) {
        free(c);
        dp_err_set(err, DP_ENOMEM, "coordinator of job %u: out of memory", job->job_id);
        return NULL;
    }
    c->job = *job;
    c->limits = *limits;
    c->ops = *ops;
    c->arg = arg;
    if (c->site)
        dp_site_policy_init(c->site, limits->policy, limits->policy_file, limits->policy_arguments,
                            limits->policy_timeout_s);
    c->policy = c->site ? &c->site->policy : policy;
    c->train.loss = c->train.eval_loss = NAN;
    c->history.sample_every = 1;
    set_slots(c, job);
    return c;
}

void dp_coord_destroy(struct dp_coord *c)
{
    if (!c)
        return;
    coord_expect_forget(c);
    free(c->planning);
    free(c->site);
    free(c);
}

int dp_coord_begin(struct dp_coord *c, uint64_t now_ns, struct dp_err *err)
{
    c->life.incarnation++;
    if (!c->life.first_ns || c->life.first_ns > now_ns)
        c->life.first_ns = now_ns;
    c->life.is_over = false; /* after END: another step of the same job */
    c->life.over_why[0] = '\0';
    if (coord_journal_start(c, now_ns) < 0)
        return dp_err_set(err, DP_EIO, "job %u: journal: %s", c->job.job_id, c->journal.error);
    c->life.is_begun = true;
    coord_saving_begin(c, now_ns);
    c->life.begin_ns = c->stall.heard_ns = now_ns;
    c->last_change_ns = c->rel.next_ns = now_ns;
    if (c->life.incarnation > 1)
        coord_note(c, now_ns, "coordinator restarted, incarnation %u", c->life.incarnation);
    if (c->mig.state == MIG_PREPARING) /* presumed abort: no COMMIT was found */
        coord_migrate_abort(c, now_ns, "the coordinator restarted before the decision");
    for (uint32_t s = 0; s < c->n_slots; s++)
        c->slot[s].stop_first_ns = c->slot[s].stop_last_ns = 0;
    return 0;
}

static void note_journal(struct dp_coord *c, uint64_t now_ns)
{
    if (c->journal.is_failing && !c->journal.was_failing)
        coord_note(c, now_ns, "the journal cannot be written: %.200s", c->journal.error);
    else if (!c->journal.is_failing && c->journal.was_failing)
        coord_note(c, now_ns, "the journal is written again");
    c->journal.was_failing = c->journal.is_failing;
}

void dp_coord_tick(struct dp_coord *c, uint64_t now_ns)
{
    if (!c->life.is_begun || c->life.is_over)
        return;
    note_journal(c, now_ns);
    coord_member_tick(c, now_ns);
    coord_migrate_tick(c, now_ns);
    coord_regroup_tick(c, now_ns);
    coord_leave_tick(c, now_ns);
    coord_join_tick(c, now_ns);
    coord_grow_tick(c, now_ns);
    coord_release_tick(c, now_ns);
    coord_stall_tick(c, now_ns);
    coord_missing_tick(c, now_ns);
    coord_limit_tick(c, now_ns);
    coord_memory_tick(c, now_ns);
    coord_promise_tick(c, now_ns);
    coord_decide_tick(c, now_ns);
    coord_proposal_tick(c);
}

void dp_coord_end(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    if (c->life.is_over)
        return;
    c->life.is_over = true;
    c->life.over_ns = now_ns;
    snprintf(c->life.over_why, sizeof c->life.over_why, "%s", why ? why : "");
    coord_member_end(c, now_ns);
    coord_note(c, now_ns, "over: %s", c->life.over_why);
    (void)coord_journal_end(c, now_ns, c->life.over_why);
}

static int set_paused(struct dp_coord *c, uint64_t now_ns, bool is_paused)
{
    if (c->life.is_paused != is_paused)
        coord_note(c, now_ns, is_paused ? "paused" : "resumed");
    c->life.is_paused = is_paused;
    return 0;
}

static int command_layout(struct dp_coord *c, uint64_t now_ns, const char *text, struct dp_err *err)
{
    struct dp_layout next;

    if (coord_why_observed(c))
        return dp_err_set(err, DP_EINVAL, "the run is observed: %s", coord_why_observed(c));
    if (coord_mode(c) < DP_MODE_BALANCE)
        return dp_err_set(err, DP_EINVAL, "layers may not move in mode %s", dp_mode_name(coord_mode(c)));
    if (!c->train.has_layout)
        return dp_err_set(err, DP_EINVAL, "not all workers are there yet");
    if (dp_layout_parse(text, &c->layout, &next, err) < 0)
        return -1;
    if (!dp_layout_moves(&c->layout, &next, NULL))
        return dp_err_set(err, DP_EINVAL, "the layout is already %s", text);
    return coord_migrate_begin(c, now_ns, &next, "requested on the command line", err);
}

void coord_ask_save(struct dp_coord *c, bool stop)
{
    struct dp_msg_save save = {.stop = stop};
    uint8_t body[64];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    dp_msg_save_encode(&w, &save);
    c->ops.to_worker(c->arg, dp_layout_leader(&c->layout), DP_MSG_SAVE, body, dp_writer_used(&w));
}

static int command_save(struct dp_coord *c, uint64_t now_ns, struct dp_err *err)
{
    uint32_t leader = dp_layout_leader(&c->layout);

    if (!c->train.has_layout || !c->worker[leader].is_connected)
        return dp_err_set(err, DP_EINVAL, "worker %u, which leads the run, is not connected", leader);
    if (!c->train.checkpoint_dir[0])
        return dp_err_set(err, DP_EINVAL, "the run has no checkpoint directory");
    coord_ask_save(c, false);
    coord_note(c, now_ns, "checkpoint asked for");
    return 0;
}

int dp_coord_command(struct dp_coord *c, uint64_t now_ns, enum dp_verb verb, const char *argument,
                     struct dp_err *err)
{
    if (c->life.is_over)
        return dp_err_set(err, DP_EINVAL, "the run is over: %s", c->life.over_why);
    switch (verb) {
    case DP_VERB_PAUSE:
        return set_paused(c, now_ns, true);
    case DP_VERB_RESUME:
        coord_promise_resume(c, now_ns);
        return set_paused(c, now_ns, false);
    case DP_VERB_LAYOUT:
        return command_layout(c, now_ns, argument, err);
    case DP_VERB_SAVE:
        return command_save(c, now_ns, err);
    }
    return dp_err_set(err, DP_EINVAL, "unknown command %d", (int)verb);
}

bool dp_coord_is_over(const struct dp_coord *c)
{
    return c->life.is_over;
}

static bool has_live(const struct dp_coord *c, bool is_connected)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_is_live(c, r) && c->worker[r].is_connected == is_connected)
            return true;
    return false;
}

bool dp_coord_all_left(const struct dp_coord *c)
{
    return c->train.has_layout && !has_live(c, true) && !has_live(c, false);
}

bool dp_coord_goes_on(const struct dp_coord *c, bool is_connected)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!c->layout.gone[r] && c->worker[r].has_left)
            return false;
    return c->train.has_layout && has_live(c, is_connected);
}

uint32_t dp_coord_list_others(const struct dp_coord *c, uint32_t slice, uint32_t slot[DP_MAX_SLOTS])
{
    uint32_t n = 0;

    if (!coord_is_sliced(c) || !c->train.has_layout || c->life.is_over)
        return 0;
    for (uint32_t r = 0; r < c->train.n_workers && n < DP_MAX_SLOTS; r++)
        if (coord_is_counted(c, r) && c->slot[c->worker[r].slot].slice != slice)
            slot[n++] = c->worker[r].slot;
    return n;
}

bool dp_coord_can_do_without(const struct dp_coord *c, uint32_t slice)
{
    uint32_t slot[DP_MAX_SLOTS];

    return dp_coord_list_others(c, slice, slot) > 0;
}

bool dp_coord_step(const struct dp_coord *c, uint32_t *step_id)
{
    *step_id = c->train.step_id;
    return c->train.has_step || c->train.has_layout;
}

uint32_t dp_coord_incarnation(const struct dp_coord *c)
{
    return c->life.incarnation;
}

const struct dp_job_info *dp_coord_job(const struct dp_coord *c)
{
    return &c->job;
}

const char *dp_coord_next_event(struct dp_coord *c)
{
    if (c->history.n_events - c->history.n_logged > COORD_EVENTS)
        c->history.n_logged = c->history.n_events - COORD_EVENTS;
    return c->history.n_logged == c->history.n_events ? NULL : c->history.event[c->history.n_logged++ % COORD_EVENTS].text;
}

/* --- shared by the other files --- */

void coord_note(struct dp_coord *c, uint64_t now_ns, const char *fmt, ...)
{
    struct coord_event *e = &c->history.event[c->history.n_events++ % COORD_EVENTS];
    va_list ap;

    e->t_ns = now_ns;
    e->step = c->train.step;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
}

void coord_fail(struct dp_coord *c, uint64_t now_ns, const char *fmt, ...)
{
    va_list ap;

    if (c->life.failed[0])
        return; /* the first reason is the one that counts */
    va_start(ap, fmt);
    vsnprintf(c->life.failed, sizeof c->life.failed, fmt, ap);
    va_end(ap);
    coord_note(c, now_ns, "failed: %.240s", c->life.failed);
}

int coord_slot_find(const struct dp_coord *c, const char *node, uint32_t job_id)
{
    for (uint32_t i = 0; i < c->n_slots; i++)
        if (!strcmp(c->slot[i].name, node) && job_id == (c->slot[i].slice ? c->slot[i].slice : c->job.job_id))
            return (int)i;
    return -1;
}

bool coord_is_sliced(const struct dp_coord *c)
{
    return c->slot[0].slice != 0;
}

bool coord_is_fixed(const struct dp_coord *c, uint32_t slot)
{
    return slot == c->batch_slot && !coord_is_sliced(c);
}

uint32_t coord_kept_slot(const struct dp_coord *c)
{
    for (uint32_t r = 0; r < c->train.n_workers && coord_is_sliced(c); r++)
        if (c->worker[r].slot == c->batch_slot && c->layout.gone[r])
            return c->worker[dp_layout_leader(&c->layout)].slot;
    return c->batch_slot;
}

const char *coord_slot_word(const struct dp_coord *c)
{
    return coord_is_sliced(c) ? "slice" : "node";
}

bool coord_slot_is_in(const struct dp_coord *c, uint32_t slot, const struct dp_job_info *job)
{
    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (!strcmp(job->node[i], c->slot[slot].name) && job->slice[i] == c->slot[slot].slice)
            return true;
    return false;
}

bool coord_is_live(const struct dp_coord *c, uint32_t rank)
{
    return !c->layout.gone[rank] && !c->worker[rank].has_left && !c->worker[rank].is_lost;
}

uint32_t coord_count(const struct dp_coord *c, bool (*is_so)(const struct dp_coord *c, uint32_t rank), uint32_t *first)
{
    uint32_t n = 0;

    for (uint32_t r = c->train.n_workers; r-- > 0;)
        if (is_so(c, r)) {
            if (first)
                *first = r;
            n++;
        }
    return n;
}

double coord_seconds(const struct dp_coord *c, uint64_t t_ns)
{
    return t_ns > c->life.first_ns ? (double)(t_ns - c->life.first_ns) / 1e9 : 0.0;
}

const char *coord_slot_state_name(enum coord_slot_state state)
{
    static const char *const name[] = {"active",    "drained",  "stopping", "gone",
                                       "releasing", "released", "held", "empty"};

    return (unsigned)state < sizeof name / sizeof name[0] ? name[state] : "?";
}
