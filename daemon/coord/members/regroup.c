/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that are lost without a word, and the others who go on (doc/protocol.md, "A lost worker").
 *
 * Lost is a worker whose process has ended as the kernel of its node says, or whose node Slurm took out of the job; a broken
 * connection says nothing. What a daemon was not there to hear is asked for: of a worker that is away its node is asked
 * whether the process lives, and Slurm whether the job still has the node.
 *
 * Then those who are left get a layout of their own, by one durable record, which ends whatever hand-over was under way: they
 * make it anew from their newest checkpoint, so it does not matter who had which layers. It is told as the decision of a
 * hand-over is (migrate.c). Where nobody can go on, that is told too: workers wait for one or the other.
 */
#include "daemon/coord/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GATHER_NS (DP_SECOND_NS / 5)    /* for more losses: two workers, or all of a node, die at once */
#define RETRY_NS DP_SECOND_NS           /* of a record that could not be written */
#define SEEK_AFTER_NS (3 * DP_SECOND_NS) /* a worker is back by then, also after its daemon's restart */
#define SEEK_NS (2 * DP_SECOND_NS)      /* between two questions about a process */
#define READ_NS (5 * DP_SECOND_NS)      /* between two about a node */
#define REFUSE_NS DP_SECOND_NS          /* between two times that a worker hears that nobody goes on */

/* --- a layout for those who are left --- */

static bool leaves(const struct dp_coord *c, uint32_t rank, enum coord_who who)
{
    return (who == COORD_STAYING || who == COORD_OFF_DRAINED) && coord_is_to_leave(c, rank, who == COORD_OFF_DRAINED);
}

/* The slowest of them is as fast as possible, by the loads of the newest reports and within each one's memory, as policy `time`
 * has it. Here and not in a child: they wait for it, and 1024 layers over 512 devices take milliseconds. */
int coord_regroup_lay_out(const struct dp_coord *c, enum coord_who who, struct dp_layout *next)
{
    struct coord_snapshot *s = malloc(sizeof *s);
    struct dp_layout current = c->layout;
    uint64_t weight[DP_MAX_LAYERS], largest;
    double speed[DP_MAX_WORKERS];
    int rc;

    if (!s)
        return -1;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        speed[r] = c->worker[r].speed;
    coord_snapshot_fill(c, speed, s);
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (who == COORD_WITH_NEWCOMERS && coord_is_ready(c, r))
            current.gone[r] = 0;
    s->in.current = &current;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        s->device[r].is_allowed = c->layout.gone[r] ? !current.gone[r]
                                                    : coord_is_live(c, r) && !leaves(c, r, who);
    for (uint32_t l = 0; l < c->train.n_layers; l++) {
        weight[l] = dp_policy_layer_work_ns(&s->in, l);
        weight[l] += weight[l] == 0; /* nothing was reported: all layers are alike */
    }
    rc = dp_policy_minmax(&s->in, weight, true, next, &largest, NULL);
    if (rc < 0 && coord_snapshot_forget_copies(s)) /* rather without some of them than not at all */
        rc = dp_policy_minmax(&s->in, weight, true, next, &largest, NULL);
    free(s);
    if (rc < 0)
        return -1;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        next->gone[r] |= c->worker[r].is_lost || leaves(c, r, who);
    return 0;
}

/* --- who is lost, and can the others go on? --- */

static bool is_lost_here(const struct dp_coord *c, uint32_t rank)
{
    return !c->layout.gone[rank] && c->worker[rank].is_lost;
}

void coord_regroup_say(const struct dp_coord *c, uint32_t rank, char *out, size_t cap)
{
    snprintf(out, cap, "worker %u on %s was lost (process %u)", rank, c->slot[c->worker[rank].slot].label, c->worker[rank].pid);
}

/* Of several the first one, and how many more. */
static void say_lost(const struct dp_coord *c, char *out, size_t cap)
{
    uint32_t first = 0, n = coord_count(c, is_lost_here, &first);

    coord_regroup_say(c, first, out, cap);
    if (n > 1)
        snprintf(out + strlen(out), cap - strlen(out), ", and %u more", n - 1);
}

