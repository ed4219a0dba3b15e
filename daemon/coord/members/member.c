/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is in the run: HELLO and its verdict, GOODBYE, lost processes, events.
 *
 * Membership comes from here, not from PMIx. A rank belongs to the process that said HELLO first; the
 * same process may say it again as often as its connection or this daemon dies. Whoever is at an older
 * epoch or in doubt is answered with the journalled decision (protocol.md, "Hand-over", steps 4 to 6).
 * Nobody starts on a slot that has been drained: that is what makes it safe to give away.
 */
#include "daemon/coord/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/schedule/schedule.h"

#define EVENT_NS (100 * DP_MS_NS) /* a run's workers may send so often, */
#define EVENT_BURST 64            /* and so many at once: as many as are kept */
#define STEP_NS DP_SECOND_NS      /* likewise steps of a job, each of which is journalled */
#define STEP_BURST 16 /* at once */
#define TELL_LOST_NS (10 * DP_SECOND_NS) /* between two lines that say how many events were left out */
#define REPORT_MS 250 /* two reports for each decision (DECIDE_EVERY_NS) */

/* Forget the step that trained; slots, migration ids and the release stay. */
void coord_step_reset(struct dp_coord *c)
{
    uint64_t id = c->mig.id;

    memset(c->worker, 0, sizeof c->worker);
    memset(c->layer, 0, sizeof c->layer);
    memset(&c->mig, 0, sizeof c->mig);
    memset(&c->layout, 0, sizeof c->layout);
    memset(&c->start_layout, 0, sizeof c->start_layout);
    c->mig.id = id;
    c->last_commit_id = c->last_regroup_id = 0;
    memset(&c->join, 0, sizeof c->join);
    c->join.wanted = coord_first_wanted(c);
    memset(&c->grow, 0, sizeof c->grow);
    c->train.n_frozen = 0;
    c->train.has_step = c->train.has_shape = c->train.has_layout = c->train.is_pruned = c->train.is_completed = false;
    c->train.blocks_differ = c->train.is_fixed = false;
    c->train.trainer[0] = '\0';
    c->reference.ns = c->reference.step_ns = c->step_ns = c->train.step = 0;
    c->predicted.ns = c->predicted.start_ns = c->predicted.balanced_ns = 0;
    c->reference.is_final = c->reference.early.is_set = false;
    c->reference.n_snapshots = 0;
    memset(&c->trade, 0, sizeof c->trade);
    c->saving.step = 0; /* what was saved is the job's, and stays */
    memset(&c->reference.steady, 0, sizeof c->reference.steady);
    memset(&c->recent, 0, sizeof c->recent);
    coord_expect_forget(c);
    memset(&c->proposal, 0, sizeof c->proposal);
    memset(&c->stall, 0, sizeof c->stall);
    memset(&c->leave, 0, sizeof c->leave);
    memset(&c->regroup, 0, sizeof c->regroup);
    memset(&c->promise, 0, sizeof c->promise);
    memset(&c->balance, 0, sizeof c->balance); /* links stay: the nodes are the same */
    memset(&c->trend, 0, sizeof c->trend);
    c->train.sparsity = 0.0;
    c->train.loss = c->train.eval_loss = NAN;
    c->train.loss_step = 0;
    c->life.failed[0] = '\0';
    c->history.next_sample_step = 0;
}

/* One of what may come once in every_ns, and `burst` times at once? *full_ns: when there is room for all of these again. */
static bool is_in_time(uint64_t *full_ns, uint64_t now_ns, uint64_t every_ns, uint32_t burst)
{
    if (*full_ns < now_ns)
        *full_ns = now_ns;
    if (*full_ns - now_ns > (burst - 1) * every_ns)
        return false;
    *full_ns += every_ns;
    return true;
}

static void refuse(struct dp_msg_welcome *w, enum dp_verdict verdict, const char *text)
{
    w->verdict = (uint8_t)verdict;
    snprintf(w->text, sizeof w->text, "%.255s", text);
}

