/* SPDX-License-Identifier: BSD-3-Clause */
/* Giving slots back (doc/protocol.md, "Release"): drained, proved gone, intended, asked, read back.
 *
 * No proof, no release. After RELINTENT is durable a slot is dead for this run, whatever Slurm says.
 * What Slurm answers to the request proves nothing (slurm.md F4, F5): only two reads of the job
 * without the slots, confirm_s apart and from the same life of the controller, do. Before every
 * request the job is read, so that a late retry cannot hit a requeued job (F6).
 *
 * A slice is a job of its own, which ends when its worker has left. Slurm fences that itself: its word that the job is over
 * is the proof, and nothing is asked of it. What else the slice's script does after its worker keeps the slot held until then.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

uint32_t coord_slots_with(const struct dp_coord *c, enum coord_slot_state state)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < c->n_slots; s++)
        n += c->slot[s].state == state;
    return n;
}

uint64_t coord_slot_freed_ns(const struct dp_coord *c, uint32_t slot)
{
    const struct coord_slot *s = &c->slot[slot];

    return s->state == SLOT_RELEASED || (s->freed_ns && c->rel.is_clean) ? s->freed_ns : 0;
}

double coord_slot_seconds_held(const struct dp_coord *c, uint64_t now_ns)
{
    static uint64_t t_ns[COORD_HELD_MAX];
    static uint32_t n[COORD_HELD_MAX];
    uint32_t n_times = coord_held_by_time(c, t_ns, n);
    double held = 0.0;

    for (uint32_t i = 0; i < n_times; i++) {
        uint64_t to_ns = i + 1 < n_times ? t_ns[i + 1] : now_ns;

        held += n[i] * (coord_seconds(c, to_ns) - coord_seconds(c, t_ns[i]));
    }
    return held;
}

bool coord_has_outdated(const struct dp_coord *c, char *why, size_t cap)
{
    why[0] = '\0';
    for (uint32_t s = 0; c->ops.is_outdated && s < c->n_slots; s++)
        if (!coord_is_fixed(c, s) && c->slot[s].state < SLOT_RELEASING && c->ops.is_outdated(c->arg, s, why, cap))
            return true;
    return false;
}

/* --- a: slots whose workers have all left by a committed and acknowledged layout --- */

static bool is_empty(const struct dp_coord *c, uint32_t slot)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->worker[r].slot == slot) {
            if (!c->layout.gone[r] || coord_is_newcomer(c, r))
                return false;
            n++;
        }
    return n > 0;
}

/* Of slices: the next read is now. */
static void look_at_once(struct dp_coord *c, uint64_t now_ns)
{
    if (!coord_is_sliced(c))
        return;
    c->rel.ending_ns = 0;
    if (c->rel.next_ns > now_ns)
        c->rel.next_ns = now_ns;
}

/* Slices end within some tenths of a second, or when their script is over. Slurm looks for the slices of a home among all jobs of their
 * owner, so where he has thousands it rests from each answer. */
static void look_again_soon(struct dp_coord *c, uint64_t now_ns)
{
    uint64_t rest_ns = ENDING_REST * (now_ns - c->rel.asked_ns), *pause_ns = &c->rel.ending_ns;

    *pause_ns = *pause_ns ? 2 * *pause_ns : ENDING_FIRST_NS;
    if (*pause_ns < rest_ns)
        *pause_ns = rest_ns;
    if (*pause_ns > ENDING_NS)
        *pause_ns = ENDING_NS;
    if (c->rel.next_ns > now_ns + *pause_ns)
        c->rel.next_ns = now_ns + *pause_ns;
}

static void drain(struct dp_coord *c, uint64_t now_ns)
{
    if (!c->train.has_layout || !coord_migrate_is_idle(c) || coord_mode(c) != DP_MODE_RELEASE)
        return; /* in another mode a node whose workers were lost stays in the job */
    for (uint32_t s = 0; s < c->n_slots; s++) {
        if (c->slot[s].state != SLOT_ACTIVE || coord_is_fixed(c, s) || !is_empty(c, s))
            continue;
        if (coord_journal_slot(c, DP_REC_DRAIN, s, now_ns, 0, "") < 0)
            return;
        c->slot[s].state = SLOT_DRAINED;
        c->slot[s].drained_ns = now_ns;
        c->slot[s].text[0] = '\0';
        coord_note(c, now_ns, "%s is drained", c->slot[s].label);
        look_at_once(c, now_ns);
    }
}

