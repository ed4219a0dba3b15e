/* SPDX-License-Identifier: BSD-3-Clause */
/* See read.h. A trace begins with {"trace": 1, ...} in its first line; a graph of costs is a JSON object with
 * "nodes", a profile is no JSON and has " -- " in it; all else is taken for a description. */
#include "policies/sim/case/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file/slurp.h"
#include "policies/sim/case/read_graph.h"

struct text {
    char *data; /* NUL behind the last byte */
    size_t bytes;
};

static bool is_trace(const struct text *t)
{
    const char *end = memchr(t->data, '\n', t->bytes);
    json_t *first = json_loadb(t->data, end ? (size_t)(end - t->data) : t->bytes, JSON_REJECT_DUPLICATES, NULL);
    bool is = json_object_get(first, "trace") != NULL;

    json_decref(first);
    return is;
}

static int read_description(const char *path, const struct text *t, const struct dp_sim_override *with, struct dp_sim_case *out,
                            struct dp_err *err)
{
    json_error_t at;
    json_t *document = json_loadb(t->data, t->bytes, JSON_REJECT_DUPLICATES, &at);
    int rc;

    if (!document && strchr("{[", t->data[strspn(t->data, " \t\r\n")]) == NULL && strstr(t->data, " -- "))
        return dp_sim_read_graph(path, t->data, t->bytes, with, out, err);
    if (!document)
        return dp_err_set(err, DP_EINVAL, "%s:%d: %s", path, at.line, at.text);
    if (json_object_get(document, "nodes")) {
        json_decref(document);
        return dp_sim_read_graph(path, t->data, t->bytes, with, out, err);
    }
    rc = dp_sim_read_model(document, with, out, err) < 0 ? dp_err_prefix(err, "%s", path) : 0;
    json_decref(document);
    return rc;
}

/* Every layout of the file gives way to what the policy finds, whenever costs or layout change. */
static int use_policy(const struct dp_sim_override *with, struct dp_sim_case *c, struct dp_err *err)
{
    const char *policy = with->policy;

    if (strlen(policy) >= sizeof c->policy)
        return dp_err_set(err, DP_EINVAL, "unknown policy '%.64s'", policy);
    c->own = with->own;
    c->own_state = with->own_state;
    free(c->count);
    c->count = NULL;
    snprintf(c->policy, sizeof c->policy, "%s", policy);
    for (uint32_t i = 0; i < c->n_events; i++) {
        struct dp_sim_event *e = &c->event[i];

        if (!e->has_density && !e->layer && !e->count && !e->policy[0])
            continue;
        free(e->count);
        e->count = NULL;
        e->n_count = 0;
        snprintf(e->policy, sizeof e->policy, "%s", policy);
        e->measured_ns = 0;
    }
    return 0;
}

void dp_sim_override_shape(const struct dp_sim_override *with, struct dp_sim_case *c)
{
    c->devices = with->devices ? with->devices : c->devices;
    c->chunks = with->chunks ? with->chunks : c->chunks;
    c->microbatches = with->microbatches ? with->microbatches : c->microbatches;
    c->replicas = with->replicas ? with->replicas : c->replicas;
    c->buckets = with->buckets ? with->buckets : c->buckets;
}

/* What is known of one link only holds for those between nodes, too. */
static void place_on_nodes(uint32_t devices_per_node, struct dp_sim_case *c)
{
    if (!c->devices_per_node && !c->between.latency_ns && !(c->between.bytes_per_s > 0))
        c->between = c->inside;
    c->devices_per_node = devices_per_node;
}

static void shorten(uint64_t iterations, struct dp_sim_case *c)
{
    c->iterations = iterations;
    while (c->n_events && c->event[c->n_events - 1].iteration > iterations) {
        struct dp_sim_event *e = &c->event[--c->n_events];

        free(e->densities);
        free(e->layer);
        free(e->count);
    }
}

static int change(const struct dp_sim_override *with, const char *path, struct dp_sim_case *c, struct dp_err *err)
{
    if (dp_sim_case_check(c, err) == 0 && with->change(with->change_arg, c, err) == 0)
        return 0;
    return dp_err_prefix(err, "%s", path);
}

static int read_texts(uint32_t n, char *const path[], const struct text *text, const struct dp_sim_override *with,
                      struct dp_sim_case *out, struct dp_err *err)
{
    struct dp_sim_trace_text *trace;
    int rc;

    if (!is_trace(&text[0])) {
        if (n > 1)
            return dp_err_set(err, DP_EINVAL, "%s: is not a trace, and only traces can be given together", path[0]);
        return read_description(path[0], &text[0], with, out, err);
    }
    trace = calloc(n, sizeof *trace);
    if (!trace)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        trace[i] = (struct dp_sim_trace_text){path[i], text[i].data, text[i].bytes};
    rc = dp_sim_read_trace(n, trace, with, out, err);
    free(trace);
    return rc;
}

int dp_sim_read(uint32_t n, char *const path[], const struct dp_sim_override *with, struct dp_sim_case *out, struct dp_err *err)
{
    struct text *text = calloc(n ? n : 1, sizeof *text);
    int rc = 0;

    memset(out, 0, sizeof *out);
    if (!text)
        return dp_err_set(err, DP_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = dp_slurp_text(path[i], DP_SIM_MAX_FILE_BYTES, &text[i].data, &text[i].bytes, err);
    if (rc == 0)
        rc = n ? read_texts(n, path, text, with, out, err) : dp_err_set(err, DP_EINVAL, "no file");
    if (rc == 0 && with && with->devices_per_node)
        place_on_nodes(with->devices_per_node, out);
    if (rc == 0 && with && with->iterations)
        shorten(with->iterations, out);
    if (rc == 0 && with && with->change)
        rc = change(with, path[0], out, err);
    if (rc == 0 && with && with->policy)
        rc = use_policy(with, out, err);
    if (rc == 0)
        rc = dp_sim_case_check(out, err) < 0 ? dp_err_prefix(err, "%s", path[0]) : 0;
    if (rc < 0)
        dp_sim_case_release(out);
    for (uint32_t i = 0; i < n; i++)
        free(text[i].data);
    free(text);
    return rc;
}
