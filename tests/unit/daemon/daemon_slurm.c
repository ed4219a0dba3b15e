/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemons of daemon_world.h have instead of Slurm and munge. The functions of slurm_job.c stand here under
 * their own names; what is called __wrap_X is called in the place of X. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/message/session.h"
#include "common/slurm/libslurm.h"
#include "daemon/child/node_origin.h"
#include "daemon/child/node_state.h"
#include "daemon/child/slurm_job.h"
#include "daemon/release/as_owner.h"
#include "daemon/release/ask_slices.h"
#include "tests/unit/daemon/daemon_world.h"

#define SEC UINT64_C(1000000000)
enum { CREDENTIALS = 256 };

/* ---- Slurm ---- */

void dp_slurm_enter(void)
{
}

static void read_slice(const struct dw_slice *s, struct dp_job_result *out)
{
    struct dp_job_info *job = &out->job;

    job->job_id = s->job_id;
    job->array_job_id = s->array;
    job->slice_of = s->slice_of;
    job->uid = job->gid = s->uid;
    job->restart_count = s->restart_count;
    job->is_running = !s->has_ended && !s->is_ending;
    job->is_completing = job->is_queued = s->is_ending;
    job->n_nodes = 1;
    memcpy(job->node[0], dw.node[s->node].name, sizeof job->node[0]);
    memcpy(job->batch_host, job->node[0], sizeof job->batch_host);
    job->n_tasks = 1;
    job->start_s = s->start_s;
    job->boot_s = dw.slurm.boot_s;
    if (!job->is_running)
        snprintf(out->text, sizeof out->text, "the job is %s", s->is_ending ? "PENDING" : "COMPLETED");
}

static bool is_array(uint32_t id, uint32_t uid)
{
    for (uint32_t i = 0; i < DW_SLICES; i++)
        if (dw.slurm.slice[i].array == id && dw.slurm.slice[i].uid == uid && dw.slurm.slice[i].job_id)
            return true;
    return false;
}

/* It waits, in the queue again. */
static bool is_home_queued(uint32_t home_job)
{
    for (uint32_t i = 0; i < DW_SLICES; i++)
        if (dw.slurm.slice[i].job_id == home_job && !dw.slurm.slice[i].array)
            return dw.slurm.slice[i].is_ending;
    return false;
}

size_t dp_slices_read_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_slices_result r;
    struct dp_slices_request q;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    memset(&r, 0, sizeof r);
    r.rc = dw.slurm.is_down ? -1 : 0;
    r.read_s = dw.now_ns / SEC;
    r.array_job_id = q.array_job_id ? q.array_job_id : is_array(q.home_job, q.uid) ? q.home_job : 0;
    r.has_waiting = q.array_job_id != 0 && !q.has_companions;
    r.is_home_queued = is_home_queued(q.home_job);
    snprintf(r.home_why, sizeof r.home_why, "job %u %s", q.home_job, r.is_home_queued ? "waits in the queue" : "is over");
    for (uint32_t i = 0; i < DW_SLICES && r.rc == 0; i++) {
        const struct dw_slice *s = &dw.slurm.slice[i];
        struct dp_slice *out = &r.slice[r.n];
        bool is_home = r.array_job_id ? s->array == r.array_job_id : s->job_id == q.home_job;
        bool is_companion = !s->array && s->slice_of == q.home_job && (!q.array_job_id || q.has_companions);

        if (!s->job_id || s->uid != q.uid || s->has_ended || (!is_home && !is_companion))
            continue;
        if (is_home && !r.array_job_id && s->slice_of)
            continue; /* one that is a slice itself is nobody's home */
        r.has_waiting |= s->is_waiting && !s->is_older && (is_home || !r.array_job_id);
        r.has_home |= is_home && !s->is_ending;
        if (is_home && !r.array_job_id)
            r.home_restarts = s->restart_count;
        if (s->is_waiting)
            continue;
        *out = (struct dp_slice){.job_id = s->job_id, .restart_count = s->restart_count, .start_s = s->start_s,
                                 .slice_of = s->slice_of, .is_running = !s->is_ending,
                                 .is_companion = r.array_job_id && !is_home,
                                 .is_older = !is_home && !r.array_job_id && (s->is_older || r.is_home_queued)};
        memcpy(out->node, dw.node[s->node].name, sizeof out->node);
        r.n++;
    }
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