void coord_release_taken(struct dp_coord *c, uint64_t now_ns, uint32_t slot)
{
    static const char why[] = "Slurm took it out of the job";
    struct coord_slot *s = &c->slot[slot];

    if ((s->state > SLOT_STOPPING && s->state != SLOT_HELD) || coord_journal_slot(c, DP_REC_DRAIN, slot, now_ns, 0, "") < 0 ||
        coord_journal_slot(c, DP_REC_RELEASED, slot, now_ns, now_ns, why) < 0)
        return; /* next time that Slurm is asked */
    s->state = SLOT_RELEASED;
    s->drained_ns = s->freed_ns = s->released_ns = now_ns;
    snprintf(s->text, sizeof s->text, "%s", why);
    coord_note(c, now_ns, "%s: Slurm took it out of the job", s->label);
}

/* --- b, c: stop it and wait for the proof --- */

static bool all_left(const struct dp_coord *c, uint32_t slot)
{
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (c->worker[r].slot == slot && !c->worker[r].has_left && !c->worker[r].is_lost)
            return false;
    return true;
}

static void hold(struct dp_coord *c, uint64_t now_ns, uint32_t slot, const char *why)
{
    struct coord_slot *s = &c->slot[slot];

    if (s->state == SLOT_HELD || coord_journal_slot(c, DP_REC_HELD, slot, now_ns, 0, why) < 0)
        return;
    s->state = SLOT_HELD;
    snprintf(s->text, sizeof s->text, "%.255s", why);
    coord_note(c, now_ns, "%s is held, not released: %.180s", s->label, s->text);
}

static void ask_stop(struct dp_coord *c, uint64_t now_ns, uint32_t slot)
{
    struct coord_slot *s = &c->slot[slot];

    if (s->state == SLOT_DRAINED)
        s->state = SLOT_STOPPING;
    if (!s->stop_first_ns)
        s->stop_first_ns = now_ns;
    s->stop_last_ns = now_ns;
    c->ops.stop_slot(c->arg, slot, (uint32_t)(c->limits.grace_s * 1000.0));
}

/* Its job ends when its worker has left. Who does not leave, or leaves a script behind that goes on, keeps it. */
static void await_end(struct dp_coord *c, uint64_t now_ns, uint32_t slot)
{
    if (c->slot[slot].state != SLOT_HELD &&
        (double)(now_ns - c->slot[slot].drained_ns) / 1e9 > c->limits.gone_timeout_s + c->limits.grace_s)
        hold(c, now_ns, slot, all_left(c, slot) ? "its worker has left, and its job goes on" : "its worker has not left");
}

static void be_gone(struct dp_coord *c, uint64_t now_ns, uint32_t slot, uint64_t took_ns, const char *text)
{
    struct coord_slot *s = &c->slot[slot];

    if (coord_journal_slot(c, DP_REC_GONE, slot, now_ns, took_ns, text) < 0)
        return; /* asked again */
    s->state = SLOT_GONE;
    s->gone_ns = now_ns;
    s->proof_took_ns = took_ns;
    snprintf(s->text, sizeof s->text, "%.255s", text);
    coord_note(c, now_ns, "%s is gone: %.180s", s->label, s->text);
}

static bool is_leaving(const struct coord_slot *s)
{
    return s->state == SLOT_DRAINED || s->state == SLOT_STOPPING || s->state == SLOT_HELD;
}

void coord_release_left(struct dp_coord *c, uint64_t now_ns, uint32_t slot)
{
    if (is_leaving(&c->slot[slot]))
        look_at_once(c, now_ns);
}

static bool has_leaving(const struct dp_coord *c)
{
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (is_leaving(&c->slot[s]))
            return true;
    return false;
}

static void note_ended(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    char text[96];

    for (uint32_t s = 0; s < c->n_slots; s++)
        if (is_leaving(&c->slot[s]) && !coord_slot_is_in(c, s, job)) {
            snprintf(text, sizeof text, "Slurm says that job %u is over", c->slot[s].slice);
            be_gone(c, now_ns, s, now_ns - c->slot[s].drained_ns, text);
            if (c->slot[s].state == SLOT_GONE)
                c->slot[s].freed_ns = now_ns; /* others have it from here on, however late the rest of this is */
        }
}

