/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the jobs of a description come from: a workload file, or a model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file/slurp.h"
#include "policies/cluster/read/read.h"
#include "policies/sim/case/fields.h"

static const char swf_names[] = "swf processors_per_node load";
static const char model_names[] = "model seed jobs load between_arrivals_s estimate classes";
static const char class_names[] = "name share nodes run_s estimate";
static const char distribution_names[] = "constant exponential uniform log_uniform choices";

#define LONGEST_S ((double)DP_CLUSTER_MAX_NS * 1e-9) /* the same in seconds */

/* ---- distributions ---- */

/* [a, b] with low <= a <= b <= high. */
static bool read_range(const json_t *value, double low, double high, double *a, double *b)
{
    return json_array_size(value) == 2 && dp_fields_is_number(json_array_get(value, 0), low, high, a) &&
           dp_fields_is_number(json_array_get(value, 1), *a, high, b);
}

static bool read_choices(const json_t *list, double low, double high, struct dp_cluster_distribution *out)
{
    double sum = 0;

    out->n = (uint32_t)json_array_size(list);
    if (out->n < 1 || out->n > DP_CLUSTER_MAX_CHOICES)
        return false;
    for (uint32_t i = 0; i < out->n; i++) {
        const json_t *pair = json_array_get(list, i);

        if (json_array_size(pair) != 2 || !dp_fields_is_number(json_array_get(pair, 0), low, high, &out->value[i]) ||
            !dp_fields_is_number(json_array_get(pair, 1), 0, 1e9, &out->weight[i]))
            return false;
        sum += out->weight[i];
    }
    return sum > 0;
}

static bool read_kind(const char *kind, const json_t *value, double low, double high, struct dp_cluster_distribution *out)
{
    if (!strcmp(kind, "constant")) {
        out->kind = DP_CLUSTER_CONSTANT;
        return dp_fields_is_number(value, low, high, &out->a);
    }
    if (!strcmp(kind, "exponential")) {
        out->kind = DP_CLUSTER_EXPONENTIAL;
        return dp_fields_is_number(value, low, high, &out->a);
    }
    if (!strcmp(kind, "uniform")) {
        out->kind = DP_CLUSTER_UNIFORM;
        return read_range(value, low, high, &out->a, &out->b);
    }
    if (!strcmp(kind, "log_uniform")) {
        out->kind = DP_CLUSTER_LOG_UNIFORM;
        return read_range(value, low, high, &out->a, &out->b) && out->a > 0;
    }
    out->kind = DP_CLUSTER_CHOICES;
    return !strcmp(kind, "choices") && read_choices(value, low, high, out);
}

void dp_cluster_read_distribution(struct dp_fields *f, const char *name, double low, double high, double fallback,
                                  struct dp_cluster_distribution *out)
{
    const json_t *v = dp_fields_get(f, name);
    const char *kind = json_object_iter_key(json_object_iter((json_t *)v));

    memset(out, 0, sizeof *out);
    if (!json_is_object(v)) {
        out->kind = DP_CLUSTER_CONSTANT;
        out->a = dp_fields_number(f, name, low, high, fallback);
    } else if (json_object_size(v) != 1 || !read_kind(kind, json_object_get(v, kind), low, high, out)) {
        dp_fields_fail(f, name, "expected a number, or one of %s (in braces) with values from %g to %g", distribution_names, low, high);
    }
}

/* ---- models ---- */

static void read_estimate(struct dp_fields *f, const char *path, struct dp_cluster_estimate *out, struct dp_err *err)
{
    const json_t *v = dp_fields_get(f, "estimate");
    struct dp_fields e;
    char where[160];

    out->factor = (struct dp_cluster_distribution){.kind = DP_CLUSTER_CONSTANT, .a = 1};
    if (!v)
        return;
    snprintf(where, sizeof where, "%.120sestimate", path);
    dp_fields_open(&e, v, where, "factor at_most_s", err);
    dp_cluster_read_distribution(&e, "factor", 1, 1e6, 1, &out->factor);
    out->most_s = dp_fields_number(&e, "at_most_s", 0, LONGEST_S, 0);
    f->is_bad |= e.is_bad;
}

