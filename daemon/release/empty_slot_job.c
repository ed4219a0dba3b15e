/* SPDX-License-Identifier: BSD-3-Clause */
/* STOP_SLOT in a helper process (empty_slot.h): whose is the job? The process that listens to the network does
 * not say so: Slurm does, here. From then on this process has the owner's rights, so whatever it takes for
 * a process of the job, no signal of it reaches another user.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/child/job_time.h"
#include "daemon/child/slurm_job.h"
#include "daemon/release/empty_slot.h"
#include "daemon/release/privileged.h"
#include "daemon/release/rights.h"
#include "daemon/release/slot_lock.h"

#define LOOKER_MARGIN_S 15.0 /* as slot.c has it */

static int refuse(struct dp_empty_result *r, const char *fmt, const char *what)
{
    snprintf(r->text, sizeof r->text, fmt, what);
    return -1;
}

/* As somebody who may end the job's processes and nobody else's. */
static int take_rights(const struct dp_job_info *info, struct dp_empty_job *job, struct dp_empty_result *r)
{
    const struct dp_priv_scope *scope = dp_priv_current_scope();
    const struct dp_rights owner = {info->uid, scope->is_split ? scope->listener : info->uid, info->gid, NULL};
    struct dp_err err = {0};

    if (info->uid == 0 && scope->is_split)
        return refuse(r, "%s", "the job is root's: with run_user no process of root's is ended");
    if (!dp_rights_can_change()) {
        job->is_users_slurm = geteuid() == info->uid;
        return job->is_users_slurm ? 0 : refuse(r, "%s", "the daemon is neither root nor the job's owner");
    }
    return dp_rights_watch_as(&owner, &err) < 0 ? refuse(r, "%s", err.text) : 0;
}

/* With the owner's rights: of his own job Slurm tells him. */
static enum dp_empty_life ask_slurm(const struct dp_empty_job *job)
{
    struct dp_job_result read;

    dp_job_read(job->job_id, &read);
    if (read.rc != 0)
        return DP_LIFE_UNKNOWN;
    return read.job.restart_count == job->restart_count ? DP_LIFE_SAME : DP_LIFE_OVER;
}

/* In clock ticks, as /proc/pid/stat has it. */
static uint64_t began_ticks(const struct dp_job_info *info, uint64_t asked_boot_ns)
{
    long hz = sysconf(_SC_CLK_TCK);

    return hz > 0 ? dp_job_began_ns(info, asked_boot_ns) / DP_MS_NS * (uint64_t)hz / 1000 : 0;
}

static int ask_job(const struct dp_empty_request *q, struct dp_empty_job *job, struct dp_job_result *read, struct dp_empty_result *r)
{
    const struct dp_priv_scope *scope = dp_priv_current_scope();
    uint64_t asked_boot_ns = dp_clock_read_ns(CLOCK_BOOTTIME);

    dp_slurm_enter();
    dp_job_read(q->job_id, read);
    if (read->rc != 0)
        return refuse(r, "whose job it is cannot be asked: %s", read->text);
    if (read->job.restart_count != q->restart_count)
        return refuse(r, "%s", "the job was requeued");
    memset(job, 0, sizeof *job);
    job->job_id = q->job_id;
    job->uid = read->job.uid;
    job->restart_count = q->restart_count;
    job->begun_ticks = began_ticks(&read->job, asked_boot_ns);
    job->ask = ask_slurm;
    memcpy(job->node, scope->node, sizeof job->node);
    memcpy(job->socket, scope->socket, sizeof job->socket);
    memcpy(job->boot_id, scope->boot_id, sizeof job->boot_id);
    job->is_shared_host = scope->is_shared_host;
    dp_device_files_find(&job->devices, scope->devices);
    job->n_other_jobs = dp_job_list_others(job->uid, q->job_id, scope->node, job->other_job, DP_EMPTY_MAX_JOBS);
    dp_slot_lock_path(scope->socket, q->job_id, job->lock_path, sizeof job->lock_path);
    job->grace_ms = q->grace_ms;
    job->timeout_ms = q->timeout_ms;
    job->before = q->before;
    job->n_workers = q->n_workers < DP_EMPTY_MAX_PIDS ? q->n_workers : DP_EMPTY_MAX_PIDS;
    memcpy(job->worker, q->worker, sizeof job->worker);
    return 0;
}

/* The looker has the daemon's rights: the owner may not open the cards' files by then, and must not reach it. */
static int find_job(const struct dp_empty_request *q, struct dp_empty_job *job, struct dp_looker *looker, struct dp_empty_result *r)
{
    const struct dp_priv_scope *scope = dp_priv_current_scope();
    struct dp_job_result read;

    if (ask_job(q, job, &read, r) < 0)
        return -1;
    dp_looker_start(looker, scope->nvml, &job->devices, q->hung, q->timeout_ms / 1e3 + LOOKER_MARGIN_S);
    job->looker = looker;
    return take_rights(&read.job, job, r);
}

size_t dp_empty_slot_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_empty_request q;
    static struct dp_empty_job job;
    struct dp_looker looker = {.fd = -1};
    struct dp_empty_result r;

    (void)bytes;
    memset(&r, 0, sizeof r);
    memcpy(&q, request, sizeof q);
    if (find_job(&q, &job, &looker, &r) == 0)
        dp_empty_slot(&job, &r);
    dp_looker_end(&looker);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