static bool step_is_alive(const struct dp_coord *c, uint64_t now_ns)
{
    bool may_return = c->train.has_layout && now_ns - c->life.begin_ns < RETURN_NS;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if ((c->worker[r].is_known || (may_return && !c->layout.gone[r])) && !c->worker[r].has_left &&
            !c->worker[r].is_lost)
            return true;
    return false;
}

/* The process that the rank belongs to, as this incarnation heard or the journal says. */
static bool is_same_process(const struct dp_coord *c, uint32_t rank, uint32_t pid, uint32_t slot)
{
    const struct coord_worker *w = &c->worker[rank];

    return (w->is_known || c->train.has_layout) && w->pid == pid && w->slot == slot && !w->is_lost;
}

/* A process that was there when the slot was drained and has not left yet. */
static bool is_leaver(const struct dp_coord *c, const struct dp_msg_hello *m, uint32_t pid, uint32_t slot)
{
    return c->train.has_layout && m->step_id == c->train.step_id && m->rank < c->train.n_workers && c->layout.gone[m->rank] &&
           !c->worker[m->rank].has_left && is_same_process(c, m->rank, pid, slot);
}

static bool may_start_on(const struct dp_coord *c, const struct dp_msg_hello *m, uint32_t pid, uint32_t slot)
{
    switch (c->slot[slot].state) {
    case SLOT_ACTIVE:
        return true;
    case SLOT_DRAINED:
    case SLOT_STOPPING:
        return is_leaver(c, m, pid, slot);
    default:
        return false;
    }
}

void coord_member_shape(struct dp_coord *c, const struct dp_msg_hello *m)
{
    c->train.has_step = c->train.has_shape = true;
    c->train.step_id = m->step_id;
    c->train.n_workers = m->n_workers;
    c->train.n_layers = m->n_layers;
    c->train.steps_total = m->steps_total;
    c->train.n_changes = m->n_changes;
    memcpy(c->train.change, m->change, sizeof c->train.change);
    c->train.microbatches = m->microbatches;
    c->train.tokens_per_microbatch = m->tokens_per_microbatch;
    c->train.schedule = m->schedule;
    c->train.stage_message_bytes = m->stage_message_bytes;
    snprintf(c->train.checkpoint_dir, sizeof c->train.checkpoint_dir, "%s", m->checkpoint_dir);
}

bool coord_member_fits(const struct dp_coord *c, const struct dp_msg_hello *m)
{
    if ((c->train.has_shape || c->train.has_layout) && (m->n_workers != c->train.n_workers || m->n_layers != c->train.n_layers))
        return false;
    return !c->train.has_shape || (m->steps_total == c->train.steps_total && m->microbatches == c->train.microbatches);
}

bool coord_member_is_sane(const struct dp_msg_hello *m)
{
    return m->rank < m->n_workers && m->n_workers <= DP_MAX_WORKERS && m->n_layers >= 1 &&
           m->n_layers <= DP_MAX_LAYERS && m->microbatches >= 1 && m->microbatches <= 65535 &&
           m->n_there <= m->n_workers && m->tokens_per_microbatch >= 1 && dp_schedule_is_trained(m->schedule) && m->final_sparsity >= 0.0 &&
           m->final_sparsity < 1.0 && m->prune_begin <= m->prune_end && dp_changes_check(m->change, m->n_changes, m->n_layers, NULL) == 0;
}

/* What a decision costs grows with all three, and the first two are the user's word. Such a run trains on without us.
 * A run that is known already keeps its place: its job may have become smaller. */
static bool is_too_big(const struct dp_coord *c, const struct dp_msg_hello *m, struct dp_err *err)
{
    if (c->train.has_shape || c->train.has_layout)
        return false;
    if (c->job.n_tasks && m->n_workers > c->job.n_tasks)
        dp_err_set(err, DP_EINVAL, "%u workers, but Slurm gave the job %u tasks or processors: ask for the tasks with "
                   "sbatch --ntasks", m->n_workers, c->job.n_tasks);
    else if ((uint64_t)m->n_workers * m->microbatches * m->n_layers > DP_RUN_SIZE_MAX)
        dp_err_set(err, DP_EINVAL, "%u workers x %u microbatches x %u layers are more than the daemon can plan for "
                   "(%u in all): use fewer microbatches", m->n_workers, m->microbatches, m->n_layers, DP_RUN_SIZE_MAX);
    else
        return false;
    return true;
}