static int read_class(const json_t *value, uint32_t i, struct dp_cluster_case *c, struct dp_cluster_model *m, struct dp_err *err)
{
    struct dp_cluster_class *out = &m->class[i];
    char path[64];
    struct dp_fields f;

    snprintf(path, sizeof path, "workload.classes[%u]", i);
    dp_fields_open(&f, value, path, class_names, err);
    dp_fields_text(&f, "name", out->name, sizeof out->name, NULL);
    out->share = dp_fields_number(&f, "share", 1e-6, 1e6, 1);
    dp_cluster_read_distribution(&f, "nodes", 1, DP_CLUSTER_MAX_NODES, NAN, &out->nodes);
    dp_cluster_read_distribution(&f, "run_s", 1, LONGEST_S, NAN, &out->run_s);
    read_estimate(&f, f.path, &out->estimate, err);
    snprintf(c->class[i], sizeof c->class[i], "%s", out->name);
    for (uint32_t k = 0; k < i; k++)
        if (!f.is_bad && !strcmp(m->class[k].name, out->name))
            dp_fields_fail(&f, "name", "appears twice");
    return f.is_bad ? -1 : 0;
}

static int read_classes(struct dp_fields *f, struct dp_cluster_case *c, struct dp_cluster_model *m, struct dp_err *err)
{
    const json_t *list = dp_fields_get(f, "classes");

    m->n_classes = c->n_classes = (uint32_t)json_array_size(list);
    if (m->n_classes < 1 || m->n_classes > DP_CLUSTER_MAX_CLASSES) {
        m->n_classes = c->n_classes = 0;
        dp_fields_fail(f, "classes", "expected an array of 1 to %u classes", DP_CLUSTER_MAX_CLASSES);
        return -1;
    }
    for (uint32_t i = 0; i < m->n_classes; i++)
        if (read_class(json_array_get(list, i), i, c, m, err) < 0)
            return -1;
    return 0;
}

static int read_model(struct dp_fields *f, uint64_t seed, struct dp_cluster_case *c, struct dp_err *err)
{
    struct dp_cluster_model *m = calloc(1, sizeof *m);
    char model[32];
    int rc = -1;

    if (!m)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    dp_fields_text(f, "model", model, sizeof model, NULL);
    m->seed = dp_fields_count(f, "seed", 0, 9e15, 1);
    m->seed = seed ? seed : m->seed;
    m->n_jobs = (uint32_t)dp_fields_count(f, "jobs", 1, DP_CLUSTER_MAX_JOBS, NAN);
    if (!f->is_bad && !strcmp(model, "classes")) {
        dp_cluster_read_distribution(f, "between_arrivals_s", 0, LONGEST_S, NAN, &m->between_arrivals_s);
        if (!f->is_bad && dp_fields_get(f, "estimate"))
            dp_fields_fail(f, "estimate", "belongs to the classes here");
        if (f->is_bad || read_classes(f, c, m, err) < 0)
            goto out;
    } else if (!f->is_bad && !strcmp(model, "lublin-feitelson")) {
        if (dp_fields_get(f, "between_arrivals_s") || dp_fields_get(f, "classes"))
            dp_fields_fail(f, "model", "'lublin-feitelson' has its own arrivals and no classes");
        read_estimate(f, f->path, &m->estimate, err);
    } else {
        dp_fields_fail(f, "model", "expected 'classes' or 'lublin-feitelson'");
    }
    if (f->is_bad)
        goto out;
    if (!c->machine.nodes) {
        dp_err_set(err, DP_EINVAL, "nodes: is missing");
        goto out;
    }
    snprintf(c->workload, sizeof c->workload, "model %s, seed %llu", model, (unsigned long long)m->seed);
    rc = dp_cluster_generate(m, c->machine.nodes, &c->mix, err);
out:
    free(m);
    return rc;
}

