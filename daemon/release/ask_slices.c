/* SPDX-License-Identifier: BSD-3-Clause */
/* See ask_slices.h. */
#include "config.h"

#include "daemon/release/ask_slices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/slurm/libslurm.h"
#include "daemon/child/slice_comment.h"
#include "daemon/child/slurm_job.h"
#include "daemon/release/as_owner.h"
#include "daemon/release/batch_env.h"
#include "daemon/release/privileged.h"

#define SCRIPT_LOOKS 100 /* 5 s */
#define AGAIN_S 5u /* Slurm does not answer, and the run is over */

static void say(struct dp_ask_result *r, enum dp_ask_end end, const char *text)
{
    r->end = (uint32_t)end;
    snprintf(r->text, sizeof r->text, "%.255s", text);
}

/* ---- one at a time ---- */

/* In the folder of the daemon's locks, made before the owner's rights are taken: a daemon that was killed may have left a process
 * that still asks. The last one takes the file away. returns -1: it cannot be; has_asked: somebody asked before. */
static int lock_run(uint32_t home_job, bool is_last, bool *has_asked)
{
    char path[sizeof dp_priv_current_scope()->socket + 40];
    int fd;

    snprintf(path, sizeof path, "%s.locks/slices-of-%u", dp_priv_current_scope()->socket, home_job);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    *has_asked = fd < 0 && errno == EEXIST;
    if (*has_asked)
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    while (fd >= 0 && flock(fd, LOCK_EX) < 0)
        if (errno != EINTR) {
            close(fd);
            return -1;
        }
    if (fd >= 0 && is_last)
        unlink(path);
    return fd;
}

/* ---- what is there ---- */

static void count(const struct dp_companions_list *all, struct dp_ask_result *r)
{
    r->n_ended = all->n_ended;
    r->read_s = all->read_s;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct dp_companion *k = &all->job[i];

        if (k->slice.is_older)
            continue;
        r->n_running += !k->is_waiting;
        r->n_waiting += k->is_waiting;
        if (k->is_waiting && (!r->oldest_s || k->submit_s < r->oldest_s)) {
            r->oldest_s = k->submit_s;
            memcpy(r->reason, k->reason, sizeof r->reason);
        }
    }
}

static bool is_newer(const struct dp_companion *a, const struct dp_companion *b)
{
    return a->submit_s != b->submit_s ? a->submit_s > b->submit_s : a->slice.job_id > b->slice.job_id;
}

/* returns: one that begins meanwhile is none that waits any more; -1: Slurm does not answer. */
static int withdraw(struct dp_companion *k, struct dp_ask_result *r)
{
    struct dp_err err = {0};

    if (dp_slurm_job_withdraw(k->slice.job_id, &err) < 0 && err.code == DP_EIO) {
        say(r, DP_ASK_FAILED, err.text);
        return -1;
    }
    k->is_waiting = false;
    r->n_withdrawn += err.code == DP_OK;
    r->n_running += err.code == DP_EAUTH && !k->slice.is_older;
    r->n_waiting -= !k->slice.is_older;
    return 0;
}

/* Of those that wait the newest beyond `keep`; those of an earlier life of home all. */
static int withdraw_beyond(struct dp_companions_list *all, uint32_t keep, struct dp_ask_result *r)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->job[i].is_waiting && all->job[i].slice.is_older && withdraw(&all->job[i], r) < 0)
            return -1;
    while (r->n_waiting > keep) {
        struct dp_companion *newest = NULL;

        for (uint32_t i = 0; i < all->n; i++)
            if (all->job[i].is_waiting && (!newest || is_newer(&all->job[i], newest)))
                newest = &all->job[i];
        if (!newest || withdraw(newest, r) < 0)
            return newest ? -1 : 0;
    }
    return 0;
}

/* ---- submit ---- */

/* Why no job can be one like it; NULL: one can. */
static const char *why_not(const struct dp_slurm_job *home)
{
    if (home->is_het)
        return "it is a component of a heterogeneous job: Slurm gives single GPUs of these nowhere back";
    if (home->is_federated)
        return "it is a job of a federation: companions could begin on another cluster";
    if (!home->has_script)
        return "it has no batch script (sbatch), with which companions could begin";
    return NULL;
}

static uint32_t minutes_left(const struct dp_slurm_job *home)
{
    return home->end_s > home->now_s ? (uint32_t)((home->end_s - home->now_s) / 60) : 0;
}