static bool has_cuts(const struct dp_layout *l, const struct dp_msg_hello *m)
{
    return m->n_workers == l->n_workers && m->n_layers == l->n_layers &&
           !memcmp(m->cut, l->cut, (l->n_workers + 1) * sizeof l->cut[0]);
}

/* The first workers of a step say which layout they start with; all must say the same. */
static int join_first_layout(struct dp_coord *c, const struct dp_msg_hello *m, struct dp_err *err)
{
    if (!c->layout.n_workers) {
        struct dp_layout l = {.epoch = m->epoch, .n_workers = m->n_workers, .n_layers = m->n_layers};

        memcpy(l.cut, m->cut, sizeof l.cut);
        for (uint32_t r = m->n_there; r > 0 && r < m->n_workers; r++)
            l.gone[r] = 1;
        if (dp_layout_check(&l, err) < 0)
            return -1;
        c->layout = l;
        return 0;
    }
    if (m->epoch != c->layout.epoch || !has_cuts(&c->layout, m))
        return dp_err_set(err, DP_EINVAL, "worker %u starts with a different layout from the others", m->rank);
    return 0;
}

/* Is the layout that the worker has one that this journal can explain? A worker with a newer layout
 * than the journal is a contradiction: refused, never guessed at. */
static int check_epoch(const struct dp_coord *c, const struct dp_msg_hello *m, struct dp_err *err)
{
    bool is_behind = c->mig.state == MIG_COMMITTED && m->epoch + 1 == c->layout.epoch;
    bool is_awaited = c->mig.state == MIG_COMMITTED && c->mig.is_regroup; /* no regroup is over before its members know */
    bool is_to_regroup = (is_awaited || (c->last_regroup_id && c->layout.gone[m->rank])) && m->epoch < c->layout.epoch;

    if (m->epoch == c->layout.epoch && has_cuts(&c->layout, m))
        return 0;
    if (is_to_regroup) /* whatever hand-overs, or losses, it has not heard of */
        return 0;
    if (is_behind && m->doubt == c->mig.id && has_cuts(&c->mig.before, m))
        return 0;
    return dp_err_set(err, DP_EINVAL, "worker %u has layout epoch %llu, the run is at %llu", m->rank,
                      (unsigned long long)m->epoch, (unsigned long long)c->layout.epoch);
}

/* Has a seat, and its first process speaks, or the one that spoke before. */
static bool is_newcomer(const struct dp_coord *c, const struct dp_msg_hello *m, uint32_t pid, uint32_t slot)
{
    return c->train.has_layout && m->joins && m->rank < c->train.n_workers && slot == m->rank && coord_is_newcomer(c, m->rank) &&
           (!c->worker[m->rank].pid || c->worker[m->rank].pid == pid);
}

static int journal_newcomer(struct dp_coord *c, uint32_t rank, uint32_t pid)
{
    struct coord_seat seat = coord_seat_of(c, rank);

    seat.pid = pid;
    return coord_journal_seat(c, &seat);
}

static void all_are_there(struct dp_coord *c, uint64_t now_ns)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!c->worker[r].is_known && !c->layout.gone[r])
            return;
    c->train.has_layout = true;
    if (coord_journal_start(c, now_ns) < 0) {
        c->train.has_layout = false; /* tried again with the next HELLO or tick */
        return;
    }
    c->start_layout = c->layout;
    c->last_change_ns = now_ns;
    coord_note(c, now_ns, dp_layout_members(&c->layout) == 1 ? "%u worker trains %u layers" : "%u workers train %u layers",
               dp_layout_members(&c->layout), c->train.n_layers);
}

static void tell_lost_events(struct dp_coord *c, uint64_t now_ns)
{
    if (c->events.n_lost == c->events.n_lost_told)
        return;
    coord_note(c, now_ns, "%llu events were not taken: a run may send ten a second",
               (unsigned long long)(c->events.n_lost - c->events.n_lost_told));
    c->events.n_lost_told = c->events.n_lost;
    c->events.told_ns = now_ns;
}