/* ---- companions ---- */

/* What its companions name. */
static uint32_t named_by(uint32_t job_id)
{
    for (uint32_t i = 0; i < DW_SLICES; i++)
        if (dw.slurm.slice[i].job_id == job_id && dw.slurm.slice[i].array)
            return dw.slurm.slice[i].array;
    return job_id;
}

static bool is_companion_of(const struct dw_slice *s, uint32_t job_id)
{
    return s->job_id && !s->array && s->slice_of == named_by(job_id);
}

static void count(const struct dp_ask_request *q, struct dp_ask_result *r)
{
    for (uint32_t i = 0; i < DW_SLICES; i++) {
        const struct dw_slice *s = &dw.slurm.slice[i];

        if (!is_companion_of(s, q->job_id) || s->is_older || s->shown_ns > dw.now_ns)
            continue;
        r->n_ended += s->has_ended;
        r->n_waiting += !s->has_ended && s->is_waiting;
        r->n_running += !s->has_ended && !s->is_waiting;
        if (!s->has_ended && s->is_waiting && (!r->oldest_s || s->submit_s < r->oldest_s))
            r->oldest_s = s->submit_s;
    }
}

static void withdraw(const struct dp_ask_request *q, uint32_t keep, struct dp_ask_result *r)
{
    for (uint32_t i = DW_SLICES; i-- > 0;) {
        struct dw_slice *s = &dw.slurm.slice[i];

        if (!is_companion_of(s, q->job_id) || s->has_ended || !s->is_waiting || (!s->is_older && r->n_waiting <= keep))
            continue;
        r->n_waiting -= !s->is_older;
        r->n_withdrawn++;
        memset(s, 0, sizeof *s);
    }
}

static void submit(const struct dp_ask_request *q, uint32_t n, struct dp_ask_result *r)
{
    for (uint32_t i = 0; i < DW_SLICES && n > 0; i++) {
        struct dw_slice *s = &dw.slurm.slice[i];

        if (s->job_id)
            continue;
        if (r->n_waiting + r->n_running == dw.slurm.most_companions) {
            r->end = DP_ASK_REFUSED;
            snprintf(r->text, sizeof r->text, "so many are not allowed");
            return;
        }
        *s = (struct dw_slice){.job_id = 1000 + ++dw.slurm.n_submitted, .uid = DW_OWNER, .slice_of = named_by(q->job_id),
                               .is_waiting = true, .submit_s = dw.now_ns / SEC,
                               .shown_ns = dw.now_ns + (dw.slurm.lose_answers ? 3 * SEC : 0)};
        r->n_submitted++;
        r->n_waiting++;
        n--;
    }
}

size_t dp_ask_slices_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_ask_request q;
    struct dp_ask_result r;
    uint32_t have;
    bool is_settled;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    memset(&r, 0, sizeof r);
    is_settled = q.is_settled || !dw.slurm.was_asked;
    dw.slurm.was_asked = true;
    dw.slurm.n_asked++;
    r.read_s = dw.now_ns / SEC;
    if (dw.slurm.is_down) {
        r.end = DP_ASK_FAILED;
        snprintf(r.text, sizeof r.text, "no answer");
    } else {
        count(&q, &r);
        have = r.n_waiting + r.n_running + r.n_ended;
        withdraw(&q, q.is_over ? 0 : q.wanted > r.n_running ? q.wanted - r.n_running : 0, &r);
        if (!q.is_over && q.may_submit && have < q.wanted && !is_settled)
            r.end = DP_ASK_UNSURE;
        else if (!q.is_over && q.may_submit && have < q.wanted)
            submit(&q, q.wanted - have, &r);
    }
    if (dw.slurm.lose_answers && r.n_submitted) {
        dw.slurm.lose_answers--;
        r.end = DP_ASK_UNSURE;
        r.n_submitted = 0;
        snprintf(r.text, sizeof r.text, "timed out");
    }
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

