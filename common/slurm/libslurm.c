/* SPDX-License-Identifier: BSD-3-Clause */
/* See libslurm.h. The only file that sees Slurm's own structures, but for the plugin, which sees SPANK's. */
#include "config.h"

#include "common/slurm/libslurm.h"

#include <errno.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- what differs between releases ---- */

/* A list of hosts was a pointer up to 23.02, and is a struct since. */
typedef __typeof__(slurm_hostlist_create("")) hosts_t;

/* What gives each job a /tmp of its own has another name from 25.11 on. */
#if HAVE_SLURM_CONF_T_NAMESPACE_PLUGIN
#define NAMESPACE_PLUGIN namespace_plugin
#else
#define NAMESPACE_PLUGIN job_container_plugin
#endif

/* Which job: its number up to 25.11, from 26.05 on the number among others. */
#if HAVE_SLURM_JOB_BY_STEP_ID
static slurm_step_id_t job_key(uint32_t job_id)
{
    slurm_step_id_t key = {0};

    key.job_id = job_id;
    key.step_het_comp = key.step_id = NO_VAL;
    return key;
}
#else
static uint32_t job_key(uint32_t job_id)
{
    return job_id;
}
#endif

static uint32_t id_of(const job_info_t *j)
{
#if HAVE_JOB_INFO_T_STEP_ID
    return j->step_id.job_id;
#else
    return j->job_id;
#endif
}

static void set_id(job_desc_msg_t *update, uint32_t job_id)
{
#if HAVE_JOB_DESC_MSG_T_STEP_ID
    update->step_id = job_key(job_id);
#else
    update->job_id = job_id;
#endif
}

/* The answer to a job that was submitted. */
static uint32_t id_of_answer(const submit_response_msg_t *answer)
{
#if HAVE_JOB_DESC_MSG_T_STEP_ID
    return answer->step_id.job_id;
#else
    return answer->job_id;
#endif
}

/* From 24.05 on. */
static bool has_stepmgr(const job_info_t *j)
{
#ifdef STEPMGR_ENABLED
    return (j->bitflags & STEPMGR_ENABLED) != 0;
#else
    (void)j;
    return false;
#endif
}

static void free_conf(slurm_conf_t *conf)
{
#if HAVE_DECL_SLURM_FREE_CONF
    slurm_free_conf(conf);
#else
    slurm_free_ctl_conf(conf);
#endif
}

/* Memory as something that jobs are given. */
#ifdef CR_MEMORY
#define GIVES_MEMORY CR_MEMORY
#else
#define GIVES_MEMORY SELECT_MEMORY
#endif

/* Since 26.05 a running job may have less memory, which its structures do not show but for an option of that time. */
static int reduce_memory(job_desc_msg_t *update, uint32_t mb)
{
#if HAVE_JOB_INFO_T_MEM_UPDATE_DELAY
    update->pn_min_memory = mb;
    if (slurm_update_job(update) == SLURM_SUCCESS)
        return 0;
    return errno == ESLURM_NOT_SUPPORTED || errno == ESLURM_EXTERN_ONLY || errno == ESLURM_JOB_NOT_PENDING ? 1 : -1;
#else
    (void)update, (void)mb;
    errno = ESLURM_JOB_NOT_PENDING;
    return 1;
#endif
}

/* ---- the same everywhere ---- */

void dp_slurm_open(void)
{
    slurm_init(NULL);
}

static int fail(struct dp_err *err)
{
    int code = errno;

    return dp_err_set(err,
                      code == ESLURM_INVALID_JOB_ID || code == ESLURM_INVALID_NODE_NAME ? DP_EGONE
                      : code == ESLURM_DISABLED || code == ESLURM_BATCH_ONLY            ? DP_ENOTSUP
                                                                                        : DP_EIO,
                      "%s", slurm_strerror(code));
}

/* Of a request that slurmctld decides about: its own numbers begin with this one, and go on below those of slurmd. What a plugin of
 * the site's (job_submit) answers has no number. */
static int fail_or_refused(struct dp_err *err)
{
    bool is_no = errno >= ESLURM_INVALID_PARTITION_NAME && errno < ESLURM_INVALID_PARTITION_NAME + 1000 &&
                 errno != ESLURM_IN_STANDBY_MODE;

    if (errno == SLURM_ERROR)
        return dp_err_set(err, DP_EAUTH, "slurmctld refuses it without a reason; a plugin of the site's (job_submit) may have one");
    fail(err);
    if (is_no && err)
        err->code = DP_EAUTH;
    return -1;
}

