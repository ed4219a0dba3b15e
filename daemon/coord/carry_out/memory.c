/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that pruning freed goes back to Slurm while the job runs (doc/design.md, "Memory").
 *
 * Slurm lowers a running job's memory and never raises it again, the same for all of its nodes, and the kernel's limit
 * follows at once: too little ends the job. So the most of several looks counts, a tenth at least must come free, and
 * nothing is asked while layers move, a node leaves or a step is held against its promise. What is going to be asked
 * for is journalled before, and from then on no layout needs more.
 *
 * A job that is put back into the queue keeps the lower number. It then goes on from its newest checkpoint, so as much
 * stays as was needed when that was made; where there is none, nothing is given back unless the job cannot come back.
 *
 * As with nodes, an answer proves nothing: slurmctld says yes before the nodes have done it, and takes it back where
 * one cannot. The memory counts as given back when two reads of the job, confirm_s apart and of one life of the
 * controller, show it.
 */
#include "daemon/coord/internal.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS (1 * DP_SECOND_NS) /* memory follows pruning, which takes minutes */
#define LOOKS 8          /* of a window */
#define LEAST_PERCENT 10u /* of what the job has; fewer is not worth a change, each of which accounting records */
#define LEAST_MB 16u /* of a job that has less than ten times as much */
#define ATTEMPTS_MAX 8u /* with pauses of 1, 2, 4 ... 30 s: two minutes */

static bool is_wanted(const struct dp_coord *c)
{
    return !coord_is_sliced(c) && c->limits.memory_margin && coord_mode(c) >= DP_MODE_RELEASE && c->ops.memory && c->train.has_layout &&
           !c->life.failed[0] && !c->train.is_completed && !c->stall.is_stalled && !dp_coord_all_left(c);
}

/* Nothing is under way that changes what is needed, or what the job is. */
static bool is_quiet(const struct dp_coord *c)
{
    static const enum coord_slot_state under_way[] = {SLOT_DRAINED, SLOT_STOPPING, SLOT_GONE, SLOT_RELEASING, SLOT_HELD};

    if (!coord_migrate_is_idle(c) || coord_promise_is_deciding(c) || c->life.is_paused)
        return false;
    for (size_t i = 0; i < sizeof under_way / sizeof under_way[0]; i++)
        if (coord_slots_with(c, under_way[i]))
            return false;
    for (uint32_t r = 0; r < c->train.n_workers; r++)
        if (!c->layout.gone[r] && (!coord_is_live(c, r) || !c->worker[r].is_connected ||
                                   c->worker[r].n_reports < c->limits.warmup_reports))
            return false;
    return true;
}

static void refuse(struct dp_coord *c, uint64_t now_ns, const char *why)
{
    struct coord_memory *k = &c->memory;

    k->is_refused = true;
    snprintf(k->why, sizeof k->why, "%.199s", why);
    coord_note(c, now_ns, "no memory is given back: %.199s", k->why);
}

/* Not asked for any more: layouts may have what was confirmed. */
static void give_up(struct dp_coord *c)
{
    c->memory.target_mb = 0;
    c->memory.attempts = 0;
    (void)coord_journal_memory(c); /* where that fails, a restart asks again, and finds the same */
}

void coord_memory_saved(struct dp_coord *c)
{
    c->memory.saved_mb = c->memory.need_mb;
}

/* ---- what to ask for ---- */

static void begin(struct dp_coord *c, uint64_t now_ns, uint32_t mb)
{
    struct coord_memory *k = &c->memory;

    k->target_mb = mb;
    if (!k->start_mb)
        k->start_mb = k->now_mb;
    if (coord_journal_memory(c) < 0) {
        k->target_mb = 0;
        return; /* looked at again */
    }
    k->attempts = k->backoff_s = 0;
    k->clean_ns = 0;
    k->next_ns = now_ns;
    coord_note(c, now_ns, "memory: %u MiB per node would be enough, of %u", mb, k->now_mb);
}

