/* SPDX-License-Identifier: BSD-3-Clause */
/* See read.h: the document; where its jobs come from is in read_workload.c. */
#include "policies/cluster/read/read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file/slurp.h"
#include "policies/cluster/curve.h"
#include "policies/sim/case/fields.h"
#include "policies/sim/case/read.h"

#define SECOND_NS 1e9 /* as a double: files have seconds with a fraction */

static const char document_names[] =
    "name source nodes devices_per_node schedulers release_latency_s slurm workload dynpipe";
static const char slurm_names[] = "bf_interval_s bf_window_s bf_max_job_test";
static const char group_names[] = "share class user group executable queue partition min_nodes max_nodes min_run_s needs run "
                                  "run_time_factor keep_nodes single_release";

void dp_cluster_case_release(struct dp_cluster_case *c)
{
    dp_cluster_mix_release(&c->mix);
    memset(c, 0, sizeof *c);
}

/* ---- machine ---- */

static int read_schedulers(struct dp_fields *f, struct dp_cluster_case *c, struct dp_err *err)
{
    const json_t *list = dp_fields_get(f, "schedulers");

    if (!list) {
        for (c->n_schedulers = 0; c->n_schedulers < DP_CLUSTER_SCHEDULERS; c->n_schedulers++)
            c->scheduler[c->n_schedulers] = (enum dp_cluster_scheduler)c->n_schedulers;
        return 0;
    }
    if (json_array_size(list) < 1 || json_array_size(list) > DP_CLUSTER_SCHEDULERS)
        return dp_err_set(err, DP_EINVAL, "schedulers: expected an array of 1 to %d names", DP_CLUSTER_SCHEDULERS);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (dp_cluster_scheduler_find(name ? name : "", &c->scheduler[i], err) < 0)
            return dp_err_prefix(err, "schedulers[%zu]", i);
        for (size_t k = 0; k < i; k++)
            if (c->scheduler[k] == c->scheduler[i])
                return dp_err_set(err, DP_EINVAL, "schedulers[%zu]: '%s' appears twice", i, name);
        c->n_schedulers++;
    }
    return 0;
}

static int read_machine(struct dp_fields *f, struct dp_cluster_case *c)
{
    const json_t *slurm = dp_fields_get(f, "slurm");
    struct dp_cluster_machine *m = &c->machine;
    json_t *none = json_object();
    struct dp_fields s;

    dp_fields_text(f, "name", c->name, sizeof c->name, "");
    dp_fields_text(f, "source", c->source, sizeof c->source, NULL);
    if (!f->is_bad && !c->source[0])
        dp_fields_fail(f, "source", "is empty; say where the numbers come from");
    m->nodes = (uint32_t)dp_fields_count(f, "nodes", 1, DP_CLUSTER_MAX_NODES, 0);
    c->devices_per_node = (uint32_t)dp_fields_count(f, "devices_per_node", 1, 1024, 1);
    m->latency_ns = (uint64_t)llround(dp_fields_number(f, "release_latency_s", 0, 86400, 2) * SECOND_NS);
    dp_fields_open(&s, slurm ? slurm : none, "slurm", slurm_names, f->err);
    m->interval_ns = (uint64_t)llround(dp_fields_number(&s, "bf_interval_s", 1, 86400, 30) * SECOND_NS);
    m->window_ns = (uint64_t)llround(dp_fields_number(&s, "bf_window_s", 0, 3e7, 86400) * SECOND_NS);
    m->depth = (uint32_t)dp_fields_count(&s, "bf_max_job_test", 1, 1e6, 500);
    json_decref(none);
    return f->is_bad || s.is_bad ? -1 : 0;
}

/* ---- DynPipe jobs ---- */