static const char *text(const char *s)
{
    return s ? s : "";
}

const char *dp_slurm_built_for(void)
{
    static char version[32];

    if (!version[0])
        snprintf(version, sizeof version, "%u.%02u.%u", (unsigned)SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER),
                 (unsigned)SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER), (unsigned)SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER));
    return version;
}

unsigned dp_slurm_release_of(const char *version)
{
    unsigned major = 0, minor = 0;

    return version && sscanf(version, "%u.%u", &major, &minor) == 2 ? major * 100 + minor : 0;
}

unsigned dp_slurm_release_of_number(uint32_t number)
{
    return (unsigned)(SLURM_VERSION_MAJOR(number) * 100 + SLURM_VERSION_MINOR(number));
}

int dp_slurm_conf_load(struct dp_slurm_conf *out, struct dp_err *err)
{
    slurm_conf_t *c = NULL;

    memset(out, 0, sizeof *out);
    if (slurm_load_ctl_conf(0, &c) != SLURM_SUCCESS)
        return fail(err);
    *out = (struct dp_slurm_conf){
        .version = text(c->version),
        .cluster = text(c->cluster_name),
        .path = text(c->slurm_conf),
        .plugstack = text(c->plugstack),
        .plugin_dir = text(c->plugindir),
        .sched_params = text(c->sched_params),
        .select_type = text(c->select_type),
        .accounting = text(c->accounting_storage_type),
        .auth_info = text(c->authinfo),
        .proctrack = text(c->proctrack_type),
        .own_folders = text(c->NAMESPACE_PLUGIN),
        .has_extern = (c->prolog_flags & PROLOG_FLAG_CONTAIN) != 0,
        .counts_memory = (c->select_type_param & GIVES_MEMORY) != 0,
        .boot_s = (uint64_t)c->boot_time,
        .port = c->slurmctld_port,
        .owned = c,
    };
    return 0;
}

void dp_slurm_conf_release(struct dp_slurm_conf *conf)
{
    if (conf->owned)
        free_conf(conf->owned);
    memset(conf, 0, sizeof *conf);
}

int dp_slurm_each_partition(dp_slurm_name_fn fn, void *arg, struct dp_err *err)
{
    partition_info_msg_t *msg = NULL;

    if (slurm_load_partitions(0, &msg, SHOW_ALL) != SLURM_SUCCESS)
        return fail(err);
    for (uint32_t i = 0; i < msg->record_count; i++)
        if (msg->partition_array[i].name)
            fn(msg->partition_array[i].name, arg);
    slurm_free_partition_info_msg(msg);
    return 0;
}

int dp_slurm_each_node(const char *name, dp_slurm_node_fn fn, void *arg, struct dp_err *err)
{
    node_info_msg_t *msg = NULL;
    uint32_t n = 0;

    if ((name ? slurm_load_node_single(&msg, (char *)(uintptr_t)name, SHOW_ALL) : slurm_load_node(0, &msg, SHOW_ALL)) !=
        SLURM_SUCCESS)
        return fail(err);
    for (uint32_t i = 0; i < msg->record_count; i++) {
        const node_info_t *r = &msg->node_array[i];

        if (!r->name || (name && strcmp(r->name, name) != 0))
            continue;
        fn(&(struct dp_slurm_node){r->name, text(r->node_addr), text(r->node_hostname), text(r->version),
                                  (r->node_state & NODE_STATE_DRAIN) != 0}, arg);
        n++;
    }
    slurm_free_node_info_msg(msg);
    return n || !name ? 0 : dp_err_set(err, DP_EGONE, "%s", slurm_strerror(ESLURM_INVALID_NODE_NAME));
}

uint32_t dp_slurm_each_host(const char *list, bool is_sorted, dp_slurm_name_fn fn, void *arg)
{
    hosts_t hosts = list && *list ? slurm_hostlist_create(list) : NULL;
    uint32_t n = 0;
    char *name;

    if (!hosts)
        return 0;
    if (is_sorted)
        slurm_hostlist_uniq(hosts);
    for (; (name = slurm_hostlist_shift(hosts)); n++) {
        fn(name, arg);
        free(name);
    }
    slurm_hostlist_destroy(hosts);
    return n;
}

