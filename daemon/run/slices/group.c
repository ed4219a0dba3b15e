/* SPDX-License-Identifier: BSD-3-Clause */
/* See group.h. */
#include "config.h"

#include "daemon/run/slices/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define ENDLESS 1000000u /* size changes: a slice ends, and nobody asks Slurm for one */

/* The last task of an array to begin has the array's own id, the lowest one. */
bool dp_group_began_before(const struct dp_slice *a, const struct dp_slice *b)
{
    if (a->start_s != b->start_s)
        return a->start_s < b->start_s;
    return a->task != b->task ? a->task < b->task : a->job_id < b->job_id;
}

int dp_group_home(const struct dp_slice *slice, uint32_t n, uint64_t read_s)
{
    int home = -1;

    for (uint32_t i = 0; i < n; i++) {
        if (slice[i].is_running && !slice[i].is_companion && (home < 0 || dp_group_began_before(&slice[i], &slice[home])))
            home = (int)i;
    }
    return home >= 0 && read_s > slice[home].start_s ? home : -1;
}

void dp_group_init(struct dp_group *g, uint32_t home_job, uint32_t wanted, uint32_t least, uint32_t seats, uint64_t wait_ns)
{
    memset(g, 0, sizeof *g);
    g->home_job = home_job;
    g->wanted = wanted;
    g->least = least;
    g->seats = seats;
    g->wait_ns = wait_ns;
    g->possible = UINT32_MAX;
}

static struct dp_group_member *find(struct dp_group *g, uint32_t job_id)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->member[i].job_id == job_id)
            return &g->member[i];
    return NULL;
}

const struct dp_slice *dp_group_find_slice(const struct dp_slice *slice, uint32_t n, uint32_t job_id)
{
    for (uint32_t i = 0; i < n; i++)
        if (slice[i].job_id == job_id)
            return &slice[i];
    return NULL;
}

static bool is_same(const struct dp_group_member *a, const struct dp_group_member *b)
{
    return a->pid == b->pid && a->step_id == b->step_id && a->restart_count == b->restart_count && !strcmp(a->node, b->node);
}

static bool is_its(const struct dp_slice *s, const struct dp_group_member *m)
{
    return s && !strcmp(s->node, m->node) && s->restart_count == m->restart_count;
}

static void know_step(struct dp_group *g, const struct dp_group_member *m)
{
    if (g->has_step || m->job_id != g->home_job)
        return;
    g->has_step = true;
    g->step_id = m->step_id;
}

int dp_group_join(struct dp_group *g, const struct dp_slice *slice, uint32_t n, const struct dp_group_member *m,
                  uint64_t now_ns, struct dp_err *err)
{
    const struct dp_slice *s = dp_group_find_slice(slice, n, m->job_id);
    struct dp_group_member *known = find(g, m->job_id);

    if (!is_its(s, m) || !s->is_running)
        return dp_err_set(err, DP_EGONE, "Slurm does not show job %u running on '%s' as a task of this array", m->job_id, m->node);
    if (g->state != DP_GROUP_GATHERING) {
        if (!known || known->restart_count != m->restart_count)
            return g->state == DP_GROUP_CLOSED ? 1 : dp_err_set(err, DP_EAUTH, "the run does not begin");
        if (!known->pid && !strcmp(known->node, m->node)) {
            *known = *m;
            know_step(g, m);
        }
        return is_same(known, m) ? 0 : dp_err_set(err, DP_EAUTH, "job %u has another worker in the run", m->job_id);
    }
    if (!known && g->n == DP_MAX_SLOTS)
        return dp_err_set(err, DP_EAUTH, "a run has at most %d slices", DP_MAX_SLOTS);
    if (!known)
        known = &g->member[g->n++];
    *known = *m;
    if (!g->began_ns)
        g->began_ns = now_ns;
    return 0;
}

void dp_group_restore(struct dp_group *g, uint32_t home_job, const struct dp_job_info *job, const uint32_t *step_id)
{
    dp_group_init(g, home_job, job->n_nodes, job->n_nodes, job->n_nodes, 0);
    g->state = DP_GROUP_CLOSED;
    g->n = job->n_nodes;
    g->has_step = step_id != NULL;
    g->step_id = step_id ? *step_id : 0;
    for (uint32_t i = 0; i < g->n; i++) {
        g->member[i].job_id = job->slice[i];
        g->member[i].restart_count = job->slice_restarts[i];
        memcpy(g->member[i].node, job->node[i], sizeof g->member[i].node);
        g->n_there += job->slice[i] != 0;
    }
}

void dp_group_seat(struct dp_group *g, uint32_t rank, const struct dp_group_member *m)
{
    g->member[rank] = *m;
}

void dp_group_leave(struct dp_group *g, uint32_t job_id, uint32_t pid)
{
    struct dp_group_member *m = find(g, job_id);

    if (g->state == DP_GROUP_GATHERING && m && m->pid == pid)
        *m = g->member[--g->n];
}