void coord_member_end(struct dp_coord *c, uint64_t now_ns)
{
    tell_lost_events(c, now_ns);
}

void coord_member_tick(struct dp_coord *c, uint64_t now_ns)
{
    if (now_ns - c->events.told_ns >= TELL_LOST_NS)
        tell_lost_events(c, now_ns);
    if (c->train.has_shape && !c->train.has_layout)
        all_are_there(c, now_ns);
}

void coord_member_adopt(struct dp_coord *c, const struct dp_msg_hello *m, uint32_t pid, uint32_t slot)
{
    struct coord_worker *w = &c->worker[m->rank];

    w->is_known = w->is_connected = true;
    w->pid = pid;
    w->slot = slot;
    w->regroups = m->regroups == 1;
    w->told_proposal = 0;
    w->is_told_limit = false;
    w->mem_limit_bytes = m->mem_limit_bytes;
    if (!(w->speed > 0.0))
        w->speed = 1.0;
    snprintf(w->device, sizeof w->device, "%s", m->device);
    if (m->step > c->train.step && m->step <= c->train.steps_total && m->epoch == c->layout.epoch)
        c->train.step = m->step;
}

/* What a worker that comes (back) may have missed. */
static void catch_up(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_hello *m)
{
    if (coord_is_newcomer(c, m->rank)) { /* of layouts before it knows nothing */
        if (m->doubt)
            coord_migrate_tell(c, m->rank, m->doubt);
        return;
    }
    if (m->doubt || (m->epoch < c->layout.epoch && c->last_regroup_id))
        coord_migrate_tell(c, m->rank, m->doubt);
    if (m->epoch == c->layout.epoch && !m->doubt)
        coord_migrate_seen(c, now_ns, m->rank, m->epoch);
    if (c->last_commit_id && c->mig.state != MIG_COMMITTED && m->epoch == c->layout.epoch)
        coord_migrate_finish(c, now_ns, m->rank); /* DONE: copies may be freed, leavers may leave */
}

static int admit(struct dp_coord *c, uint32_t pid, uint32_t slot, const struct dp_msg_hello *m,
                 struct dp_err *err)
{
    struct coord_worker *w = &c->worker[m->rank];

    if (!coord_member_fits(c, m))
        return dp_err_set(err, DP_EINVAL, "worker %u belongs to another run", m->rank);
    if (is_newcomer(c, m, pid, slot))
        return 0;
    if (m->joins && !c->train.has_layout)
        return dp_err_set(err, DP_EINVAL, "worker %u would join a run that does not train", m->rank);
    if ((w->is_known || c->train.has_layout) && !is_same_process(c, m->rank, pid, slot))
        return dp_err_set(err, DP_EINVAL, "rank %u is process %u on %s", m->rank, w->pid,
                          c->slot[w->slot].label);
    if (w->is_known)
        return 0;
    return c->train.has_layout ? check_epoch(c, m, err) : join_first_layout(c, m, err);
}

static bool has_node(const struct dp_coord *c, const char *node)
{
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (!strcmp(c->slot[s].name, node))
            return true;
    return false;
}