bool dp_slurm_has_host(const char *list, const char *name)
{
    hosts_t hosts = list && *list ? slurm_hostlist_create(list) : NULL;
    bool has = hosts && slurm_hostlist_find(hosts, name) >= 0;

    if (hosts)
        slurm_hostlist_destroy(hosts);
    return has;
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

/* Why a job waits, where that is one of the common reasons; as for states, libslurm tells nobody its names. */
static const char *reason_name(unsigned reason)
{
    static const struct {
        unsigned reason;
        const char *name;
    } known[] = {
        {WAIT_PRIORITY, "Priority"},        {WAIT_RESOURCES, "Resources"},     {WAIT_PART_DOWN, "PartitionDown"},
        {WAIT_PART_INACTIVE, "PartitionInactive"}, {WAIT_HELD, "JobHeldAdmin"}, {WAIT_HELD_USER, "JobHeldUser"},
        {WAIT_TIME, "BeginTime"},           {WAIT_LICENSES, "Licenses"},       {WAIT_RESERVATION, "Reservation"},
        {WAIT_NODE_NOT_AVAIL, "ReqNodeNotAvail"}, {WAIT_PART_TIME_LIMIT, "PartitionTimeLimit"},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].reason == reason)
            return known[i].name;
    return "";
}

/* "cpu=4,mem=4000M,node=4": of all nodes together, which may be unlike. */
static uint32_t allocated_mb(const job_info_t *j)
{
    const char *mem = strstr(text(j->tres_alloc_str), "mem=");
    char unit = 'M';
    double v = 0;

    if (!mem || !j->num_nodes || sscanf(mem + 4, "%lf%c", &v, &unit) < 1)
        return 0;
    v *= unit == 'K' ? 1.0 / 1024 : unit == 'G' ? 1024 : unit == 'T' ? 1048576 : 1;
    v /= j->num_nodes;
    return v > 0 && v < UINT32_MAX ? (uint32_t)v : 0;
}

/* Asked for by node, else what came of it. */
static uint32_t mem_mb_of(const job_info_t *j)
{
    bool is_by_node = j->pn_min_memory && j->pn_min_memory < UINT32_MAX;

    return is_by_node ? (uint32_t)j->pn_min_memory : allocated_mb(j);
}

static struct dp_slurm_job job_of(const job_info_t *j)
{
    unsigned state = j->job_state & JOB_STATE_BASE;
    bool has_begun = state == JOB_RUNNING || state == JOB_SUSPENDED;

    return (struct dp_slurm_job){
        .job_id = id_of(j),
        .uid = j->user_id,
        .gid = j->group_id,
        .restart_count = j->restart_cnt,
        .array_job_id = j->array_job_id,
        .array_task_id = j->array_job_id ? j->array_task_id : 0,
        .is_het = j->het_job_id != 0,
        .is_federated = j->fed_siblings_active != 0 || j->fed_siblings_viable != 0,
        .has_script = j->batch_flag != 0,
        .state = state_name(state),
        .is_running = has_begun && !(j->job_state & JOB_COMPLETING),
        .is_completing = (j->job_state & JOB_COMPLETING) != 0,
        .is_queued = state == JOB_PENDING,
        .has_begun = has_begun,
        .has_stepmgr = has_stepmgr(j),
        .may_requeue = j->requeue != 0,
        .is_preempted = j->preempt_time != 0 || state == JOB_PREEMPTED,
        .is_cancelled = state == JOB_CANCELLED,
        .is_resizing = (j->job_state & JOB_RESIZING) != 0,
        .mem_mb = mem_mb_of(j),
        .n_tasks = j->num_tasks,
        .n_cpus = j->num_cpus,
        .start_s = (uint64_t)j->start_time,
        .end_s = j->time_limit == INFINITE ? 0 : (uint64_t)j->end_time,
        .submit_s = (uint64_t)j->submit_time,
        .partition = text(j->partition),
        .name = text(j->name),
        .nodes = text(j->nodes),
        .batch_host = text(j->batch_host),
        .tres_per_node = text(j->tres_per_node),
        .gres_total = text(j->gres_total),
        .comment = text(j->comment),
        .command = text(j->command),
        .reason = state == JOB_PENDING ? reason_name(j->state_reason) : "",
    };
}