/* ---- workload files ---- */

void dp_cluster_beside(const char *path, const char *name, char out[4096])
{
    const char *slash = strrchr(path, '/');

    if (*name == '/' || !slash)
        snprintf(out, 4096, "%s", name);
    else
        snprintf(out, 4096, "%.*s/%s", (int)(slash - path), path, name);
}

static int read_swf(const char *path, uint32_t processors_per_node, struct dp_cluster_case *c, struct dp_err *err)
{
    struct dp_cluster_swf swf = {.nodes = c->machine.nodes, .processors_per_node = processors_per_node};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char *text;
    size_t bytes;
    int rc;

    if (dp_slurp_text(path, DP_CLUSTER_MAX_FILE_BYTES, &text, &bytes, err) < 0)
        return -1;
    rc = dp_cluster_swf_parse(path, text, bytes, &swf, &c->mix, &c->counts, err);
    free(text);
    if (rc < 0)
        return -1;
    c->machine.nodes = swf.nodes;
    snprintf(c->workload, sizeof c->workload, "%.60s%s%.80s, %u processors a node", name, *swf.computer ? ": " : "", swf.computer,
             swf.processors_per_node);
    return c->mix.n_jobs ? 0 : dp_err_set(err, DP_EINVAL, "%s: %u records, and none of them is a job to replay", path, c->counts.records);
}

static int read_swf_member(struct dp_fields *f, const char *path, const char *swf, struct dp_cluster_case *c, struct dp_err *err)
{
    char name[1024], beside[4096];
    uint32_t processors_per_node;

    dp_fields_text(f, "swf", name, sizeof name, swf ? "" : NULL);
    processors_per_node = (uint32_t)dp_fields_count(f, "processors_per_node", 1, 1e6, 0);
    if (f->is_bad)
        return -1;
    dp_cluster_beside(path, name, beside);
    return read_swf(swf ? swf : beside, processors_per_node, c, err);
}

/* returns: the load that is asked for, 0: none, -1: failed. */
static double read_jobs(struct dp_fields *document, const char *path, const char *swf, uint64_t seed, struct dp_cluster_case *c,
                        struct dp_err *err)
{
    const json_t *v = dp_fields_get(document, "workload");
    bool is_swf = swf || json_object_get(v, "swf");
    struct dp_fields f;
    double load;

    if (seed && is_swf)
        return dp_err_set(err, DP_EINVAL, "workload: the jobs come from a file; there is no model that a seed would change");
    if (swf && (!v || json_object_get(v, "model"))) /* the model gives way to the file */
        return read_swf(swf, 0, c, err);
    if (!v)
        return dp_err_set(err, DP_EINVAL, "workload: is missing, and no workload file is given");
    dp_fields_open(&f, v, "workload", is_swf ? swf_names : model_names, err);
    load = dp_fields_number(&f, "load", 0.001, 1000, 0);
    return f.is_bad || (is_swf ? read_swf_member(&f, path, swf, c, err) : read_model(&f, seed, c, err)) < 0 ? -1 : load;
}

int dp_cluster_read_workload(struct dp_fields *document, const char *path, const char *swf, uint64_t seed,
                             struct dp_cluster_case *c, struct dp_err *err)
{
    double load = read_jobs(document, path, swf, seed, c, err);

    if (load < 0)
        return -1;
    c->load = dp_cluster_load(&c->mix, c->machine.nodes);
    if (load == 0)
        return 0;
    c->load_before = c->load;
    if (dp_cluster_set_load(&c->mix, c->machine.nodes, load, err) < 0)
        return dp_err_prefix(err, "workload.load");
    c->load = dp_cluster_load(&c->mix, c->machine.nodes);
    return 0;
}
