/* SPDX-License-Identifier: BSD-3-Clause */
/* See as_owner.h: doc/protocol.md, release, step e. The job is read first - RUNNING, the same restart
 * count, this node its batch host, every kept node still in it - because Slurm applies the same update happily
 * to a requeued job. The node list is absolute, so a repeat has no further effect. The
 * owner is taken from Slurm's answer; with other rights than his the update is not sent.
 */
#include "config.h"

#include "daemon/release/as_owner.h"

#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/slurm/libslurm.h"
#include "daemon/child/slurm_job.h"
#include "daemon/release/privileged.h"
#include "daemon/release/rights.h"

static int say(struct dp_shrink_result *r, const char *fmt, const char *what)
{
    snprintf(r->text, sizeof r->text, fmt, what);
    return -1;
}

int dp_owner_become(const struct dp_job_info *job, char text[256])
{
    const struct dp_priv_scope *scope = dp_priv_current_scope();
    struct dp_rights owner = {job->uid, scope->is_split ? scope->listener : job->uid, job->gid, NULL};
    const struct passwd *pw;
    struct dp_err err = {0};

    if (job->uid == 0 && scope->is_split) {
        snprintf(text, 256, "the job is root's: with run_user nothing is asked in root's name");
        return -1;
    }
    if (!dp_rights_can_change()) {
        if (geteuid() == job->uid)
            return 0;
        snprintf(text, 256, "the daemon is neither root nor the job's owner");
        return -1;
    }
    pw = getpwuid(job->uid);
    owner.name = pw ? pw->pw_name : NULL;
    if (dp_rights_become(&owner, &err) == 0)
        return 0;
    snprintf(text, 256, "the owner's rights: %.200s", err.text);
    return -1;
}

static bool has_node(const struct dp_job_info *job, const char *name, size_t len)
{
    for (uint32_t i = 0; i < job->n_nodes; i++)
        if (strlen(job->node[i]) == len && !memcmp(job->node[i], name, len))
            return true;
    return false;
}

static int check_job(uint32_t restart_count, const struct dp_job_result *read, struct dp_shrink_result *r)
{
    const struct dp_job_info *job = &read->job;

    if (read->rc != 0 || !job->is_running)
        return say(r, "%s", read->text);
    if (job->restart_count != restart_count)
        return say(r, "%s", "the job was requeued");
    if (strcmp(job->batch_host, dp_priv_current_scope()->node) != 0)
        return say(r, "this node does not decide for the job, %s does", job->batch_host);
    return 0;
}

static int check_kept(const struct dp_shrink_request *q, const struct dp_job_info *job, struct dp_shrink_result *r)
{
    for (const char *p = q->keep; *p;) {
        size_t len = strcspn(p, ",");

        if (!has_node(job, p, len))
            return say(r, "%s", "a node that should be kept is not in the job");
        p += len + (p[len] == ',');
    }
    return 0;
}

/* The job, which is the one that was meant. */
static int enter(uint32_t job_id, uint32_t restart_count, struct dp_job_result *read, struct dp_shrink_result *r)
{
    dp_slurm_enter();
    dp_job_read(job_id, read);
    return check_job(restart_count, read, r);
}

static int shrink(const struct dp_shrink_request *q, struct dp_shrink_result *r)
{
    struct dp_job_result read;
    struct dp_err err;

    if (enter(q->job_id, q->restart_count, &read, r) < 0 || check_kept(q, &read.job, r) < 0 || dp_owner_become(&read.job, r->text) < 0)
        return -1;
    if (dp_slurm_job_shrink(q->job_id, q->keep, &err) < 0)
        return say(r, "slurm: %.200s", err.text);
    say(r, "kept %.200s", q->keep);
    return 0;
}

size_t dp_shrink_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_shrink_result r = {.rc = -1};
    static struct dp_shrink_request q;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    q.keep[sizeof q.keep - 1] = '\0';
    if (!q.keep[0])
        say(&r, "%s", "nothing would be left of the job");
    else
        r.rc = shrink(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

/* ---- memory ---- */

static int lower_memory(const struct dp_memory_request *q, struct dp_shrink_result *r)
{
    struct dp_job_result read;
    struct dp_err err;

    if (enter(q->job_id, q->restart_count, &read, r) < 0 || dp_owner_become(&read.job, r->text) < 0)
        return -1;
    if (read.job.mem_why[0]) {
        say(r, "%.200s", read.job.mem_why);
        return 1;
    }
    if (!q->mb || !read.job.mem_mb || read.job.mem_mb <= q->mb || read.job.is_mem_resizing) {
        say(r, "%s", read.job.is_mem_resizing ? "a change is under way" : "the job has no more");
        return read.job.mem_mb ? 0 : -1;
    }
    if (dp_slurm_job_reduce_memory(q->job_id, q->mb, &err) == 0) {
        say(r, "%s", "being lowered");
        return 0;
    }
    say(r, "slurm: %.200s", err.text);
    return err.code == DP_ENOTSUP ? 1 : -1;
}

size_t dp_memory_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_shrink_result r = {.rc = -1};
    struct dp_memory_request q;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    r.rc = lower_memory(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

/* ---- the end of a stalled run ---- */

/* Either way Slurm sends the job's processes SIGCONT and SIGTERM and waits KillWait before SIGKILL: whoever can
 * still make a step saves in that time. */
static int cancel(uint32_t job_id, const char *why, struct dp_shrink_result *r)
{
    struct dp_err err;

    if (dp_slurm_job_kill(job_id, SIGKILL, &err) < 0)
        return say(r, "slurm: %.200s", err.text);
    say(r, "cancelled: %s", why);
    return 0;
}

static int requeue(const struct dp_requeue_request *q, struct dp_shrink_result *r)
{
    struct dp_job_result read;
    struct dp_err err;

    if (enter(q->job_id, q->restart_count, &read, r) < 0 || dp_owner_become(&read.job, r->text) < 0)
        return -1;
    if (!q->may_requeue)
        return cancel(q->job_id, "it has stalled before its first step again", r);
    if (dp_slurm_job_requeue(q->job_id, &err) == 0) {
        say(r, "%s", "put back into the queue");
        return 0;
    }
    if (err.code == DP_ENOTSUP)
        return cancel(q->job_id, "Slurm may not put it back into the queue (sbatch --requeue allows it)", r);
    return say(r, "slurm: %.200s", err.text);
}

size_t dp_requeue_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_shrink_result r = {.rc = -1};
    struct dp_requeue_request q;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    r.rc = requeue(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