/* The id of a job array or a het job names several records: only the job's own counts. */
int dp_slurm_job_load(uint32_t job_id, struct dp_slurm_job *out, struct dp_err *err)
{
    job_info_msg_t *msg = NULL;

    memset(out, 0, sizeof *out);
    if (slurm_load_job(&msg, job_key(job_id), SHOW_DETAIL) != SLURM_SUCCESS)
        return fail(err);
    for (uint32_t i = 0; i < msg->record_count; i++)
        if (id_of(&msg->job_array[i]) == job_id) {
            *out = job_of(&msg->job_array[i]);
            out->now_s = msg->last_update > 0 ? (uint64_t)msg->last_update : 0; /* when it was packed, by its clock */
            out->owned = msg;
            return 0;
        }
    slurm_free_job_info_msg(msg);
    return dp_err_set(err, DP_EGONE, "no record of job %u", job_id);
}

void dp_slurm_job_release(struct dp_slurm_job *job)
{
    if (job->owned)
        slurm_free_job_info_msg(job->owned);
    memset(job, 0, sizeof *job);
}

int dp_slurm_job_member(uint32_t job_id, char sign, uint32_t member, uint32_t *out, struct dp_err *err)
{
    job_info_msg_t *msg = NULL;
    bool is_found = false;

    if (slurm_load_job(&msg, job_key(job_id), SHOW_ALL) != SLURM_SUCCESS)
        return fail(err);
    for (uint32_t i = 0; i < msg->record_count; i++) {
        const job_info_t *r = &msg->job_array[i];

        if (sign == '_' ? r->array_job_id != job_id || r->array_task_id != member
                        : r->het_job_id != job_id || r->het_job_offset != member)
            continue;
        is_found = true;
        *out = id_of(r);
    }
    slurm_free_job_info_msg(msg);
    return is_found ? 0 : dp_err_set(err, DP_EGONE, "no %s %u of it has begun", sign == '_' ? "task" : "component", member);
}

int dp_slurm_each_task(uint32_t array_job_id, dp_slurm_job_fn fn, void *arg, uint64_t *now_s, struct dp_err *err)
{
    job_info_msg_t *msg = NULL;

    if (slurm_load_job(&msg, job_key(array_job_id), SHOW_ALL) != SLURM_SUCCESS)
        return fail(err);
    *now_s = (uint64_t)msg->last_update;
    for (uint32_t i = 0; i < msg->record_count; i++) {
        const job_info_t *r = &msg->job_array[i];
        const struct dp_slurm_job job = job_of(r);

        if (r->array_job_id == array_job_id)
            fn(&job, arg);
    }
    slurm_free_job_info_msg(msg);
    return 0;
}

int dp_slurm_each_job_of(uint32_t uid, dp_slurm_job_fn fn, void *arg, struct dp_err *err)
{
    job_info_msg_t *msg = NULL;

    if (slurm_load_job_user(&msg, uid, SHOW_ALL) != SLURM_SUCCESS)
        return fail(err);
    for (uint32_t i = 0; i < msg->record_count; i++) {
        struct dp_slurm_job job = job_of(&msg->job_array[i]);

        job.now_s = msg->last_update > 0 ? (uint64_t)msg->last_update : 0;
        fn(&job, arg);
    }
    slurm_free_job_info_msg(msg);
    return 0;
}

int dp_slurm_job_shrink(uint32_t job_id, const char *keep, struct dp_err *err)
{
    job_desc_msg_t update;

    slurm_init_job_desc_msg(&update);
    set_id(&update, job_id);
    update.req_nodes = (char *)(uintptr_t)keep;
    return slurm_update_job(&update) == SLURM_SUCCESS ? 0 : fail(err);
}

int dp_slurm_job_reduce_memory(uint32_t job_id, uint32_t mb, struct dp_err *err)
{
    job_desc_msg_t update;
    int rc;

    slurm_init_job_desc_msg(&update);
    set_id(&update, job_id);
    rc = reduce_memory(&update, mb);
    if (rc <= 0)
        return rc == 0 ? 0 : fail(err);
    return dp_err_set(err, DP_ENOTSUP, "%s",
                      errno == ESLURM_JOB_NOT_PENDING ? "this Slurm cannot take memory back from a running job"
                                                      : slurm_strerror(errno));
}

bool dp_slurm_reduces_memory(void)
{
#if HAVE_JOB_INFO_T_MEM_UPDATE_DELAY
    return true;
#else
    return false;
#endif
}

int dp_slurm_job_kill(uint32_t job_id, int signal, struct dp_err *err)
{
    return slurm_kill_job(job_key(job_id), (uint16_t)signal, 0) == SLURM_SUCCESS ? 0 : fail(err);
}