static void submit_like(const struct dp_slurm_job *home, const struct dp_slurm_like *how, uint32_t n, struct dp_ask_result *r)
{
    struct dp_err err = {0};
    uint32_t job_id;

    for (; n > 0; n--) {
        if (dp_slurm_job_submit_like(home->job_id, how, &job_id, &err) < 0) {
            say(r, err.code == DP_EAUTH || err.code == DP_EGONE ? DP_ASK_REFUSED : DP_ASK_UNSURE, err.text);
            return;
        }
        r->n_submitted++;
        r->n_waiting++;
    }
}

/* The plugin tells of the batch step before the script begins, so it may take a moment until there is one. Only then does one count
 * whose Slurm is named otherwise (a slurmd has its configuration from slurmctld) or not at all. */
static int read_batch(const struct dp_slurm_job *home, struct dp_batch_env *batch, struct dp_err *err)
{
    const char *conf = getenv("SLURM_CONF");
    const struct timespec pause = {.tv_nsec = 50 * 1000000L};
    int rc = -1;

    for (int i = 0; i < SCRIPT_LOOKS && rc < 0; i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        rc = dp_batch_env_read(home->job_id, dp_priv_current_scope()->node, conf, conf && i < SCRIPT_LOOKS - 1 ? 2 : 1, home->command,
                               batch, err);
    }
    return rc;
}

/* What the comments of a job's companions name. */
static uint32_t named_by(uint32_t job_id, uint32_t array_job_id)
{
    return array_job_id ? array_job_id : job_id;
}

static void submit(const struct dp_slurm_job *home, uint32_t n, struct dp_ask_result *r)
{
    struct dp_slurm_like how = {.minutes = home->end_s ? minutes_left(home) : 0};
    char comment[DP_COMMENT_MAX];
    struct dp_batch_env batch;
    char *script;
    struct dp_err err = {0};

    if (home->end_s && !how.minutes) {
        say(r, DP_ASK_REFUSED, "less than a minute of the job's time is left");
        return;
    }
    if (!dp_slice_comment_make(home->comment, named_by(home->job_id, home->array_job_id), comment, sizeof comment)) {
        say(r, DP_ASK_REFUSED, "the job's comment has no room for 'dynpipe: slice of' and its number");
        return;
    }
    script = dp_slurm_job_script(home->job_id, &err);
    if (!script) {
        say(r, err.code == DP_EIO ? DP_ASK_FAILED : DP_ASK_REFUSED, err.text);
        return;
    }
    if (read_batch(home, &batch, &err) < 0) {
        say(r, DP_ASK_FAILED, err.text);
    } else {
        how.script = script;
        how.comment = comment;
        how.environment = batch.env;
        how.argv = batch.argv;
        submit_like(home, &how, n, r);
        dp_batch_env_release(&batch);
    }
    free(script);
}

/* Home runs, in the life that was meant, and what it is allows it. */
static void ask_more(const struct dp_ask_request *q, uint32_t n, struct dp_ask_result *r)
{
    struct dp_slurm_job home = {0};
    struct dp_err err = {0};
    const char *why;

    if (dp_slurm_job_load(q->job_id, &home, &err) < 0) {
        say(r, DP_ASK_FAILED, err.text);
        return;
    }
    why = why_not(&home);
    if (why)
        say(r, DP_ASK_REFUSED, why);
    else if (!home.is_running || home.restart_count != q->restart_count)
        say(r, DP_ASK_REFUSED, "the job is over");
    else
        submit(&home, n, r);
    dp_slurm_job_release(&home);
}

/* ---- the whole ---- */

static void ask_for(const struct dp_ask_request *q, const struct dp_job_info *home, bool is_settled, struct dp_ask_result *r)
{
    static struct dp_companions_list all;
    uint64_t since_s = q->since_s > home->start_s ? q->since_s : home->start_s;
    uint32_t have, keep;

    memset(r, 0, sizeof *r);
    dp_companions_read(named_by(q->job_id, home->array_job_id), home->uid, since_s, &all);
    if (all.rc != 0) {
        say(r, DP_ASK_FAILED, all.text);
        return;
    }
    count(&all, r);
    have = r->n_waiting + r->n_running + r->n_ended;
    keep = q->is_over ? 0 : q->wanted > r->n_running ? q->wanted - r->n_running : 0;
    if (all.is_cut) { /* whoever marked so many did not mean companions: they are his, and are left alone */
        say(r, DP_ASK_REFUSED, "more jobs name it in their comments than a run may have slices");
        return;
    }
    if (withdraw_beyond(&all, keep, r) < 0 || q->is_over || have >= q->wanted || !q->may_submit)
        return;
    if (!is_settled)
        say(r, DP_ASK_UNSURE, "");
    else
        ask_more(q, q->wanted - have, r);
}