void dp_coord_hello(struct dp_coord *c, uint64_t now_ns, const char *node, uint32_t pid,
                    const struct dp_msg_hello *m, struct dp_msg_welcome *w)
{
    int slot = coord_slot_find(c, node, m->job_id);
    struct dp_err err = {.text = "not of this run"};

    memset(w, 0, sizeof *w);
    w->report_ms = REPORT_MS;
    if (slot < 0 || !coord_member_is_sane(m)) {
        (void)dp_changes_check(m->change, m->n_changes, m->n_layers, &err); /* what it says of it, if that is what is wrong */
        refuse(w, DP_VERDICT_DENIED, has_node(c, node) ? err.text : "this node is not part of the job");
        return;
    }
    if (!may_start_on(c, m, pid, (uint32_t)slot)) {
        refuse(w, DP_VERDICT_FENCED, "this node was drained and is being given back");
        return;
    }
    if (c->life.is_over && (!c->train.has_step || m->step_id == c->train.step_id)) {
        refuse(w, DP_VERDICT_DENIED, "the run is over");
        return;
    }
    if (c->train.has_step && m->step_id != c->train.step_id) {
        if (!c->life.is_over && step_is_alive(c, now_ns)) {
            refuse(w, DP_VERDICT_DENIED, "another step of this job is training");
            return;
        }
        if (!is_in_time(&c->steps_full_ns, now_ns, STEP_NS, STEP_BURST)) {
            refuse(w, DP_VERDICT_UNKNOWN, "steps of this job begin too fast");
            return;
        }
        coord_step_reset(c);
        coord_note(c, now_ns, "step %u starts", m->step_id);
    }
    if (c->train.has_layout && m->rank < c->train.n_workers && c->layout.gone[m->rank] &&
        !is_leaver(c, m, pid, (uint32_t)slot) && !is_newcomer(c, m, pid, (uint32_t)slot)) {
        refuse(w, DP_VERDICT_FENCED, "this worker has left the run");
        return;
    }
    if (is_too_big(c, m, &err)) {
        refuse(w, DP_VERDICT_UNKNOWN, err.text);
        coord_note(c, now_ns, "its layout stays as it is: %.220s", err.text);
        return;
    }
    if (admit(c, pid, (uint32_t)slot, m, &err) < 0) {
        refuse(w, DP_VERDICT_DENIED, err.text);
        coord_note(c, now_ns, "refused: %.240s", err.text);
        return;
    }
    if (is_newcomer(c, m, pid, (uint32_t)slot) && c->worker[m->rank].pid != pid && journal_newcomer(c, m->rank, pid) < 0) {
        refuse(w, DP_VERDICT_UNKNOWN, "the journal cannot be written");
        return;
    }
    if (!c->train.has_shape)
        coord_member_shape(c, m);
    coord_member_adopt(c, m, pid, (uint32_t)slot);
    coord_trait_take(c, now_ns, m);
    w->mode = (uint8_t)coord_mode(c);
    w->copies = coord_copies(c);
    if (!c->stall.is_stalled)
        coord_stall_heard(c, now_ns); /* a worker that only comes back makes no step */
    if (!c->train.has_layout)
        all_are_there(c, now_ns);
    else
        catch_up(c, now_ns, m);
}

static void check_completed(struct dp_coord *c, uint64_t now_ns)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!c->layout.gone[r] && !(c->worker[r].has_left && c->worker[r].bye == DP_BYE_COMPLETED))
            return;
    c->train.is_completed = true;
    coord_note(c, now_ns, "training completed");
}

void dp_coord_goodbye(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_goodbye *m)
{
    struct coord_worker *w = &c->worker[m->rank < DP_MAX_WORKERS ? m->rank : 0];

    if (m->rank >= c->train.n_workers || w->has_left || !w->is_known)
        return;
    w->has_left = true;
    w->bye = m->how;
    if (m->step > c->train.step && m->step <= c->train.steps_total)
        c->train.step = m->step;
    coord_loss_take(c, now_ns, m->step, m->loss); /* steps after the last report */
    if (w->is_newcomer)
        coord_seat_over(c, now_ns, m->rank);
    if (c->layout.gone[m->rank]) {
        coord_release_left(c, now_ns, w->slot);
        return; /* a leaver, as agreed */
    }
    if (c->mig.state == MIG_PREPARING)
        coord_migrate_abort(c, now_ns, "a worker left");
    if (m->how == DP_BYE_FAILED)
        coord_fail(c, now_ns, "worker %u on %s: %s", m->rank, c->slot[w->slot].label, m->text);
    else if (m->how == DP_BYE_DRAINED)
        coord_fail(c, now_ns, "worker %u on %s left without being told to", m->rank, c->slot[w->slot].label);
    if (c->train.has_layout)
        check_completed(c, now_ns);
}