int dp_slurm_job_requeue(uint32_t job_id, struct dp_err *err)
{
    return slurm_requeue(job_key(job_id), 0) == SLURM_SUCCESS ? 0 : fail(err);
}

/* ---- a job beside another one ---- */

char *dp_slurm_job_script(uint32_t job_id, struct dp_err *err)
{
    char *script = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&script, &bytes);
    int rc;

    if (!out) {
        dp_err_set(err, DP_ENOMEM, "out of memory");
        return NULL;
    }
    rc = slurm_job_batch_script(out, job_key(job_id));
    if (rc != SLURM_SUCCESS) {
        errno = rc > 0 ? rc : errno; /* it returns the number itself */
        fail_or_refused(err);
    }
    if (fclose(out) != 0 || rc != SLURM_SUCCESS || !script || !script[0]) {
        if (rc == SLURM_SUCCESS)
            dp_err_set(err, DP_ENOMEM, "the job has no script");
        free(script);
        return NULL;
    }
    return script;
}

int dp_slurm_job_set_comment(uint32_t job_id, const char *comment, struct dp_err *err)
{
    job_desc_msg_t update;

    slurm_init_job_desc_msg(&update);
    set_id(&update, job_id);
    update.comment = (char *)(uintptr_t)comment;
    return slurm_update_job(&update) == SLURM_SUCCESS ? 0 : fail_or_refused(err);
}

/* A year from now: then only does Slurm look at it again, if it is not cancelled. */
#define PUT_OFF_S (365 * 86400)

int dp_slurm_job_withdraw(uint32_t job_id, struct dp_err *err)
{
    job_desc_msg_t update;

    slurm_init_job_desc_msg(&update);
    set_id(&update, job_id);
    update.begin_time = time(NULL) + PUT_OFF_S;
    if (slurm_update_job(&update) != SLURM_SUCCESS || slurm_kill_job(job_key(job_id), SIGKILL, 0) != SLURM_SUCCESS)
        return fail_or_refused(err);
    return 0;
}

/* What the job asked for in constraints and limits. Texts stay the job's. */
static void ask_alike(job_desc_msg_t *d, const job_info_t *j)
{
    d->account = j->account;
    d->qos = j->qos;
    d->partition = j->partition;
    d->reservation = j->resv_name;
    d->wckey = j->wckey;
    d->features = j->features;
    d->prefer = j->prefer;
    d->cluster_features = j->cluster_features;
    d->batch_features = j->batch_features;
    d->licenses = j->licenses;
    d->network = j->network;
    d->mcs_label = j->mcs_label;
    d->container = j->container;
    d->req_nodes = j->req_nodes;
    d->exc_nodes = j->exc_nodes;
    d->nice = j->nice;
    d->profile = j->profile;
}

/* A number that nobody gave is one of these. */
static bool is_given(uint64_t v)
{
    return v != 0 && v != NO_VAL16 && v != NO_VAL && v != NO_VAL64 && v != INFINITE16 && v != INFINITE && v != INFINITE64;
}

static void size_alike(job_desc_msg_t *d, const job_info_t *j)
{
    d->min_nodes = d->max_nodes = 1;
    if (is_given(j->num_tasks))
        d->num_tasks = j->num_tasks;
    if (is_given(j->cpus_per_task))
        d->cpus_per_task = j->cpus_per_task;
    if (is_given(j->num_tasks) && is_given(j->cpus_per_task))
        d->min_cpus = j->num_tasks * j->cpus_per_task;
    if (is_given(j->pn_min_cpus))
        d->pn_min_cpus = j->pn_min_cpus;
    if (is_given(j->pn_min_tmp_disk))
        d->pn_min_tmp_disk = j->pn_min_tmp_disk;
    if (is_given(j->pn_min_memory) && !(j->mem_per_tres && j->mem_per_tres[0]))
        d->pn_min_memory = j->pn_min_memory;
    if (is_given(j->ntasks_per_node))
        d->ntasks_per_node = j->ntasks_per_node;
    if (is_given(j->ntasks_per_tres))
        d->ntasks_per_tres = j->ntasks_per_tres;
    if (is_given(j->threads_per_core))
        d->threads_per_core = j->threads_per_core;
    if (is_given(j->core_spec))
        d->core_spec = j->core_spec;
    if (j->shared != 1) /* 1: with whom it may; else with nobody, or with whom was said */
        d->shared = j->shared;
    d->cpus_per_tres = j->cpus_per_tres;
    d->mem_per_tres = j->mem_per_tres;
    d->tres_bind = j->tres_bind;
    d->tres_freq = j->tres_freq;
    d->tres_per_job = j->tres_per_job;
    d->tres_per_node = j->tres_per_node;
    d->tres_per_socket = j->tres_per_socket;
    d->tres_per_task = j->tres_per_task;
}