static int read_needs(const json_t *list, const char *where, struct dp_cluster_curve *out, struct dp_err *err)
{
    out->n_steps = (uint32_t)json_array_size(list);
    if (out->n_steps < 1 || out->n_steps > DP_CLUSTER_MAX_STEPS)
        return dp_err_set(err, DP_EINVAL, "%sneeds: expected an array of 1 to %u steps", where, DP_CLUSTER_MAX_STEPS);
    for (uint32_t k = 0; k < out->n_steps; k++) {
        char path[160];
        struct dp_fields f;

        snprintf(path, sizeof path, "%.100sneeds[%u]", where, k);
        dp_fields_open(&f, json_array_get(list, k), path, "at share", err);
        out->step[k].at = dp_fields_number(&f, "at", 0, 1, NAN);
        out->step[k].hold = dp_fields_number(&f, "share", 0, 1, NAN);
        if (!f.is_bad && !(out->step[k].at > (k ? out->step[k - 1].at : 0) && out->step[k].at < 1))
            dp_fields_fail(&f, "at", "shares of the run time rise, within 0 and 1");
        if (!f.is_bad && !(out->step[k].hold > 0 && out->step[k].hold < (k ? out->step[k - 1].hold : 1)))
            dp_fields_fail(&f, "share", "shares of the nodes fall, within 1 and 0");
        if (f.is_bad)
            return -1;
    }
    return 0;
}

static int simulate_run(const char *path, const char *run, struct dp_cluster_curve *out, struct dp_err *err)
{
    char beside[4096], *list[] = {beside};
    struct dp_sim_case c;
    int rc;

    dp_cluster_beside(path, run, beside);
    if (dp_sim_read(1, list, NULL, &c, err) < 0)
        return -1;
    rc = dp_cluster_curve_simulate(&c, out, err) < 0 ? dp_err_prefix(err, "%s", beside) : 0;
    dp_sim_case_release(&c);
    return rc;
}

static int find_class(const struct dp_cluster_case *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_classes; i++)
        if (!strcmp(c->class[i], name))
            return (int)i;
    return -1;
}

/* A number of a workload file; -1: any. */
static int32_t read_id(struct dp_fields *f, const char *name)
{
    double v = dp_fields_number(f, name, 0, INT32_MAX, -1);

    if (v != floor(v))
        dp_fields_fail(f, name, "expected a whole number, not %g", v);
    return (int32_t)v;
}

static int read_group(const json_t *value, uint32_t i, const char *path, struct dp_cluster_case *c, struct dp_err *err)
{
    struct dp_cluster_group *g = &c->group[i];
    struct dp_cluster_curve *curve = &c->mix.curve[i];
    double factor;
    struct dp_fields f;
    char where[64];

    snprintf(where, sizeof where, "dynpipe[%u]", i);
    dp_fields_open(&f, value, where, group_names, err);
    g->share = dp_fields_number(&f, "share", 0, 1, 1);
    dp_fields_text(&f, "class", g->class, sizeof g->class, "");
    g->owner.user = read_id(&f, "user");
    g->owner.group = read_id(&f, "group");
    g->owner.executable = read_id(&f, "executable");
    g->owner.queue = read_id(&f, "queue");
    g->owner.partition = read_id(&f, "partition");
    g->min_nodes = (uint32_t)dp_fields_count(&f, "min_nodes", 1, DP_CLUSTER_MAX_NODES, 2);
    g->max_nodes = (uint32_t)dp_fields_count(&f, "max_nodes", 1, DP_CLUSTER_MAX_NODES, DP_CLUSTER_MAX_NODES);
    g->min_run_s = dp_fields_number(&f, "min_run_s", 0, 1e8, 0);
    curve->min_nodes = (uint32_t)dp_fields_count(&f, "keep_nodes", 1, DP_CLUSTER_MAX_NODES, 1);
    curve->is_single = json_is_true(dp_fields_get(&f, "single_release"));
    dp_fields_text(&f, "run", g->run, sizeof g->run, "");
    factor = dp_fields_number(&f, "run_time_factor", 0.1, DP_CLUSTER_MAX_STRETCH, 0);
    if (!f.is_bad && dp_fields_get(&f, "single_release") && !json_is_boolean(dp_fields_get(&f, "single_release")))
        dp_fields_fail(&f, "single_release", "expected true or false");
    if (!f.is_bad && g->class[0] && find_class(c, g->class) < 0)
        dp_fields_fail(&f, "class", "the workload has no class '%s'", g->class);
    if (!f.is_bad && !g->run[0] == !dp_fields_get(&f, "needs"))
        dp_fields_fail(&f, "needs", "expected either this or run");
    if (f.is_bad)
        return -1;
    curve->stretch = 1;
    if (g->run[0] ? simulate_run(path, g->run, curve, err) < 0 : read_needs(dp_fields_get(&f, "needs"), f.path, curve, err) < 0)
        return g->run[0] ? dp_err_prefix(err, "%srun", f.path) : -1;
    curve->stretch = factor > 0 ? factor : curve->stretch;
    return 0;
}

