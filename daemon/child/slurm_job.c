/* SPDX-License-Identifier: BSD-3-Clause */
/* See slurm_job.h. */
#include "config.h"

#include "daemon/child/slurm_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/slurm/libslurm.h"
#include "daemon/child/helper.h"
#include "daemon/child/slice_comment.h"

#define MANY_SHRINKS 1000000u /* no limit */

void dp_slurm_enter(void)
{
    const char *conf = getenv("SLURM_CONF");
    char copy[512] = "";

    if (conf)
        snprintf(copy, sizeof copy, "%s", conf);
    clearenv();
    if (copy[0])
        setenv("SLURM_CONF", copy, 1);
    if (chdir("/") < 0)
        _exit(1);
    dp_slurm_open();
}

static void copy_text(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text);
}

/* "gres:gpu:2", "gres/gpu:a100:2", "gpu:4(IDX:0-3)": the count behind "gpu". 0: none. */
static uint32_t gpus_in(const char *tres)
{
    const char *p = strstr(tres, "gpu");

    if (!p)
        return 0;
    p += 3;
    while (*p == ':' || *p == '=') {
        char *end;
        unsigned long n = strtoul(p + 1, &end, 10);

        if (end != p + 1)
            return n > 4096 ? 4096 : (uint32_t)n;
        for (p++; *p && *p != ':' && *p != '=' && *p != ','; p++)
            ;
    }
    return 1; /* "gres:gpu" alone means one */
}

static void add_node(const char *name, void *arg)
{
    struct dp_job_info *out = arg;

    if (out->n_nodes < DP_MAX_SLOTS)
        copy_text(out->node[out->n_nodes++], sizeof out->node[0], name);
}

/* The job's nodes in its own order, the batch host first: slot 0 is the one Slurm never takes back. */
static void fill_nodes(struct dp_job_info *out, const struct dp_slurm_job *j)
{
    copy_text(out->batch_host, sizeof out->batch_host, j->batch_host);
    dp_slurm_each_host(j->nodes, false, add_node, out);
    if (!out->batch_host[0] && out->n_nodes > 0)
        memcpy(out->batch_host, out->node[0], sizeof out->batch_host);
    for (uint32_t i = 1; i < out->n_nodes; i++)
        if (!strcmp(out->node[i], out->batch_host)) {
            memmove(out->node[1], out->node[0], i * sizeof out->node[0]);
            memcpy(out->node[0], out->batch_host, sizeof out->node[0]);
        }
}

/* Tasks of an array are slices by that; a comment that a daemon gave them is for people. */
static uint32_t slice_of(const struct dp_slurm_job *j)
{
    uint32_t home = j->array_job_id ? 0 : dp_slice_comment_home(j->comment);

    return home == j->job_id ? 0 : home;
}

static void fill_job(struct dp_job_result *out, const struct dp_slurm_job *j)
{
    struct dp_job_info *job = &out->job;

    job->job_id = j->job_id;
    job->uid = j->uid;
    job->gid = j->gid;
    job->restart_count = j->restart_count;
    job->array_job_id = j->array_job_id;
    job->slice_of = slice_of(j);
    job->is_running = j->is_running;
    job->is_completing = j->is_completing;
    job->has_stepmgr = j->has_stepmgr;
    job->is_queued = j->is_queued;
    job->may_requeue = j->may_requeue;
    job->is_preempted = j->is_preempted;
    job->is_cancelled = j->is_cancelled;
    job->mem_mb = j->mem_mb;
    job->is_mem_resizing = j->is_resizing;
    copy_text(job->partition, sizeof job->partition, j->partition);
    copy_text(job->name, sizeof job->name, j->name);
    job->start_s = j->start_s;
    job->end_s = j->end_s;
    job->now_s = j->now_s;
    fill_nodes(job, j);
    job->n_tasks = j->n_tasks > j->n_cpus ? j->n_tasks : j->n_cpus;
    job->gpus_per_node = gpus_in(j->tres_per_node);
    if (job->gpus_per_node == 0 && job->n_nodes > 0)
        job->gpus_per_node = gpus_in(j->gres_total) / job->n_nodes;
    if (!job->is_running)
        snprintf(out->text, sizeof out->text, "the job is %s", j->state);
}