void dp_group_keep(struct dp_group *g, const struct dp_slice *slice, uint32_t n, bool has_waiting)
{
    g->possible = has_waiting ? UINT32_MAX : 0;
    for (uint32_t i = 0; i < n && !has_waiting; i++)
        g->possible += slice[i].is_running;
    for (uint32_t i = g->n; i-- > 0 && g->state == DP_GROUP_GATHERING;) {
        const struct dp_slice *s = dp_group_find_slice(slice, n, g->member[i].job_id);

        if (!is_its(s, &g->member[i]) || !s->is_running)
            g->member[i] = g->member[--g->n];
    }
}

/* Home's worker, then the others of its node, then node by node: neighbours in the pipeline are near each other. */
static void order(struct dp_group *g)
{
    const struct dp_group_member home = *find(g, g->home_job);

    for (uint32_t i = 1; i < g->n; i++) {
        const struct dp_group_member m = g->member[i];
        uint32_t k = i;

        for (; k > 0; k--) {
            const struct dp_group_member *o = &g->member[k - 1];
            int by_home = (o->job_id != home.job_id) - (m.job_id != home.job_id);
            int by_near = (strcmp(o->node, home.node) != 0) - (strcmp(m.node, home.node) != 0), by_node = strcmp(o->node, m.node);

            if ((by_home ? by_home : by_near ? by_near : by_node ? by_node : o->job_id > m.job_id ? 1 : -1) < 0)
                break;
            g->member[k] = *o;
        }
        g->member[k] = m;
    }
}

bool dp_group_tick(struct dp_group *g, uint64_t now_ns)
{
    bool is_over = g->began_ns && now_ns - g->began_ns >= g->wait_ns;

    if (g->state != DP_GROUP_GATHERING || !g->began_ns)
        return false;
    if (find(g, g->home_job) && (g->n >= g->wanted || (is_over && g->n >= g->least))) {
        order(g);
        know_step(g, &g->member[0]);
        g->state = DP_GROUP_CLOSED;
        g->n_there = g->n;
        g->n = g->seats > g->n ? g->seats : g->n;
        memset(&g->member[g->n_there], 0, (g->n - g->n_there) * sizeof g->member[0]);
        return true;
    }
    if (g->possible < g->least) {
        g->state = DP_GROUP_FAILED;
        snprintf(g->text, sizeof g->text, "no more than %u of the %u slices that the run needs are there, and no task of the array waits",
                 g->possible, g->least);
        return true;
    }
    if (!is_over)
        return false;
    g->state = DP_GROUP_FAILED;
    snprintf(g->text, sizeof g->text, "%u of %u slices have joined in %.0f s, and %s", g->n, g->wanted,
             (double)(now_ns - g->began_ns) / 1e9, g->n < g->least ? "the run needs more" : "that which began first is not one of them");
    return true;
}

int dp_group_rank(const struct dp_group *g, uint32_t job_id)
{
    for (uint32_t i = 0; i < g->n && g->state == DP_GROUP_CLOSED; i++)
        if (g->member[i].job_id == job_id)
            return (int)i;
    return -1;
}

static void add_slot(struct dp_job_info *out, const struct dp_group_member *m)
{
    memcpy(out->node[out->n_nodes], m->node, sizeof out->node[0]);
    out->slice_restarts[out->n_nodes] = m->restart_count;
    out->slice[out->n_nodes++] = m->job_id;
}

static void begin_job(const struct dp_job_info *home, struct dp_job_info *out)
{
    *out = *home;
    out->n_nodes = 0;
    memset(out->node, 0, sizeof out->node);
    memset(out->slice, 0, sizeof out->slice);
    memset(out->slice_restarts, 0, sizeof out->slice_restarts);
    memset(out->is_companion, 0, sizeof out->is_companion);
    out->gpus_per_node = 0; /* of a slot: it counts as one device */
    out->shrinks_allowed = ENDLESS;
    snprintf(out->mem_why, sizeof out->mem_why, "the run is made of slices");
}

void dp_group_job(const struct dp_group *g, const struct dp_job_info *home, struct dp_job_info *out)
{
    begin_job(home, out);
    for (uint32_t i = 0; i < g->n; i++)
        if (g->member[i].job_id)
            add_slot(out, &g->member[i]);
    out->n_tasks = out->n_seats = g->n;
}

/* Its job is not over. One that was requeued counts its next life at once, and Slurm waits for what is left of the one before. */
static bool is_there(const struct dp_slice *s, const struct dp_group_member *m)
{
    return is_its(s, m) || (s && !s->is_running && !strcmp(s->node, m->node) && s->restart_count == m->restart_count + 1);
}

void dp_group_job_now(const struct dp_group *g, const struct dp_job_info *home, const struct dp_slice *slice, uint32_t n,
                      struct dp_job_info *out)
{
    begin_job(home, out);
    for (uint32_t i = 0; i < g->n; i++) {
        const struct dp_slice *s = dp_group_find_slice(slice, n, g->member[i].job_id);

        if (!is_there(s, &g->member[i]))
            continue;
        out->is_companion[out->n_nodes] = s->is_companion;
        add_slot(out, &g->member[i]);
    }
    out->n_tasks = g->n;
}