static bool is_one_of(int32_t wanted, int32_t number)
{
    return wanted < 0 || wanted == number;
}

static bool is_match(const struct dp_cluster_case *c, const struct dp_cluster_group *g, const struct dp_cluster_job *j)
{
    const struct dp_cluster_owner *o = &j->owner;

    return j->nodes >= g->min_nodes && j->nodes <= g->max_nodes && (double)j->run_ns * 1e-9 >= g->min_run_s &&
           (!g->class[0] || (uint32_t)find_class(c, g->class) == j->class_id) && is_one_of(g->owner.user, o->user) &&
           is_one_of(g->owner.group, o->group) && is_one_of(g->owner.executable, o->executable) &&
           is_one_of(g->owner.queue, o->queue) && is_one_of(g->owner.partition, o->partition);
}

/* The first group that a job matches, and whose draw it wins, has it. A job's draws depend on its place
 * alone, so that more of them become DynPipe jobs when a share grows, and none stops being one. */
static void hand_out(struct dp_cluster_case *c)
{
    for (uint32_t i = 0; i < c->mix.n_jobs; i++) {
        struct dp_cluster_job *j = &c->mix.job[i];

        for (uint32_t k = 0; k < c->n_groups && !j->curve; k++)
            if (is_match(c, &c->group[k], j) && dp_cluster_draw_at(k, i) < c->group[k].share)
                j->curve = k + 1;
        if (j->curve)
            c->group[j->curve - 1].n_jobs++;
    }
}

static int read_groups(struct dp_fields *f, const char *path, struct dp_cluster_case *c, struct dp_err *err)
{
    const json_t *list = dp_fields_get(f, "dynpipe");

    if (!json_is_array(list) || json_array_size(list) > DP_CLUSTER_MAX_GROUPS)
        return dp_err_set(err, DP_EINVAL, "dynpipe: expected an array of at most %u groups of jobs", DP_CLUSTER_MAX_GROUPS);
    c->n_groups = c->mix.n_curves = (uint32_t)json_array_size(list);
    c->mix.curve = calloc((size_t)c->n_groups + 1, sizeof *c->mix.curve);
    if (!c->mix.curve)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < c->n_groups; i++)
        if (read_group(json_array_get(list, i), i, path, c, err) < 0)
            return -1;
    hand_out(c);
    return 0;
}

static int read_document(const json_t *document, const char *path, const char *swf, uint64_t seed, struct dp_cluster_case *c,
                         struct dp_err *err)
{
    struct dp_fields f;

    dp_fields_open(&f, document, "", document_names, err);
    if (read_machine(&f, c) < 0 || read_schedulers(&f, c, err) < 0 || dp_cluster_read_workload(&f, path, swf, seed, c, err) < 0 ||
        read_groups(&f, path, c, err) < 0 || dp_cluster_mix_check(&c->mix, c->machine.nodes, err) < 0)
        return dp_err_prefix(err, "%s", path);
    return 0;
}

int dp_cluster_read(const char *path, const char *swf, uint64_t seed, struct dp_cluster_case *out, struct dp_err *err)
{
    json_error_t at;
    json_t *document;
    char *text;
    size_t bytes;
    int rc;

    memset(out, 0, sizeof *out);
    if (dp_slurp_text(path, DP_SIM_MAX_FILE_BYTES, &text, &bytes, err) < 0)
        return -1;
    document = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &at);
    free(text);
    if (!document)
        return dp_err_set(err, DP_EINVAL, "%s:%d: %s", path, at.line, at.text);
    rc = read_document(document, path, swf, seed, out, err);
    json_decref(document);
    if (rc < 0)
        dp_cluster_case_release(out);
    return rc;
}