size_t dp_mark_slices_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_mark_request q;
    struct dp_shrink_result r = {.rc = 0};

    (void)bytes;
    memcpy(&q, request, sizeof q);
    for (uint32_t i = 0; i < DW_SLICES; i++) {
        for (uint32_t k = 0; k < q.n; k++)
            dw.slurm.slice[i].is_marked |= dw.slurm.slice[i].job_id == q.slice[k];
        if (q.slice_of && dw.slurm.slice[i].job_id == q.job_id)
            dw.slurm.slice[i].slice_of = q.slice_of;
    }
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

/* ---- jobs ---- */

void dp_job_read(uint32_t job_id, struct dp_job_result *out)
{
    struct dw_slurm *s = &dw.slurm;
    struct dp_job_info *job = &out->job;

    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < DW_SLICES && job_id && !s->is_down; i++)
        if (s->slice[i].job_id == job_id) {
            read_slice(&s->slice[i], out);
            return;
        }
    snprintf(out->proctrack, sizeof out->proctrack, "proctrack/cgroup");
    out->rc = s->is_down ? -1 : job_id == DW_JOB ? 0 : 1;
    if (out->rc != 0) {
        snprintf(out->text, sizeof out->text, "slurm: %s", out->rc < 0 ? "no answer" : "no such job");
        return;
    }
    job->job_id = job_id;
    job->uid = job->gid = DW_OWNER;
    job->restart_count = s->restart_count;
    job->is_running = !s->has_ended && !s->begin_at_ns;
    job->is_completing = s->has_ended && s->is_completing;
    job->is_queued = (s->has_ended && s->is_queued) || s->begin_at_ns;
    for (uint32_t n = 0; n < DW_NODES; n++)
        if (s->held[n])
            memcpy(job->node[job->n_nodes++], dw.node[n].name, sizeof job->node[0]);
    memcpy(job->batch_host, dw.node[0].name, sizeof job->batch_host);
    job->n_tasks = DW_WORKERS;
    job->start_s = 1;
    job->boot_s = s->boot_s;
    job->shrinks_allowed = s->shrinks_allowed;
    if (s->begin_at_ns)
        snprintf(out->text, sizeof out->text, "the job is PENDING");
    else if (s->has_ended)
        snprintf(out->text, sizeof out->text, "the job is COMPLETED");
}

size_t dp_job_read_work(const void *request, size_t bytes, uint8_t *result)
{
    static struct dp_job_request q;
    struct dp_job_result r;

    (void)bytes;
    memcpy(&q, request, sizeof q);
    dp_job_read(q.job_id, &r);
    r.others = r.rc == 0 && q.asks_others ? DP_OTHERS_NONE : DP_OTHERS_UNASKED;
    for (uint32_t k = 0; k < q.n_others && r.rc == 0; k++)
        for (uint32_t i = 0; i < DW_SLICES; i++)
            if (dw.slurm.slice[i].job_id == q.other[k].job_id && dw.slurm.slice[i].restart_count == q.other[k].restart_count &&
                !dw.slurm.slice[i].has_ended && !dw.slurm.slice[i].is_ending)
                r.others = DP_OTHERS_RUN;
    memcpy(result, &r, sizeof r);
    return sizeof r;
}

size_t dp_node_state_work(const void *request, size_t bytes, uint8_t *result)
{
    (void)bytes;
    result[0] = DP_NODE_UNKNOWN;
    for (uint32_t n = 0; n < DW_NODES && !dw.slurm.is_down; n++)
        if (!strcmp(request, dw.node[n].name))
            result[0] = dw.slurm.drains[n] ? DP_NODE_DRAINS : DP_NODE_USED;
    return 1;
}

uint32_t dp_job_list_others(uint32_t uid, uint32_t job_id, const char *node, uint32_t *out, uint32_t cap)
{
    (void)uid;
    (void)job_id;
    (void)node;
    (void)out;
    (void)cap;
    return 0;
}

int __wrap_dp_slurm_job_shrink(uint32_t job_id, const char *keep, struct dp_err *err);
int __wrap_dp_slurm_job_kill(uint32_t job_id, int signal, struct dp_err *err);
int __wrap_dp_slurm_job_requeue(uint32_t job_id, struct dp_err *err);
int __wrap_dp_slurm_each_node(const char *name, dp_slurm_node_fn fn, void *arg, struct dp_err *err);