/* Why nothing is asked for though it would do; "": it is. */
static const char *hold_back(const struct dp_coord *c)
{
    if (!c->job.may_requeue)
        return "";
    if (!c->train.checkpoint_dir[0])
        return "a requeued job would start over with less memory: set checkpoint.dir, or use "
               "sbatch --no-requeue";
    return c->memory.saved_mb ? "" : "a checkpoint comes first, in case the job is requeued";
}

static void look(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_memory *k = &c->memory;
    uint32_t least = k->now_mb / 100 * LEAST_PERCENT > LEAST_MB ? k->now_mb / 100 * LEAST_PERCENT : LEAST_MB, mb;

    k->next_ns = now_ns + LOOK_NS;
    if (k->window_epoch != c->layout.epoch || !is_quiet(c)) {
        k->window_epoch = c->layout.epoch;
        k->n_window = k->window_mb = 0;
        return;
    }
    k->need_mb = coord_memory_need_mb(c);
    if (!k->need_mb) {
        snprintf(k->why, sizeof k->why, "not every worker says what it needs");
        return;
    }
    k->window_mb = k->need_mb > k->window_mb ? k->need_mb : k->window_mb;
    if (++k->n_window < LOOKS)
        return;
    mb = c->job.may_requeue && k->saved_mb > k->window_mb ? k->saved_mb : k->window_mb;
    k->n_window = k->window_mb = 0;
    snprintf(k->why, sizeof k->why, "%s", hold_back(c));
    if (!k->why[0] && (uint64_t)mb + least <= k->now_mb)
        begin(c, now_ns, mb);
}

/* ---- asking ---- */

static void read_job(struct dp_coord *c, uint64_t now_ns)
{
    c->memory.is_reading = true;
    c->memory.deadline_ns = now_ns + ANSWER_NS;
    c->ops.read_job(c->arg);
}

static void wait_longer(struct coord_memory *k, uint64_t now_ns)
{
    k->backoff_s = k->backoff_s ? (2 * k->backoff_s < BACKOFF_MAX_S ? 2 * k->backoff_s : BACKOFF_MAX_S) : 1;
    k->next_ns = now_ns + k->backoff_s * DP_SECOND_NS;
}

static void ask(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_memory *k = &c->memory;
    uint32_t need_mb = is_quiet(c) ? coord_memory_need_mb(c) : 0;

    wait_longer(k, now_ns);
    if (!need_mb)
        return; /* as after a restart: not known yet whether it would still do */
    if (need_mb > k->target_mb || k->attempts == ATTEMPTS_MAX) {
        if (k->attempts == ATTEMPTS_MAX)
            refuse(c, now_ns, "Slurm accepted the change but did not make it: a node refuses, see slurmctld's log");
        give_up(c);
        return;
    }
    k->attempts++;
    k->is_asking = true;
    k->deadline_ns = now_ns + ANSWER_NS;
    c->ops.memory(c->arg, k->target_mb);
}

static void gib(char out[32], uint32_t mb)
{
    if (mb < 1024)
        snprintf(out, 32, "%u MiB", mb);
    else
        snprintf(out, 32, "%.1f GiB", mb / 1024.0);
}

static void given(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_memory *k = &c->memory, before = *k;
    char from[32], to[32];

    k->given_mb = k->target_mb;
    k->target_mb = 0;
    k->given_ns = now_ns;
    k->given_step = c->train.step;
    k->n_given++;
    if (coord_journal_memory(c) < 0) {
        *k = before;
        wait_longer(k, now_ns);
        return;
    }
    gib(from, before.given_mb ? before.given_mb : before.start_mb);
    gib(to, k->given_mb);
    coord_note(c, now_ns, "memory %s -> %s per node given back at step %llu", from, to, (unsigned long long)c->train.step);
}