static void stop(struct dp_coord *c, uint64_t now_ns, uint32_t slot)
{
    struct coord_slot *s = &c->slot[slot];
    uint64_t pause = s->state == SLOT_HELD ? HELD_RESEND_NS : STOP_RESEND_NS;
    char why[256];

    /* Leavers go by themselves first: a kill would end the whole step (slurm.md F11). */
    if (s->state == SLOT_DRAINED && !all_left(c, slot) &&
        (double)(now_ns - s->drained_ns) / 1e9 < c->limits.grace_s)
        return;
    if (s->state == SLOT_STOPPING && s->stop_first_ns &&
        (double)(now_ns - s->stop_first_ns) / 1e9 > c->limits.gone_timeout_s + c->limits.grace_s) {
        hold(c, now_ns, slot, "no proof that its processes are gone");
        return;
    }
    if (c->ops.is_outdated && c->ops.is_outdated(c->arg, slot, why, sizeof why))
        hold(c, now_ns, slot, why); /* until it is upgraded */
    else if (!s->stop_last_ns || now_ns - s->stop_last_ns >= pause)
        ask_stop(c, now_ns, slot);
}

void dp_coord_slot_gone(struct dp_coord *c, uint64_t now_ns, const char *node, const struct dp_msg_slot_gone *m)
{
    int i = coord_slot_find(c, node, m->job_id);
    struct coord_slot *s = i < 0 ? NULL : &c->slot[i];

    /* Only what was asked for counts: a slot in stopping or held, and an answer to this incarnation. */
    if (!s || c->life.is_over || m->incarnation != c->life.incarnation || !s->stop_first_ns ||
        (s->state != SLOT_STOPPING && s->state != SLOT_HELD)) {
        c->reports.n_ignored++;
        return;
    }
    if (!m->gone) {
        hold(c, now_ns, (uint32_t)i, m->text[0] ? m->text : "no proof");
        return;
    }
    be_gone(c, now_ns, (uint32_t)i, m->took_ns, m->text);
}

/* --- d: the intent, for all proved slots at once --- */

static uint64_t newest_gone_ns(const struct dp_coord *c)
{
    uint64_t newest_ns = 0;

    for (uint32_t s = 0; s < c->n_slots; s++)
        if (c->slot[s].state == SLOT_GONE && c->slot[s].gone_ns > newest_ns)
            newest_ns = c->slot[s].gone_ns;
    return newest_ns;
}

/* The only shrink that is left takes all that it can. Slots that nobody could ask about, slurmctld being away, are
 * proved one after the other when it is back; one that is really stuck must not keep the others for long. */
static bool waits_for_held(const struct dp_coord *c, uint64_t now_ns)
{
    return coord_shrinks_left(c) == 1 && coord_slots_with(c, SLOT_HELD) && now_ns - newest_gone_ns(c) < LAST_SHRINK_WAIT_NS;
}

/* Where there will be another shrink, slots that are empty within a moment go together, and nobody waits for more. A hand-over that
 * is under way may empty more: a node that drains, which would find the last shrink used. */
static bool waits_for_others(const struct dp_coord *c, uint64_t now_ns)
{
    if (coord_shrinks_left(c) == 1 && !coord_migrate_is_idle(c))
        return true;
    return (coord_slots_with(c, SLOT_DRAINED) || coord_slots_with(c, SLOT_STOPPING)) &&
           (coord_shrinks_left(c) == 1 || now_ns - newest_gone_ns(c) < MORE_WAIT_NS);
}

static void intend(struct dp_coord *c, uint64_t now_ns)
{
    uint8_t is_set[DP_MAX_SLOTS] = {0};

    if (!coord_slots_with(c, SLOT_GONE) || coord_slots_with(c, SLOT_RELEASING) || !coord_shrinks_left(c) ||
        waits_for_others(c, now_ns) || waits_for_held(c, now_ns))
        return;
    for (uint32_t s = 0; s < c->n_slots; s++)
        is_set[s] = c->slot[s].state == SLOT_GONE;
    if (coord_journal_relintent(c, now_ns, is_set) < 0)
        return;
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (is_set[s]) {
            c->slot[s].state = SLOT_RELEASING;
            c->slot[s].intent_ns = now_ns;
        }
    c->rel.shrinks_used++;
    c->rel.is_clean = false;
    c->rel.backoff_s = 0;
    c->rel.next_ns = now_ns;
}