/* A node that leaves the job: nothing of the run may live there. */
static void give_away(uint32_t n)
{
    dw.slurm.held[n] = false;
    if (n == 0)
        dw_broken_for_all("the batch host is given away", n, 0);
    for (uint32_t i = 0; i < dw.n_processes; i++)
        if (dw.process[i].is_alive && dw.process[i].node == n && !dw.node[n].is_hostile)
            dw_broken_for_all("a node is given away on which something lives", n, dw.process[i].pid);
    if (!dw.node[n].is_fenced && !dw.node[n].is_hostile)
        dw_broken_for_all("a node is given away that is not fenced", n, 0);
}

int __wrap_dp_slurm_job_shrink(uint32_t job_id, const char *keep, struct dp_err *err)
{
    bool is_late = dw_chance(dw.fault_percent); /* done, but the answer is lost */

    (void)job_id;
    if (dw.slurm.is_down)
        return dp_err_set(err, DP_EIO, "no answer");
    for (uint32_t n = 0; n < DW_NODES; n++)
        if (dw.slurm.held[n] && !strstr(keep, dw.node[n].name))
            give_away(n);
    dw.slurm.save_at_ns = dw.now_ns + 5 * SEC;
    return is_late ? dp_err_set(err, DP_EIO, "timed out") : 0;
}

int __wrap_dp_slurm_job_kill(uint32_t job_id, int signal, struct dp_err *err)
{
    (void)job_id;
    (void)signal;
    (void)err;
    dw.slurm.has_ended = true;
    return 0;
}

int __wrap_dp_slurm_job_requeue(uint32_t job_id, struct dp_err *err)
{
    return __wrap_dp_slurm_job_kill(job_id, 0, err);
}

/* Both nodes are known. */
int __wrap_dp_slurm_each_node(const char *name, dp_slurm_node_fn fn, void *arg, struct dp_err *err)
{
    (void)name;
    (void)fn;
    (void)arg;
    return dw.slurm.is_down ? dp_err_set(err, DP_EIO, "no answer") : 0;
}

/* ---- munge ---- */

static struct {
    struct dp_handshake hs;
    uint32_t id;
} credential[CREDENTIALS];

int __wrap_dp_handshake_seal(const struct dp_handshake *hs, const char *munge_socket, uid_t reader, char *out, size_t cap,
                             struct dp_err *err);
int __wrap_dp_handshake_open(const char *text, const char *munge_socket, struct dp_handshake *hs, uid_t *uid,
                             struct in_addr *sealed_at, struct dp_err *err);
size_t __wrap_dp_origin_work(const void *request, size_t bytes, uint8_t *result);

int __wrap_dp_handshake_seal(const struct dp_handshake *hs, const char *munge_socket, uid_t reader, char *out, size_t cap,
                             struct dp_err *err)
{
    static uint32_t next;

    (void)munge_socket;
    (void)reader;
    if (dw_chance(dw.child_percent))
        return dp_err_set(err, DP_EIO, "munge: no");
    next++;
    credential[next % CREDENTIALS].hs = *hs;
    credential[next % CREDENTIALS].id = next;
    snprintf(out, cap, "%u", next);
    return 0;
}

/* Each can be opened once. */
int __wrap_dp_handshake_open(const char *text, const char *munge_socket, struct dp_handshake *hs, uid_t *uid,
                             struct in_addr *sealed_at, struct dp_err *err)
{
    uint32_t id = (uint32_t)strtoul(text, NULL, 10);

    (void)munge_socket;
    if (!id || credential[id % CREDENTIALS].id != id)
        return dp_err_set(err, DP_EAUTH, "munge: replayed, or none");
    credential[id % CREDENTIALS].id = 0;
    *hs = credential[id % CREDENTIALS].hs;
    *uid = DW_DAEMON_UID;
    if (sealed_at)
        memset(sealed_at, 0, sizeof *sealed_at);
    return 0;
}

size_t __wrap_dp_origin_work(const void *request, size_t bytes, uint8_t *result)
{
    struct dp_origin_result r = {.is_fine = !dw_chance(dw.child_percent), .text = "it comes from elsewhere"};

    (void)request;
    (void)bytes;
    memcpy(result, &r, sizeof r);
    return sizeof r;
}