const char *coord_regroup_why_not(const struct dp_coord *c)
{
    uint32_t n = 0;

    if (!c->train.has_layout)
        return "not all workers were there yet";
    if (coord_why_observed(c))
        return coord_why_observed(c);
    if (coord_mode(c) < DP_MODE_BALANCE)
        return "layers may not move in this mode";
    if (c->train.is_completed)
        return "the training is completed";
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        const struct coord_worker *w = &c->worker[r];

        if (c->layout.gone[r] || w->is_lost)
            continue;
        if (w->has_left)
            return "others have left already";
        if (w->is_known && !w->regroups && c->train.trainer[0])
            return "its trainer does not go on without a worker that is lost";
        if (w->is_known && !w->regroups)
            return "the workers met by PMIx, under which Slurm ends the step, or are of an older release";
        n++;
    }
    return n < c->limits.pack.min_devices ? "fewer workers are left than the user, or the site, asks for" : NULL;
}

static void give_up(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    char text[200];

    say_lost(c, text, sizeof text);
    coord_fail(c, now_ns, "%s; the run ends: %s", text, why);
}

void coord_regroup_lost(struct dp_coord *c, uint64_t now_ns, const char *text)
{
    const char *why = coord_regroup_why_not(c);

    if (why)
        give_up(c, now_ns, why);
    else
        coord_note(c, now_ns, "%s", text);
}

/* All that are lost are known, and so are those who are left. */
static bool is_ready(const struct dp_coord *c, uint64_t now_ns)
{
    uint64_t newest_ns = 0;
    bool is_any = false;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        const struct coord_worker *w = &c->worker[r];

        if (is_lost_here(c, r)) {
            is_any = true;
            newest_ns = w->died_ns > newest_ns ? w->died_ns : newest_ns;
        } else if (!c->layout.gone[r] && !w->is_known) {
            return false; /* after a restart: it comes back, or is looked for */
        }
    }
    return is_any && now_ns - newest_ns >= GATHER_NS && now_ns - c->regroup.tried_ns >= RETRY_NS;
}

static void regroup(struct dp_coord *c, uint64_t now_ns)
{
    const char *why = coord_regroup_why_not(c);
    struct dp_layout next;
    char reason[256];

    if (!is_ready(c, now_ns))
        return;
    if (!why && coord_regroup_lay_out(c, COORD_LIVE, &next) < 0)
        why = "the model does not fit into the memory of those who are left";
    if (why) {
        give_up(c, now_ns, why);
        return;
    }
    if (c->mig.state == MIG_PREPARING)
        coord_migrate_abort(c, now_ns, "a worker was lost");
    if (c->mig.state == MIG_PREPARING || c->mig.state == MIG_ABORTING)
        return; /* its COMMIT may be on the disk: first that is settled */
    say_lost(c, reason, sizeof reason);
    c->regroup.tried_ns = now_ns;
    (void)coord_migrate_regroup(c, now_ns, &next, reason);
}

/* --- workers that are away --- */

/* Its death would change something: it trains, or a hand-over waits for it. */
static bool is_awaited(const struct dp_coord *c, uint32_t rank)
{
    const struct coord_worker *w = &c->worker[rank];

    return coord_is_live(c, rank) ||
           (!coord_migrate_is_idle(c) && c->mig.is_member[rank] && !c->mig.has_ack[rank] && !w->has_left && !w->is_lost);
}

/* Of its workers none is left in the layout, and one was. */
static bool is_left(const struct dp_coord *c, uint32_t slot)
{
    bool is_any = false;

    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        if (c->worker[r].slot != slot)
            continue;
        if (!c->layout.gone[r])
            return false;
        is_any = true;
    }
    return is_any;
}

/* Its slice may have ended before a word of it came. */
static bool is_away_newcomer(const struct dp_coord *c, uint64_t now_ns, uint32_t rank)
{
    return coord_is_newcomer(c, rank) && !c->worker[rank].is_connected && now_ns - c->worker[rank].seated_ns > SEEK_AFTER_NS;
}