/* --- e, f: read, ask, read, and read again --- */

static void wait_longer(struct dp_coord *c, uint64_t now_ns)
{
    uint32_t b = c->rel.backoff_s;

    c->rel.backoff_s = b ? (2 * b < BACKOFF_MAX_S ? 2 * b : BACKOFF_MAX_S) : 1;
    c->rel.next_ns = now_ns + c->rel.backoff_s * DP_SECOND_NS;
}

static void ask_read(struct dp_coord *c, uint64_t now_ns)
{
    c->rel.is_reading = true;
    c->rel.asked_ns = now_ns;
    c->rel.deadline_ns = now_ns + ANSWER_NS;
    c->ops.read_job(c->arg);
}

static void ask_shrink(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    uint8_t keep[DP_MAX_SLOTS] = {0};

    for (uint32_t s = 0; s < c->n_slots; s++)
        keep[s] = c->slot[s].state < SLOT_RELEASING || c->slot[s].state == SLOT_HELD
                      ? coord_slot_is_in(c, s, job)
                      : 0;
    keep[c->batch_slot] = 1;
    c->rel.attempts++;
    c->rel.is_shrinking = true;
    c->rel.deadline_ns = now_ns + ANSWER_NS;
    c->ops.shrink(c->arg, keep);
}

static void confirmed(struct dp_coord *c, uint64_t now_ns)
{
    for (uint32_t s = 0; s < c->n_slots; s++) {
        struct coord_slot *k = &c->slot[s];

        if (k->state != SLOT_RELEASING)
            continue;
        if (coord_journal_slot(c, DP_REC_RELEASED, s, k->freed_ns, now_ns, k->text) < 0) {
            wait_longer(c, now_ns);
            return;
        }
        k->state = SLOT_RELEASED;
        k->released_ns = now_ns;
        coord_note(c, now_ns, "%s is released, %.1f s after it was drained", k->label,
                   (double)(k->freed_ns - k->drained_ns) / 1e9);
    }
    c->rel.next_ns = now_ns + RECHECK_NS;
}

static void without_slots(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    c->rel.backoff_s = 0;
    if (!c->rel.is_clean || c->rel.clean_boot_s != job->boot_s) {
        c->rel.is_clean = true;
        c->rel.clean_ns = now_ns;
        c->rel.clean_boot_s = job->boot_s;
        for (uint32_t s = 0; s < c->n_slots; s++)
            if (c->slot[s].state == SLOT_RELEASING && !c->slot[s].freed_ns)
                c->slot[s].freed_ns = now_ns;
    }
    if (!coord_slots_with(c, SLOT_RELEASING))
        c->rel.next_ns = now_ns + RECHECK_NS;
    else if ((double)(now_ns - c->rel.clean_ns) / 1e9 >= c->limits.confirm_s && now_ns > c->rel.clean_ns)
        confirmed(c, now_ns);
    else
        c->rel.next_ns = c->rel.clean_ns + (uint64_t)(c->limits.confirm_s * 1e9) + 1;
}

/* A slot that Slurm took back is there again: the controller lost what it had acknowledged (F4). */
static void slot_came_back(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    c->rel.lost_updates++;
    c->rel.is_clean = false;
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (coord_slot_is_in(c, s, job) &&
            (c->slot[s].state == SLOT_RELEASED || c->slot[s].state == SLOT_RELEASING)) {
            c->slot[s].state = SLOT_RELEASING;
            c->slot[s].freed_ns = 0;
            coord_note(c, now_ns, "%s is back in the job: Slurm lost the release, asking again",
                       c->slot[s].label);
        }
}

