/* SPDX-License-Identifier: BSD-3-Clause */
/* See empty_slot.h. The sequence: wait for a polite exit, TERM, KILL, then look twice, 200 ms apart, with
 * nothing found, the device lock free and the memory of the cards back. Signals go through a pidfd that was opened before the
 * process was looked at again, so a pid that was given away meanwhile is not hit.
 * Where there are cgroups, KILL is for all in them at once, too.
 */
#include "config.h"

#include "daemon/release/empty_slot.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/release/procscan.h"
#include "daemon/release/slot_lock.h"

#define POLL_MS 20      /* at first; later a hundredth of the time that has passed, since a look reads all of /proc */
#define POLL_MAX_MS 250 /* of a slot that is held, one attempt follows the other */
#define CONFIRM_MS 200 /* between the two looks of a proof: a fork that one missed is seen by the other */
#define TERM_MS 2000 /* from TERM to KILL */
#define MEMORY_MS 10000 /* for the driver to answer: without nvidia-persistenced a card wakes up first */
#define ASK_MS 250   /* from one question to Slurm to the next, whatever a process that forks makes us ask */

static void wait_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

uint64_t dp_process_start(uint32_t pid)
{
    struct dp_proc p;

    return dp_proc_read(pid, &p) ? p.start_ticks : 0;
}

/* Send a signal to a process that was found, if it is still that process. */
static bool signal_process(const struct dp_proc *found, int sig)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)found->pid, 0);
    struct dp_proc now;
    bool sent = false;

    if (fd < 0)
        return false;
    if (dp_proc_read(found->pid, &now) && now.start_ticks == found->start_ticks)
        sent = syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) == 0;
    close(fd);
    return sent;
}

struct fence {
    const struct dp_empty_job *q;
    struct dp_empty_result *r;
    struct dp_proc_list list;
    uint32_t n_groups; /* of the job that have processes */
    char group[DP_CGROUP_PATH];
    uint64_t start_ns;
    uint64_t known_ticks; /* who began no later is of the life that is to be ended */
    uint64_t ask_at_ms, ask_of_groups_at_ms;
    bool is_requeued;
    bool is_clear; /* but for the memory of cards */
    struct dp_cards_proof memory;
};

static uint64_t elapsed_ms(const struct fence *f)
{
    return (dp_now_ns() - f->start_ns) / 1000000u;
}

static uint64_t newest_of(const struct dp_proc_list *list)
{
    uint64_t newest = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (list->proc[i].is_member && list->proc[i].start_ticks > newest)
            newest = list->proc[i].start_ticks;
    return newest;
}

/* returns: Slurm says now that the job is still the one that is to be ended. */
static bool is_same_life(struct fence *f, uint64_t *ask_at_ms)
{
    enum dp_empty_life life;

    if (elapsed_ms(f) < *ask_at_ms)
        return false;
    life = f->q->ask(f->q);
    f->is_requeued |= life == DP_LIFE_OVER;
    *ask_at_ms = elapsed_ms(f) + ASK_MS;
    return life == DP_LIFE_SAME;
}

/* Whoever was found before Slurm said that the job is still the same belongs to it as it was; the next life takes
 * longer than a tick to begin. */
static void ask_about_new_ones(struct fence *f)
{
    uint64_t newest = newest_of(&f->list);

    if (f->q->ask && newest > f->known_ticks && is_same_life(f, &f->ask_at_ms))
        f->known_ticks = newest;
}

static uint32_t signal_all(struct fence *f, int sig)
{
    uint32_t n = 0;

    ask_about_new_ones(f);
    for (uint32_t i = 0; i < f->list.n && !f->is_requeued; i++) {
        const struct dp_proc *p = &f->list.proc[i];

        n += p->is_member && (!f->q->ask || p->start_ticks <= f->known_ticks) && signal_process(p, sig);
    }
    return n;
}

/* The next life has cgroups of the same names, so Slurm is asked each time. Frozen ones of version 1 are thawed, for the
 * signal that each process in them has been sent; those of version 2 die frozen. */
static uint32_t end_groups(struct fence *f)
{
    const struct dp_cgroups *groups = &f->list.groups;
    uint32_t n;

    if ((!f->n_groups && !groups->v1.n_frozen) || f->is_requeued || (f->q->ask && !is_same_life(f, &f->ask_of_groups_at_ms)))
        return 0;
    n = dp_cgroups_kill(groups, f->q->job_id);
    if (groups->v1.n_frozen)
        dp_cgroup_v1_thaw(f->q);
    return n;
}

static unsigned pause_ms(const struct fence *f)
{
    uint64_t ms = elapsed_ms(f) / 100;

    return ms < POLL_MS ? POLL_MS : ms > POLL_MAX_MS ? POLL_MAX_MS : (unsigned)ms;
}

/* Looked at last: a driver may take its time, and says something only when nobody is left. */
static bool is_memory_back(struct fence *f)
{
    uint64_t left_ms = elapsed_ms(f) < f->q->timeout_ms ? f->q->timeout_ms - elapsed_ms(f) : 0;

    if (!f->q->looker)
        return true;
    dp_cards_prove(f->q, &f->list, left_ms + 1000 < MEMORY_MS ? (unsigned)left_ms + 1000 : MEMORY_MS, &f->memory);
    return f->memory.is_back && !f->list.is_incomplete;
}