/* Does the name of an output say which job it is of? "%j", "%J" and "%A", maybe with a width. */
static bool names_job(const char *path)
{
    for (const char *p = path; (p = strchr(p, '%')); p++) {
        const char *c = p + 1 + strspn(p + 1, "0123456789");

        if (*c && strchr("jJA", *c))
            return true;
        p = *c ? c : c - 1;
    }
    return false;
}

/* A job that is no task of an array has a number of its own in the place of a task's: "%a", maybe with a width, becomes "%j". */
static void name_no_task(char *path)
{
    for (char *p = path; (p = strchr(p, '%')); p++) {
        p += 1 + strspn(p + 1, "0123456789");
        if (*p == 'a')
            *p = 'j';
        if (!*p)
            return;
    }
}

/* returns: what to write to, to be freed; NULL: as Slurm has it, "slurm-%j.out". */
static char *output_of(const char *path, bool is_task)
{
    char *same = path && path[0] ? strdup(path) : NULL, *own = NULL;

    if (!same)
        return NULL;
    if (is_task)
        name_no_task(same);
    if (names_job(same) || !strncmp(same, "/dev/", 5))
        return same;
    if (asprintf(&own, "%s.%%j", same) < 0)
        own = NULL;
    free(same);
    return own;
}

static uint32_t count(char *const *list)
{
    uint32_t n = 0;

    while (list[n])
        n++;
    return n;
}

static int submit_like(const job_info_t *j, const struct dp_slurm_like *how, uint32_t *job_id, struct dp_err *err)
{
    submit_response_msg_t *answer = NULL;
    char *out = output_of(j->std_out, j->array_job_id != 0), *bad = output_of(j->std_err, j->array_job_id != 0);
    job_desc_msg_t d;
    int rc;

    slurm_init_job_desc_msg(&d);
    ask_alike(&d, j);
    size_alike(&d, j);
    d.user_id = j->user_id;
    d.group_id = j->group_id;
    d.name = j->name;
    d.work_dir = j->work_dir;
    d.std_in = j->std_in;
    d.std_out = out;
    d.std_err = bad;
    d.comment = (char *)(uintptr_t)how->comment;
    d.script = (char *)(uintptr_t)how->script;
    d.environment = how->environment;
    d.env_size = count(how->environment);
    d.argv = how->argv;
    d.argc = count(how->argv);
    d.requeue = 0;
    d.time_limit = how->minutes ? how->minutes : INFINITE;
    rc = slurm_submit_batch_job(&d, &answer);
    if (answer)
        *job_id = id_of_answer(answer);
    if (rc == SLURM_SUCCESS && answer && *job_id == 0) { /* answered, and not with a job */
        errno = answer->error_code ? (int)answer->error_code : SLURM_ERROR;
        rc = SLURM_ERROR;
    }
    if (rc != SLURM_SUCCESS) {
        rc = fail_or_refused(err);
        if (answer && answer->job_submit_user_msg && answer->job_submit_user_msg[0])
            dp_err_prefix(err, "%.300s", answer->job_submit_user_msg);
    }
    if (answer)
        slurm_free_submit_response_response_msg(answer);
    free(out);
    free(bad);
    return rc;
}

int dp_slurm_job_submit_like(uint32_t like_id, const struct dp_slurm_like *how, uint32_t *job_id, struct dp_err *err)
{
    job_info_msg_t *msg = NULL;
    int rc = 1;

    if (slurm_load_job(&msg, job_key(like_id), SHOW_DETAIL) != SLURM_SUCCESS)
        return fail(err);
    for (uint32_t i = 0; i < msg->record_count && rc > 0; i++)
        if (id_of(&msg->job_array[i]) == like_id)
            rc = submit_like(&msg->job_array[i], how, job_id, err);
    slurm_free_job_info_msg(msg);
    return rc > 0 ? dp_err_set(err, DP_EGONE, "no record of job %u", like_id) : rc;
}