static void seek(struct dp_coord *c, uint64_t now_ns)
{
    bool is_any = coord_slots_with(c, SLOT_STOPPING) || coord_slots_with(c, SLOT_HELD); /* or is there nobody to prove anything? */

    for (uint32_t s = 0; s < c->n_slots && coord_is_sliced(c); s++)
        is_any |= c->slot[s].state == SLOT_ACTIVE && !coord_is_fixed(c, s) && is_left(c, s);
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        is_any |= is_away_newcomer(c, now_ns, r);
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        struct coord_worker *w = &c->worker[r];

        if (!is_awaited(c, r) || w->is_connected) {
            w->away_ns = 0;
            continue;
        }
        if (!w->away_ns)
            w->away_ns = now_ns;
        if (now_ns - w->away_ns < SEEK_AFTER_NS)
            continue;
        is_any = true;
        if (c->ops.find_worker && now_ns - w->sought_ns >= SEEK_NS) {
            w->sought_ns = now_ns;
            c->ops.find_worker(c->arg, r);
        }
    }
    if (is_any && now_ns - c->regroup.read_ns >= READ_NS) {
        c->regroup.read_ns = now_ns;
        c->ops.read_job(c->arg);
    }
}

/* What Slurm took by itself is noted as given back. */
static void note_taken(struct dp_coord *c, uint64_t now_ns)
{
    if (coord_is_sliced(c) && coord_mode(c) == DP_MODE_RELEASE)
        return; /* the end of a slice's job is how it goes back (release.c) */
    for (uint32_t s = 0; s < c->n_slots; s++)
        if (c->slot[s].is_taken && !coord_is_fixed(c, s) && coord_migrate_is_idle(c) && is_left(c, s))
            coord_release_taken(c, now_ns, s);
}

void coord_regroup_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    if (!c->train.has_layout || c->life.failed[0] || c->train.is_completed)
        return;
    for (uint32_t r = 0; r < c->train.n_workers; r++) {
        struct coord_worker *w = &c->worker[r];

        if (is_away_newcomer(c, now_ns, r) && !coord_slot_is_in(c, w->slot, job))
            coord_seat_over(c, now_ns, r);
        if (!is_awaited(c, r) || w->is_connected || !w->away_ns || now_ns - w->away_ns < SEEK_AFTER_NS ||
            coord_slot_is_in(c, w->slot, job))
            continue;
        dp_coord_worker_lost(c, now_ns, &(struct dp_msg_worker_lost){c->job.job_id, r, w->pid, 1});
    }
    for (uint32_t s = 0; s < c->n_slots; s++)
        c->slot[s].is_taken = !coord_slot_is_in(c, s, job);
}

/* Nobody goes on: whoever waits to hear who does ends. */
static void refuse(struct dp_coord *c, uint64_t now_ns)
{
    if (now_ns - c->regroup.refused_ns < REFUSE_NS)
        return;
    c->regroup.refused_ns = now_ns;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (coord_is_live(c, r) && c->worker[r].is_connected && c->worker[r].regroups)
            coord_migrate_send_regroup(c, r, false, c->life.failed);
}

void coord_regroup_tick(struct dp_coord *c, uint64_t now_ns)
{
    if (!c->train.has_layout || c->train.is_completed)
        return;
    if (c->life.failed[0]) {
        refuse(c, now_ns);
        return;
    }
    seek(c, now_ns);
    regroup(c, now_ns);
    note_taken(c, now_ns);
}

/* --- from where they go on --- */

static void forget_losses(struct dp_coord *c, uint64_t step)
{
    while (c->history.n_samples && c->history.sample[c->history.n_samples - 1].step > step)
        c->history.n_samples--;
    c->history.next_sample_step = step + 1;
    c->train.loss_step = step;
    c->train.loss = c->history.n_samples ? c->history.sample[c->history.n_samples - 1].loss : NAN;
}

void coord_regroup_begun(struct dp_coord *c, uint64_t now_ns, const struct dp_msg_event *m)
{
    struct coord_handover *h = c->history.n_handovers ? &c->history.handover[(c->history.n_handovers - 1) % COORD_HANDOVERS] : NULL;

    if (m->step > c->train.steps_total || !(m->value >= 0.0 && m->value <= 1.0)) {
        c->reports.n_ignored++;
        return;
    }
    c->train.step = m->step;
    c->train.sparsity = m->value;
    c->saving.step = m->step; /* steps that are made again count again */
    if (h && h->id == c->last_commit_id) {
        h->boundary = m->step;
        snprintf(h->reason, sizeof h->reason, "%.255s", m->text);
    }
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        c->worker[r].step = m->step;
    forget_losses(c, m->step);
    coord_note(c, now_ns, "goes on: %.230s", m->text);
}