/* Without slurmdbd a job has no database index and can be resized once, until 24.11: a matter of the controller that
 * runs, not of the headers. A stepmgr is not told which nodes leave, and starts the job's next step there. */
static uint32_t shrinks_allowed(const struct dp_slurm_conf *conf, const struct dp_slurm_job *job)
{
    if (job->has_stepmgr)
        return 0;
    return dp_slurm_release_of(conf->version) >= 2411 || strstr(conf->accounting, "slurmdbd") ? MANY_SHRINKS : 1;
}

/* What slurmctld would answer, where that can be told before it is asked. */
static const char *memory_trouble(const struct dp_slurm_conf *conf)
{
    if (!dp_slurm_reduces_memory())
        return "this Slurm cannot take memory back from a running job";
    if (!conf->counts_memory)
        return "Slurm does not allocate memory to jobs here (SelectTypeParameters has no CR_..._Memory)";
    if (!conf->has_extern)
        return "Slurm lowers only the memory of jobs with an extern step (PrologFlags=Contain)";
    return "";
}

void dp_job_read(uint32_t job_id, struct dp_job_result *out)
{
    struct dp_slurm_job job = {0};
    struct dp_slurm_conf conf = {0};
    struct dp_err err = {0};
    int rc;

    memset(out, 0, sizeof *out);
    rc = dp_slurm_job_load(job_id, &job, &err);
    out->job.read_ns = dp_now_ns();
    if (rc < 0 || dp_slurm_conf_load(&conf, &err) < 0) {
        out->rc = err.code == DP_EGONE ? 1 : -1;
        snprintf(out->text, sizeof out->text, "slurm: %.240s", err.text);
    } else {
        fill_job(out, &job);
        out->job.boot_s = conf.boot_s;
        out->job.shrinks_allowed = shrinks_allowed(&conf, &job);
        copy_text(out->job.mem_why, sizeof out->job.mem_why, memory_trouble(&conf));
        copy_text(out->proctrack, sizeof out->proctrack, conf.proctrack);
    }
    dp_slurm_job_release(&job);
    dp_slurm_conf_release(&conf);
}

/* returns: has it one node, which is in *s then? */
static bool fill_slice(const struct dp_slurm_job *job, struct dp_slice *s)
{
    struct dp_job_info nodes = {0};

    *s = (struct dp_slice){.job_id = job->job_id, .restart_count = job->restart_count, .task = job->array_task_id,
                           .start_s = job->start_s, .is_running = job->is_running,
                           .slice_of = dp_slice_comment_home(job->comment)};
    if (dp_slurm_each_host(job->nodes, false, add_node, &nodes) != 1)
        return false;
    copy_text(s->node, sizeof s->node, nodes.node[0]);
    return true;
}

struct tasks {
    uint32_t uid;
    struct dp_slices_result *out;
};

static void add_slice(const struct dp_slurm_job *job, void *arg)
{
    struct tasks *t = arg;
    struct dp_slice s;

    t->out->has_waiting |= job->uid == t->uid && job->is_queued;
    if (job->uid != t->uid || !(job->has_begun || job->is_completing) || !fill_slice(job, &s))
        return;
    t->out->is_cut |= t->out->n == DP_MAX_SLOTS;
    if (!t->out->is_cut)
        t->out->slice[t->out->n++] = s;
}

/* ---- companions ---- */

struct companions {
    uint32_t home_job, uid;
    uint64_t since_s;
    uint64_t *ended_s; /* when those that have ended were submitted */
    uint64_t last_s;   /* when the last task of the array ended */
    bool has_task;     /* one runs, or waits */
    struct dp_companions_list *out;
};

static void add_task(struct companions *c, const struct dp_slurm_job *job)
{
    struct dp_companions_list *out = c->out;

    out->is_array = true;
    out->has_waiting_tasks |= job->is_queued;
    c->has_task |= job->is_queued || job->is_running;
    if (!job->is_queued && !job->is_running && job->end_s >= c->last_s) {
        out->is_cancelled = job->is_cancelled || (job->end_s == c->last_s && out->is_cancelled);
        c->last_s = job->end_s;
    }
    if (!job->has_begun && !job->is_completing)
        return;
    out->is_cut |= out->n_tasks == DP_MAX_SLOTS;
    if (!out->is_cut)
        out->n_tasks += fill_slice(job, &out->task[out->n_tasks]);
}