static void judge_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    bool is_present = false;

    for (uint32_t s = 0; s < c->n_slots; s++)
        is_present |= c->slot[s].state >= SLOT_RELEASING && c->slot[s].state != SLOT_HELD &&
                      coord_slot_is_in(c, s, job);
    if (!is_present) {
        without_slots(c, now_ns, job);
        return;
    }
    if (c->rel.is_clean)
        slot_came_back(c, now_ns, job);
    for (uint32_t s = 0; s < c->n_slots; s++)
        if ((c->slot[s].state == SLOT_RELEASED || c->slot[s].state == SLOT_RELEASING) && coord_slot_is_in(c, s, job)) {
            c->slot[s].state = SLOT_RELEASING; /* first read after a restart of this daemon */
            c->slot[s].freed_ns = 0;
        }
    wait_longer(c, now_ns);
    if (!coord_is_sliced(c)) /* a job that came back has no processes: Slurm ends it */
        ask_shrink(c, now_ns, job);
}

void dp_coord_may_shrink(struct dp_coord *c, uint64_t now_ns, uint32_t allowed, bool has_stepmgr)
{
    c->job.shrinks_allowed = allowed;
    c->job.has_stepmgr = has_stepmgr;
    if (has_stepmgr && !c->rel.has_told_stepmgr && coord_mode(c) == DP_MODE_RELEASE)
        coord_note(c, now_ns, "no node will be given back: the job has a stepmgr (sbatch --stepmgr, or SlurmctldParameters="
                              "enable_stepmgr), which would start its next step on nodes that left");
    c->rel.has_told_stepmgr |= has_stepmgr;
}

void dp_coord_job_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job, const char *text)
{
    if (c->life.is_over)
        return;
    c->rel.is_reading = false;
    c->rel.last_read_ns = now_ns;
    if (!job) {
        coord_memory_read(c, now_ns, NULL);
        snprintf(c->rel.answer, sizeof c->rel.answer, "job cannot be read: %.200s", text ? text : "");
        wait_longer(c, now_ns);
        return;
    }
    if (job->restart_count != c->job.restart_count) {
        dp_coord_end(c, now_ns, "the job was requeued");
        return;
    }
    coord_leave_read(c, now_ns, job);
    if (!job->is_running) {
        snprintf(c->rel.answer, sizeof c->rel.answer, "job is not running");
        wait_longer(c, now_ns);
        return;
    }
    dp_coord_may_shrink(c, now_ns, job->shrinks_allowed, job->has_stepmgr);
    c->job.boot_s = job->boot_s;
    c->job.end_s = job->end_s;
    coord_memory_read(c, now_ns, job);
    coord_regroup_read(c, now_ns, job);
    if (c->rel.is_shrinking)
        return; /* a read that was under way before the request says nothing about it */
    if (coord_is_sliced(c))
        note_ended(c, now_ns, job);
    judge_read(c, now_ns, job);
    if (coord_is_sliced(c) && has_leaving(c))
        look_again_soon(c, now_ns);
}

void dp_coord_release_answer(struct dp_coord *c, uint64_t now_ns, int rc, const char *text)
{
    if (c->life.is_over || !c->rel.is_shrinking) {
        c->reports.n_ignored++;
        return;
    }
    c->rel.is_shrinking = false;
    snprintf(c->rel.answer, sizeof c->rel.answer, "rc %d: %.200s", rc, text ? text : "");
    if (rc != 0)
        coord_note(c, now_ns, "Slurm: %.200s", c->rel.answer);
    if (c->rel.backoff_s <= 1)
        c->rel.next_ns = now_ns; /* whatever it says, the job is read; the first time at once */
}

void coord_release_tick(struct dp_coord *c, uint64_t now_ns)
{
    drain(c, now_ns);
    for (uint32_t s = 0; s < c->n_slots; s++) {
        if (is_leaving(&c->slot[s]) && coord_is_sliced(c))
            await_end(c, now_ns, s);
        else if (is_leaving(&c->slot[s]))
            stop(c, now_ns, s);
    }
    intend(c, now_ns);
    if (!coord_slots_with(c, SLOT_RELEASING) && !coord_slots_with(c, SLOT_RELEASED) &&
        !(coord_is_sliced(c) && has_leaving(c)))
        return;
    if ((c->rel.is_reading || c->rel.is_shrinking) && now_ns < c->rel.deadline_ns)
        return;
    if (c->rel.is_reading || c->rel.is_shrinking) { /* never answered: read again */
        c->rel.is_reading = c->rel.is_shrinking = false;
        c->rel.next_ns = now_ns;
    }
    if (now_ns >= c->rel.next_ns)
        ask_read(c, now_ns);
}