/* The new life of a requeued job has companions of its own: they are not withdrawn with those of the old one. */
static bool is_of_this_life(const struct dp_ask_request *q, const struct dp_job_result *read)
{
    return read->job.restart_count == q->restart_count || (q->is_over && !read->job.is_running);
}

/* returns false: Slurm does not answer, or the request is none. */
static bool read_home(const struct dp_ask_request *q, struct dp_job_result *read, struct dp_ask_result *r)
{
    dp_slurm_enter();
    dp_job_read(q->job_id, read);
    for (; read->rc < 0 && q->is_over; dp_job_read(q->job_id, read))
        sleep(AGAIN_S);
    if (read->rc != 0)
        say(r, read->rc < 0 ? DP_ASK_FAILED : DP_ASK_REFUSED, read->text);
    else if (!q->is_over && !read->job.is_running)
        say(r, DP_ASK_REFUSED, read->text);
    else if (!is_of_this_life(q, read))
        say(r, DP_ASK_REFUSED, "the job was requeued");
    else if (strcmp(read->job.batch_host, dp_priv_current_scope()->node) != 0 && !(q->is_over && !read->job.batch_host[0]))
        say(r, DP_ASK_REFUSED, "another node decides for the job");
    else
        return true;
    return false;
}

/* One that waited for the lock until its daemon was gone would do what is not wanted any more, behind the back of the next one. Who
 * has the lock by then goes on: the next one's child waits, and sees it. */
static void ask(const struct dp_ask_request *q, struct dp_ask_result *r)
{
    static struct dp_job_result read;
    pid_t asker = getppid();
    bool has_asked;
    int fd = lock_run(q->home_job, q->is_over, &has_asked);

    if (fd < 0) {
        say(r, DP_ASK_FAILED, strerror(errno));
        return;
    }
    if (!q->is_over && getppid() != asker) {
        say(r, DP_ASK_FAILED, "the daemon that asked has ended");
        goto out;
    }
    if (!read_home(q, &read, r))
        goto out;
    if (dp_owner_become(&read.job, r->text) < 0) {
        r->end = DP_ASK_REFUSED;
        goto out;
    }
    for (;;) {
        ask_for(q, &read.job, q->is_settled || !has_asked, r);
        if (!q->is_over || r->end != DP_ASK_FAILED)
            break;
        sleep(AGAIN_S);
    }
out:
    close(fd);
}

size_t dp_ask_slices_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_ask_result r;
    struct dp_ask_request q;

    (void)bytes;
    memset(&r, 0, sizeof r);
    memcpy(&q, request, sizeof q);
    if (q.wanted >= DP_MAX_SLOTS)
        say(&r, DP_ASK_REFUSED, "a run may not have so many slices");
    else
        ask(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

/* ---- comments ---- */

/* array_job_id: home's; a companion of that keeps its name, by which it is found. */
static void mark(uint32_t job_id, uint32_t uid, uint32_t slice_of, uint32_t array_job_id, struct dp_shrink_result *r)
{
    char comment[DP_COMMENT_MAX];
    struct dp_slurm_job job = {0};
    struct dp_err err = {0};

    if (dp_slurm_job_load(job_id, &job, &err) < 0 ||
        (job.uid == uid && (!array_job_id || job.array_job_id) &&
         dp_slice_comment_make(job.comment, slice_of, comment, sizeof comment) &&
         dp_slurm_job_set_comment(job_id, comment, &err) < 0)) {
        r->rc = -1;
        snprintf(r->text, sizeof r->text, "job %u: %.200s", job_id, err.text);
    }
    dp_slurm_job_release(&job);
}

static void mark_all(const struct dp_mark_request *q, struct dp_shrink_result *r)
{
    static struct dp_job_result read;

    dp_slurm_enter();
    dp_job_read(q->job_id, &read);
    if (read.rc != 0 || !read.job.is_running || read.job.restart_count != q->restart_count ||
        strcmp(read.job.batch_host, dp_priv_current_scope()->node) != 0)
        return; /* it ends, and needs no comment any more */
    if (dp_owner_become(&read.job, r->text) < 0) {
        r->rc = -1;
        return;
    }
    mark(q->job_id, read.job.uid, q->slice_of, read.job.array_job_id, r);
    for (uint32_t i = 0; i < q->n && i < DP_MAX_SLOTS; i++)
        if (q->slice[i] != q->job_id)
            mark(q->slice[i], read.job.uid, q->job_id, read.job.array_job_id, r);
}

size_t dp_mark_slices_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_mark_request q;
    struct dp_shrink_result r = {.rc = 0};

    (void)bytes;
    memcpy(&q, request, sizeof q);
    mark_all(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