static void add_companion(const struct dp_slurm_job *job, void *arg)
{
    struct companions *c = arg;
    struct dp_companions_list *out = c->out;
    struct dp_companion *k;
    bool is_home = job->job_id == c->home_job;

    out->read_s = job->now_s;
    if (job->uid == c->uid && job->array_job_id && job->array_job_id == c->home_job)
        add_task(c, job);
    if (job->uid != c->uid || job->array_job_id || (!is_home && slice_of(job) != c->home_job))
        return;
    if (is_home) {
        fill_slice(job, &out->home);
        out->is_home_queued = job->is_queued;
        out->home_is_slice_of = slice_of(job);
        return;
    }
    if (!job->is_queued && !job->has_begun && !job->is_completing) {
        if (out->n_ended < DP_MAX_SLOTS)
            c->ended_s[out->n_ended++] = job->submit_s;
        return;
    }
    out->is_cut |= out->n == DP_MAX_SLOTS;
    if (out->is_cut)
        return;
    k = &out->job[out->n];
    memset(k, 0, sizeof *k);
    k->submit_s = job->submit_s;
    k->is_waiting = job->is_queued;
    copy_text(k->reason, sizeof k->reason, job->reason);
    out->n += fill_slice(job, &k->slice) || job->is_queued;
}

/* Which belong to home's present life shows when home has been seen. One that waits has asked for none yet, and when it would begin is
 * Slurm's guess. An array has none: each task has lives of its own. */
static void sort_lives(struct companions *c)
{
    struct dp_companions_list *out = c->out;
    uint32_t n = 0;

    for (uint32_t i = 0; i < out->n; i++)
        out->job[i].slice.is_older = out->is_home_queued || out->job[i].submit_s < out->home.start_s;
    for (uint32_t i = 0; i < out->n_ended; i++)
        n += c->ended_s[i] >= out->home.start_s && c->ended_s[i] >= c->since_s;
    out->n_ended = n;
    out->is_cancelled &= !c->has_task;
}

void dp_companions_read(uint32_t home_job, uint32_t uid, uint64_t since_s, struct dp_companions_list *out)
{
    static uint64_t ended_s[DP_MAX_SLOTS];
    struct companions c = {.home_job = home_job, .uid = uid, .since_s = since_s, .ended_s = ended_s, .out = out};
    struct dp_err err = {0};

    memset(out, 0, sizeof *out);
    if (dp_slurm_each_job_of(uid, add_companion, &c, &err) < 0) {
        out->rc = -1;
        snprintf(out->text, sizeof out->text, "slurm: %.240s", err.text);
        return;
    }
    sort_lives(&c);
}

static void say_home_of_array(const struct dp_companions_list *all, uint32_t array_job_id, struct dp_slices_result *out)
{
    for (uint32_t i = 0; i < all->n_tasks; i++)
        out->has_home |= all->task[i].is_running;
    if (!out->has_home)
        snprintf(out->home_why, sizeof out->home_why, "no task of the array %u runs", array_job_id);
}

static void say_home(const struct dp_companions_list *all, uint32_t home_job, struct dp_slices_result *out)
{
    if (!all->home.job_id)
        snprintf(out->home_why, sizeof out->home_why, "Slurm knows no job %u of this user", home_job);
    else if (all->home_is_slice_of)
        snprintf(out->home_why, sizeof out->home_why, "job %u is itself a slice of job %u", home_job, all->home_is_slice_of);
    else if (!all->home.is_running)
        snprintf(out->home_why, sizeof out->home_why, "job %u %s", home_job, all->is_home_queued ? "waits in the queue" : "is over");
    out->has_home = !out->home_why[0];
    out->is_home_queued = all->is_home_queued;
    out->home_restarts = all->home.restart_count;
}