static bool is_empty(struct fence *f)
{
    dp_proc_scan(f->q, &f->list);
    f->n_groups = dp_cgroups_populated(&f->list.groups, f->q->job_id, f->group, sizeof f->group);
    f->is_clear = f->list.n == 0 && f->n_groups == 0 && !f->list.is_incomplete && !f->list.groups.is_incomplete &&
                  dp_slot_lock_is_free(f->q->lock_path);
    return f->is_clear && is_memory_back(f);
}

/* The memory is all that is missing, and nobody will say whether it is back. */
static bool is_in_vain(const struct fence *f)
{
    return f->is_clear && f->q->looker && f->q->looker->hung.pid;
}

/* Look; until nothing is left or the time since the start has reached end_ms. */
static bool wait_until_empty(struct fence *f, uint64_t end_ms, bool must_kill)
{
    while (!is_empty(f)) {
        if (must_kill) {
            f->r->n_kill += signal_all(f, SIGKILL);
            f->r->n_group_kill += end_groups(f);
        }
        if (f->is_requeued || is_in_vain(f) || elapsed_ms(f) >= end_ms)
            return false;
        wait_ms(pause_ms(f));
    }
    return true;
}

static bool is_confirmed(struct fence *f)
{
    wait_ms(CONFIRM_MS);
    return is_empty(f);
}

static const char *why_left(const struct dp_proc *p)
{
    if (p->is_member)
        return "";
    return p->is_claimed ? ", registered, but nothing shows that it is the job's"
                         : ", nothing shows that it is the job's, but it has a device open";
}

static void describe_failure(const struct fence *f, struct dp_empty_result *r)
{
    size_t n;

    if (f->is_requeued) {
        snprintf(r->text, sizeof r->text, "the job was requeued");
        return;
    }
    n = (size_t)snprintf(r->text, sizeof r->text, "not proved within %u ms: %u processes left", f->q->timeout_ms,
                         f->list.n);
    if (f->is_clear && f->q->looker && !f->memory.is_back)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", device memory %s", f->memory.text);
    if (newest_of(&f->list) > f->known_ticks && f->q->ask)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n,
                              ", of new ones Slurm does not say whether they are a requeued job's");
    for (uint32_t i = 0; i < f->list.n && i < 8 && n < sizeof r->text - 64; i++)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", pid %u (%s, state %c%s)", f->list.proc[i].pid,
                              f->list.proc[i].comm, f->list.proc[i].state,
                              why_left(&f->list.proc[i]));
    if (f->list.n && f->list.proc[0].is_holder && n < sizeof r->text)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", %.200s", f->list.device);
    if (f->n_groups && n < sizeof r->text)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", %u cgroups not empty: %.200s", f->n_groups, f->group);
    if (f->list.groups.v1.n_frozen && n < sizeof r->text)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", %u cgroups frozen", f->list.groups.v1.n_frozen);
    if (f->list.is_incomplete && n < sizeof r->text)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", %s", f->list.why);
    if (f->list.groups.is_incomplete && n < sizeof r->text)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, ", the cgroups of the job could not be read in full");
    if (!dp_slot_lock_is_free(f->q->lock_path) && n < sizeof r->text)
        snprintf(r->text + n, sizeof r->text - n, ", device lock still held");
}

static void run_fence(struct fence *f)
{
    const struct dp_empty_job *q = f->q;
    struct dp_empty_result *r = f->r;
    uint64_t grace = q->grace_ms < q->timeout_ms ? q->grace_ms : q->timeout_ms;
    uint64_t term = grace + TERM_MS < q->timeout_ms ? grace + TERM_MS : q->timeout_ms;

    dp_proc_scan(q, &f->list);
    r->n_polite = f->list.n;
    do {
        if (!wait_until_empty(f, grace, false)) {
            r->n_term += signal_all(f, SIGTERM);
            if (!wait_until_empty(f, term, false))
                wait_until_empty(f, q->timeout_ms, true);
        }
        r->gone = !f->is_requeued && is_confirmed(f);
    } while (!r->gone && !f->is_requeued && !is_in_vain(f) && elapsed_ms(f) < q->timeout_ms);
}

void dp_empty_slot(const struct dp_empty_job *job, struct dp_empty_result *out)
{
    static struct fence f;

    memset(out, 0, sizeof *out);
    f.known_ticks = f.ask_at_ms = f.ask_of_groups_at_ms = 0;
    f.is_requeued = f.is_clear = false;
    memset(&f.memory, 0, sizeof f.memory);
    f.q = job;
    f.r = out;
    f.start_ns = dp_now_ns();
    run_fence(&f);
    out->took_ns = dp_now_ns() - f.start_ns;
    if (job->looker)
        out->hung = job->looker->hung;
    if (out->gone)
        snprintf(out->text, sizeof out->text,
                 "node=%s job=%u empty twice %d ms apart: processes=0 (first seen %u, TERM %u, KILL %u, cgroup.kill %u) "
                 "cgroup=%s device_lock=free device_files=closed took_ms=%llu boot_id=%s device_memory=%s%s%s",
                 job->node, job->job_id, CONFIRM_MS, out->n_polite, out->n_term, out->n_kill, out->n_group_kill,
                 f.list.groups.n_scopes || f.list.groups.v1.is_kept ? "empty" : "none",
                 (unsigned long long)(out->took_ns / 1000000), job->boot_id, job->looker ? f.memory.word : "not_looked_at",
                 f.memory.text[0] ? ", device memory " : "", f.memory.text);
    else
        describe_failure(&f, out);
}
