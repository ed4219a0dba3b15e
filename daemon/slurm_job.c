/* See slurm_job.h. */
#include "config.h"

#include "daemon/slurm_job.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY_SHRINKS 1000000u

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
    slurm_init(NULL);
}

static void copy_text(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text ? text : "");
}

/* "gres:gpu:2", "gres/gpu:a100:2", "gpu:4(IDX:0-3)": the count behind "gpu". 0: none. */
static uint32_t gpus_in(const char *tres)
{
    const char *p = tres ? strstr(tres, "gpu") : NULL;

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

/* The job's nodes in its own order, the batch host first: slot 0 is the one Slurm never takes back. */
static void fill_nodes(struct dp_job_info *out, const job_info_t *j)
{
    hostlist_t list = slurm_hostlist_create(j->nodes ? j->nodes : "");
    char *name;

    copy_text(out->batch_host, sizeof out->batch_host, j->batch_host);
    while (list && (name = slurm_hostlist_shift(list))) {
        if (out->n_nodes < DP_MAX_SLOTS)
            copy_text(out->node[out->n_nodes++], sizeof out->node[0], name);
        free(name);
    }
    if (list)
        slurm_hostlist_destroy(list);
    if (!out->batch_host[0] && out->n_nodes > 0)
        memcpy(out->batch_host, out->node[0], sizeof out->batch_host);
    for (uint32_t i = 1; i < out->n_nodes; i++)
        if (!strcmp(out->node[i], out->batch_host)) {
            memmove(out->node[1], out->node[0], i * sizeof out->node[0]);
            memcpy(out->node[0], out->batch_host, sizeof out->node[0]);
        }
}

/* The states of slurm.h under the names that squeue shows; libslurm keeps its own table to itself. */
static const char *state_name(unsigned state)
{
    static const char *const name[] = {
        [JOB_PENDING] = "PENDING",     [JOB_RUNNING] = "RUNNING",         [JOB_SUSPENDED] = "SUSPENDED",
        [JOB_COMPLETE] = "COMPLETED",  [JOB_CANCELLED] = "CANCELLED",     [JOB_FAILED] = "FAILED",
        [JOB_TIMEOUT] = "TIMEOUT",     [JOB_NODE_FAIL] = "NODE_FAIL",     [JOB_PREEMPTED] = "PREEMPTED",
        [JOB_BOOT_FAIL] = "BOOT_FAIL", [JOB_DEADLINE] = "DEADLINE",       [JOB_OOM] = "OUT_OF_MEMORY",
    };

    return state < sizeof name / sizeof name[0] && name[state] ? name[state] : "of an unknown state";
}

static void fill_job(struct dp_job_result *out, const job_info_t *j)
{
    struct dp_job_info *job = &out->job;
    unsigned state = j->job_state & JOB_STATE_BASE;

    job->job_id = j->job_id;
    job->uid = j->user_id;
    job->gid = j->group_id;
    job->restart_count = j->restart_cnt;
    job->is_running = (state == JOB_RUNNING || state == JOB_SUSPENDED) && !(j->job_state & JOB_COMPLETING);
    copy_text(job->partition, sizeof job->partition, j->partition);
    copy_text(job->name, sizeof job->name, j->name);
    job->start_s = (uint64_t)j->start_time;
    job->end_s = j->time_limit == INFINITE ? 0 : (uint64_t)j->end_time;
    fill_nodes(job, j);
    job->n_tasks = j->num_tasks > j->num_cpus ? j->num_tasks : j->num_cpus;
    job->gpus_per_node = gpus_in(j->tres_per_node);
    if (job->gpus_per_node == 0 && job->n_nodes > 0)
        job->gpus_per_node = gpus_in(j->gres_total) / job->n_nodes;
    if (!job->is_running)
        snprintf(out->text, sizeof out->text, "the job is %s", state_name(state));
}

/* Without slurmdbd a job has no database index and can be resized once, until 24.11. The version is
 * the controller's, "22.05.8"; slurm_api_version() counts something else. */
static uint32_t shrinks_allowed(const slurm_conf_t *conf)
{
    unsigned major = 0, minor = 0;

    if (conf->version && sscanf(conf->version, "%u.%u", &major, &minor) == 2 &&
        (major > 24 || (major == 24 && minor >= 11)))
        return MANY_SHRINKS;
    return conf->accounting_storage_type && strstr(conf->accounting_storage_type, "slurmdbd") ? MANY_SHRINKS : 1;
}

/* The id of a job array or a het job names several records: only the job's own counts. */
static const job_info_t *find_record(const job_info_msg_t *jobs, uint32_t job_id)
{
    for (uint32_t i = 0; i < jobs->record_count; i++)
        if (jobs->job_array[i].job_id == job_id)
            return &jobs->job_array[i];
    return NULL;
}

void dp_job_read(uint32_t job_id, struct dp_job_result *out)
{
    job_info_msg_t *jobs = NULL;
    slurm_conf_t *conf = NULL;
    const job_info_t *job;

    memset(out, 0, sizeof *out);
    out->rc = -1;
    if (slurm_load_job(&jobs, job_id, SHOW_DETAIL) != SLURM_SUCCESS) {
        out->rc = errno == ESLURM_INVALID_JOB_ID ? 1 : -1;
        snprintf(out->text, sizeof out->text, "slurm: %s", slurm_strerror(errno));
        return;
    }
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS)
        snprintf(out->text, sizeof out->text, "slurm: %s", slurm_strerror(errno));
    else if (!(job = find_record(jobs, job_id))) {
        out->rc = 1;
        snprintf(out->text, sizeof out->text, "slurm: no record of job %u", job_id);
    } else {
        out->rc = 0;
        fill_job(out, job);
        out->job.boot_s = (uint64_t)conf->boot_time;
        out->job.shrinks_allowed = shrinks_allowed(conf);
        copy_text(out->proctrack, sizeof out->proctrack, conf->proctrack_type);
    }
    slurm_free_job_info_msg(jobs);
    if (conf)
        slurm_free_ctl_conf(conf);
}

static bool has_node(const char *nodes, const char *node)
{
    hostlist_t list = slurm_hostlist_create(nodes ? nodes : "");
    bool found = list && slurm_hostlist_find(list, node) >= 0;

    if (list)
        slurm_hostlist_destroy(list);
    return found;
}

uint32_t dp_job_list_others(uint32_t uid, uint32_t job_id, const char *node, uint32_t *out, uint32_t cap)
{
    job_info_msg_t *jobs = NULL;
    uint32_t n = 0;

    if (slurm_load_job_user(&jobs, uid, SHOW_ALL) != SLURM_SUCCESS)
        return 0;
    for (uint32_t i = 0; i < jobs->record_count && n < cap; i++) {
        const job_info_t *j = &jobs->job_array[i];
        unsigned state = j->job_state & JOB_STATE_BASE;

        if (j->job_id != job_id && (state == JOB_RUNNING || state == JOB_SUSPENDED) && has_node(j->nodes, node))
            out[n++] = j->job_id;
    }
    slurm_free_job_info_msg(jobs);
    return n;
}

size_t dp_job_read_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_job_request q;
    struct dp_job_result r;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    dp_slurm_enter();
    dp_job_read(q.job_id, &r);
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