static void add_tasks(const struct dp_companions_list *all, uint32_t array_job_id, struct dp_slices_result *out)
{
    out->array_job_id = array_job_id;
    out->has_waiting = all->has_waiting_tasks;
    out->is_cancelled = all->is_cancelled;
    say_home_of_array(all, array_job_id, out);
    memcpy(out->slice, all->task, all->n_tasks * sizeof out->slice[0]);
    out->n = all->n_tasks;
}

static void read_companions(const struct dp_slices_request *q, struct dp_slices_result *out)
{
    uint32_t whose = q->array_job_id ? q->array_job_id : q->home_job;
    static struct dp_companions_list all;
    bool has_node, is_array;

    dp_companions_read(whose, q->uid, 0, &all);
    out->rc = all.rc;
    out->read_s = all.read_s;
    out->is_cut = all.is_cut;
    copy_text(out->text, sizeof out->text, all.text);
    if (all.rc != 0)
        return;
    is_array = all.is_array || q->array_job_id;
    if (is_array)
        add_tasks(&all, whose, out);
    else
        say_home(&all, whose, out);
    if (all.home.node[0])
        out->slice[out->n++] = all.home;
    for (uint32_t i = 0; i < all.n; i++) {
        has_node = all.job[i].slice.node[0]; /* also one that was requeued, while something of it is left */
        all.job[i].slice.is_companion = is_array;
        out->has_waiting |= all.job[i].is_waiting && !all.job[i].slice.is_older && !is_array;
        out->is_cut |= has_node && out->n == DP_MAX_SLOTS;
        if (has_node && !out->is_cut)
            out->slice[out->n++] = all.job[i].slice;
    }
}

void dp_slices_read(const struct dp_slices_request *q, struct dp_slices_result *out)
{
    struct tasks t = {q->uid, out};
    struct dp_err err = {0};

    memset(out, 0, sizeof *out);
    if (!q->array_job_id || q->has_companions) {
        read_companions(q, out);
        return;
    }
    out->array_job_id = q->array_job_id;
    snprintf(out->home_why, sizeof out->home_why, "the run of that array has no companions");
    if (dp_slurm_each_task(q->array_job_id, add_slice, &t, &out->read_s, &err) == 0)
        return;
    out->rc = err.code == DP_EGONE ? 1 : -1;
    snprintf(out->text, sizeof out->text, "slurm: %.240s", err.text);
}

_Static_assert(sizeof(struct dp_slices_result) <= DP_HELPER_RESULT_MAX, "a helper can answer it");

size_t dp_slices_read_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_slices_result r;
    struct dp_slices_request q;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    dp_slurm_enter();
    dp_slices_read(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

struct others {
    uint32_t but; /* this job */
    const char *node;
    uint32_t *out, n, cap;
};

static void add_other(const struct dp_slurm_job *job, void *arg)
{
    struct others *o = arg;

    if (o->n < o->cap && job->job_id != o->but && job->has_begun && dp_slurm_has_host(job->nodes, o->node))
        o->out[o->n++] = job->job_id;
}

uint32_t dp_job_list_others(uint32_t uid, uint32_t job_id, const char *node, uint32_t *out, uint32_t cap)
{
    struct others o = {job_id, node, out, 0, cap};

    dp_slurm_each_job_of(uid, add_other, &o, NULL);
    return o.n;
}

/* One answer that is not there is none at all: whether they train on decides what becomes of a journal. */
static void read_others(const struct dp_job_request *q, struct dp_job_result *out)
{
    static struct dp_job_result other;

    out->others = DP_OTHERS_NONE;
    for (uint32_t i = 0; i < q->n_others && i < DP_MAX_SLOTS && out->others == DP_OTHERS_NONE; i++) {
        dp_job_read(q->other[i].job_id, &other);
        if (other.rc == 0 && other.job.is_running && other.job.uid == out->job.uid &&
            other.job.restart_count == q->other[i].restart_count)
            out->others = DP_OTHERS_RUN;
        if (other.rc < 0) {
            out->rc = -1;
            memcpy(out->text, other.text, sizeof out->text);
            return;
        }
    }
}

size_t dp_job_read_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_job_request q;
    static struct dp_job_result r;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    dp_slurm_enter();
    dp_job_read(q.job_id, &r);
    if (r.rc == 0 && q.asks_others)
        read_others(&q, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