static void judge(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    struct coord_memory *k = &c->memory;

    if (job->is_mem_resizing) {
        k->next_ns = now_ns + LOOK_NS;
        return;
    }
    if (job->mem_mb > k->target_mb) {
        k->clean_ns = 0;
        ask(c, now_ns);
        return;
    }
    if (!k->clean_ns || k->clean_boot_s != job->boot_s) {
        k->clean_ns = now_ns;
        k->clean_boot_s = job->boot_s;
    }
    if ((double)(now_ns - k->clean_ns) / 1e9 >= c->limits.confirm_s && now_ns > k->clean_ns)
        given(c, now_ns);
    else
        k->next_ns = k->clean_ns + (uint64_t)(c->limits.confirm_s * 1e9) + 1;
}

/* A read that was under way before the request says nothing about it. */
void coord_memory_read(struct dp_coord *c, uint64_t now_ns, const struct dp_job_info *job)
{
    struct coord_memory *k = &c->memory;

    if (!k->is_reading || k->is_asking)
        return;
    k->is_reading = false;
    if (!job || !job->mem_mb) {
        wait_longer(k, now_ns);
        return;
    }
    k->now_mb = job->mem_mb;
    c->job.may_requeue = job->may_requeue;
    if (job->mem_why[0] && !k->is_refused) {
        refuse(c, now_ns, job->mem_why);
        if (k->target_mb)
            give_up(c);
    }
    if (k->target_mb && !k->is_refused)
        judge(c, now_ns, job);
}

void dp_coord_memory_answer(struct dp_coord *c, uint64_t now_ns, int rc, const char *text)
{
    struct coord_memory *k = &c->memory;

    if (c->life.is_over || !k->is_asking) {
        c->reports.n_ignored++;
        return;
    }
    k->is_asking = false;
    if (rc == 1) {
        refuse(c, now_ns, text ? text : "");
        give_up(c);
    } else if (rc != 0) {
        coord_note(c, now_ns, "Slurm: memory: %.180s", text ? text : "");
    } else if (k->backoff_s <= 1) {
        k->next_ns = now_ns; /* read at once, the first time */
    }
}

void coord_memory_tick(struct dp_coord *c, uint64_t now_ns)
{
    struct coord_memory *k = &c->memory;

    if (!is_wanted(c) || k->is_refused)
        return;
    if ((k->is_asking || k->is_reading) && now_ns < k->deadline_ns)
        return;
    if (k->is_asking || k->is_reading) { /* never answered */
        k->is_asking = k->is_reading = false;
        k->next_ns = now_ns;
    }
    if (now_ns < k->next_ns)
        return;
    if (k->target_mb || !k->now_mb)
        read_job(c, now_ns);
    else
        look(c, now_ns);
}

int coord_memory_replay(struct dp_coord *c, struct dp_reader *r, struct dp_err *err)
{
    struct coord_memory *k = &c->memory;

    memset(k, 0, sizeof *k);
    k->start_mb = dp_rd_u32(r);
    k->given_mb = dp_rd_u32(r);
    k->target_mb = dp_rd_u32(r);
    k->n_given = dp_rd_u32(r);
    k->given_ns = dp_rd_u64(r);
    k->given_step = dp_rd_u64(r);
    return k->given_mb > k->start_mb || k->target_mb > k->start_mb
               ? dp_err_set(err, DP_ECORRUPT, "memory grows from %u MiB", k->start_mb)
               : 0;
}

json_t *coord_memory_json(const struct dp_coord *c)
{
    const struct coord_memory *k = &c->memory;
    json_t *why;

    if (!c->limits.memory_margin || coord_mode(c) < DP_MODE_RELEASE)
        return json_null();
    why = json_string(k->why);
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "margin_percent", (int)c->limits.memory_margin,
                     "start_mb", (int)(k->start_mb ? k->start_mb : k->now_mb), "now_mb", (int)k->now_mb, "need_mb",
                     (int)k->need_mb, "asked_mb", (int)k->target_mb, "given_mb", (int)k->given_mb, "given_step",
                     (int)k->given_step, "given_at_s", k->given_ns ? json_real(coord_seconds(c, k->given_ns)) : json_null(),
                     "text", why ? why : json_string("see the daemon's log"));
}