void dp_coord_worker_lost(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_worker_lost *m)
{
    struct coord_worker *w = &c->worker[m->rank < DP_MAX_WORKERS ? m->rank : 0];
    char text[160];

    if (m->rank >= c->train.n_workers || !(w->is_known || c->train.has_layout) || w->pid != m->pid)
        return;
    w->is_connected = false;
    if (!m->exited || w->has_left || w->is_lost)
        return;
    if (c->layout.gone[m->rank]) {
        w->has_left = true;
        w->bye = DP_BYE_DRAINED;
        coord_release_left(c, now_ns, w->slot);
        if (w->is_newcomer)
            coord_seat_over(c, now_ns, m->rank);
        return;
    }
    w->is_lost = true;
    w->died_ns = now_ns;
    coord_regroup_say(c, m->rank, text, sizeof text);
    if (c->mig.state == MIG_PREPARING)
        coord_migrate_abort(c, now_ns, text);
    coord_regroup_lost(c, now_ns, text);
}

const char *dp_coord_worker_at(const struct dp_coord *c, uint32_t rank, uint32_t *pid)
{
    if (rank >= c->train.n_workers || !(c->worker[rank].is_known || c->train.has_layout))
        return NULL;
    *pid = c->worker[rank].pid;
    return c->slot[c->worker[rank].slot].name;
}

/* Layers of the hand-over under way are copied while training goes on: its votes come later. No line of a log: it is said every 2 s. */
static void take_copying(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_event *m)
{
    if (c->mig.state == MIG_PREPARING && m->value == (double)c->mig.id)
        c->mig.copying_ns = now_ns;
}

/* An event is a line of the log and one of those that are kept. What is said again and again by itself, and then changes nothing,
 * is neither. */
static bool may_take_event(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_event *m)
{
    if (m->kind == DP_EV_LEAVE)
        return true;
    if (is_in_time(&c->events.full_ns, now_ns, EVENT_NS, EVENT_BURST))
        return true;
    if (c->events.n_lost++ == c->events.n_lost_told)
        c->events.told_ns = now_ns; /* the first of them: how many there are shows later */
    return false;
}

void dp_coord_event(struct dp_coord *c, uint64_t now_ns, uint32_t rank, const struct dp_msg_event *m)
{
    if (m->kind == DP_EV_SHADOWING) {
        take_copying(c, now_ns, m);
        return;
    }
    if (!may_take_event(c, now_ns, m))
        return;
    switch (m->kind) {
    case DP_EV_PRUNED:
        if (!(m->value >= 0.0 && m->value <= 1.0)) {
            c->reports.n_ignored++;
            return;
        }
        c->train.sparsity = m->value;
        coord_note(c, now_ns, "pruned to sparsity %.3f at step %llu", m->value, (unsigned long long)m->step);
        break;
    case DP_EV_FROZEN:
        if (!(m->value >= 0.0 && m->value <= (double)c->train.n_layers)) {
            c->reports.n_ignored++;
            return;
        }
        coord_note(c, now_ns, "layers 0 to %.0f only go forward since step %llu", m->value - 1, (unsigned long long)m->step);
        break;
    case DP_EV_SAVED:
        snprintf(c->train.checkpoint, sizeof c->train.checkpoint, "%s", m->text);
        coord_note(c, now_ns, "checkpoint %.200s", m->text);
        coord_memory_saved(c);
        break;
    case DP_EV_EVAL:
        c->train.eval_loss = m->value;
        coord_note(c, now_ns, "validation loss %.4f%s%.100s", m->value, m->text[0] ? ", " : "", m->text);
        break;
    case DP_EV_RESUMED:
        coord_note(c, now_ns, "resumed from %.200s", m->text);
        break;
    case DP_EV_REGROUPED:
        coord_regroup_begun(c, now_ns, m);
        break;
    case DP_EV_LEAVE:
        coord_leave_asked(c, now_ns, rank, m->value == DP_LEAVE_DRAINED);
        break;
    case DP_EV_FAILED:
        coord_fail(c, now_ns, "%.250s", m->text);
        break;
    default:
        c->reports.n_ignored++;
    }
}
