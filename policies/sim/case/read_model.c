/* SPDX-License-Identifier: BSD-3-Clause */
/* A model description (doc/simulator.md, "Model description") into a case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policies/sim/case/fields.h"
#include "policies/sim/case/read.h"

#define MS 1e6 /* in ns */
#define US 1e3 /* likewise */
#define MAX_BYTES 1e15 /* 1 PB, exact in a double */
#define MAX_POINTS 4096u /* of a cost over density */
#define MAX_KINDS 4096u /* of layers; a model has three */
#define MAX_ITERATIONS 1e9 /* only those at which something changes are simulated */

static const char document_names[] =
    "name source schedule devices chunks microbatches replicas gradient_buckets tokens_per_microbatch device network kinds layers "
    "iterations layout balance events";
static const char point_names[] =
    "density forward_ms backward_input_ms backward_weight_ms optimizer_ms state_bytes activation_bytes kept_for_weights_bytes "
    "gradient_bytes output_bytes message_ms parameters";
static const char event_names[] = "iteration density layout balance devices pause_ms overhead_ms release";

static int no_memory(struct dp_err *err)
{
    return dp_err_set(err, DP_ENOMEM, "out of memory");
}

/* ---- cost table ---- */

static int read_point(const json_t *value, const char *path, struct dp_sim_point *out, struct dp_err *err)
{
    struct dp_fields f;
    struct dp_sim_layer *c = &out->cost;

    dp_fields_open(&f, value, path, point_names, err);
    out->density = dp_fields_number(&f, "density", 0, 1, 1);
    c->fwd_ns = dp_fields_time(&f, "forward_ms", MS, NAN);
    c->bwd_input_ns = dp_fields_time(&f, "backward_input_ms", MS, NAN);
    c->bwd_weight_ns = dp_fields_time(&f, "backward_weight_ms", MS, NAN);
    c->opt_ns = dp_fields_time(&f, "optimizer_ms", MS, 0);
    c->state_bytes = dp_fields_count(&f, "state_bytes", 0, MAX_BYTES, 0);
    c->act_bytes = dp_fields_count(&f, "activation_bytes", 0, MAX_BYTES, 0);
    c->wgrad_bytes = dp_fields_count(&f, "kept_for_weights_bytes", 0, (double)c->act_bytes, (double)c->act_bytes);
    c->grad_bytes = dp_fields_count(&f, "gradient_bytes", 0, MAX_BYTES, 0);
    c->output_bytes = dp_fields_count(&f, "output_bytes", 0, MAX_BYTES, 0);
    c->message_ns = dp_fields_time(&f, "message_ms", MS, 0);
    c->params = dp_fields_count(&f, "parameters", 0, MAX_BYTES, 0);
    c->nnz = (uint64_t)llround((double)c->params * out->density);
    return f.is_bad ? -1 : 0;
}

static int by_density(const void *a, const void *b)
{
    const struct dp_sim_point *p = a, *q = b;

    return (p->density > q->density) - (p->density < q->density);
}

/* One kind: a point, or an array of points. */
static int read_kind(const char *name, const json_t *value, struct dp_sim_layer_kind *out, struct dp_err *err)
{
    size_t n = json_is_array(value) ? json_array_size(value) : 1;
    char path[160];

    if (!*name || strlen(name) >= sizeof out->name)
        return dp_err_set(err, DP_EINVAL, "kinds: expected a name of 1 to %zu bytes", sizeof out->name - 1);
    snprintf(out->name, sizeof out->name, "%s", name);
    if (n < 1 || n > MAX_POINTS)
        return dp_err_set(err, DP_EINVAL, "kinds.%s: %zu points; expected 1 to %u", name, n, MAX_POINTS);
    out->point = calloc(n, sizeof *out->point);
    if (!out->point)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, json_is_array(value) ? "kinds.%s[%zu]" : "kinds.%s", name, i);
        if (read_point(json_is_array(value) ? json_array_get(value, i) : value, path, &out->point[i], err) < 0)
            return -1;
    }
    out->n_points = (uint32_t)n;
    qsort(out->point, n, sizeof *out->point, by_density);
    for (size_t i = 1; i < n; i++)
        if (!(out->point[i].density > out->point[i - 1].density))
            return dp_err_set(err, DP_EINVAL, "kinds.%s: two points with density %g", name, out->point[i].density);
    return 0;
}

static int read_kinds(struct dp_fields *f, struct dp_sim_case *c, struct dp_err *err)
{
    const json_t *kinds = dp_fields_get(f, "kinds");
    const char *name;
    json_t *value;

    if (!json_is_object(kinds) || json_object_size(kinds) < 1 || json_object_size(kinds) > MAX_KINDS) {
        dp_fields_fail(f, "kinds", "expected an object with the costs of 1 to %u kinds of layers", MAX_KINDS);
        return -1;
    }
    c->kind = calloc(json_object_size(kinds), sizeof *c->kind);
    if (!c->kind)
        return no_memory(err);
    json_object_foreach((json_t *)kinds, name, value)
    {
        if (read_kind(name, value, &c->kind[c->n_kinds++], err) < 0)
            return -1;
    }
    return 0;
}

/* ---- layers ---- */

static int find_kind(const struct dp_sim_case *c, const char *name, const char *path, uint32_t *out, struct dp_err *err)
{
    for (*out = 0; *out < c->n_kinds; ++*out)
        if (!strcmp(c->kind[*out].name, name))
            return 0;
    return dp_err_set(err, DP_EINVAL, "%s: unknown kind '%.64s' in kinds", path, name);
}

/* Element i of layers: "kind" or {"kind": ..., "count": n}. */
static int read_layer(const struct dp_sim_case *c, const json_t *value, size_t i, uint32_t *kind, uint32_t *count,
                      struct dp_err *err)
{
    char path[64], name[64];
    struct dp_fields f;

    snprintf(path, sizeof path, "layers[%zu]", i);
    *count = 1;
    if (json_is_string(value))
        return find_kind(c, json_string_value(value), path, kind, err);
    dp_fields_open(&f, value, path, "kind count", err);
    dp_fields_text(&f, "kind", name, sizeof name, NULL);
    *count = (uint32_t)dp_fields_count(&f, "count", 1, DP_SIM_MAX_LAYERS, 1);
    return f.is_bad ? -1 : find_kind(c, name, path, kind, err);
}

static int read_layers(struct dp_fields *f, struct dp_sim_case *c, struct dp_err *err)
{
    const json_t *layers = dp_fields_get(f, "layers");
    uint64_t n = 0;

    if (!json_is_array(layers)) {
        dp_fields_fail(f, "layers", "expected an array of kinds");
        return -1;
    }
    for (int filling = 0; filling < 2; filling++) {
        n = 0;
        for (size_t i = 0; i < json_array_size(layers); i++) {
            uint32_t kind, count;

            if (read_layer(c, json_array_get(layers, i), i, &kind, &count, err) < 0)
                return -1;
            for (uint32_t k = 0; filling && k < count; k++)
                c->kind_of[n + k] = kind;
            n += count;
            if (n > DP_SIM_MAX_LAYERS)
                return dp_err_set(err, DP_EINVAL, "layers: more than %u", DP_SIM_MAX_LAYERS);
        }
        if (n < 1)
            return dp_err_set(err, DP_EINVAL, "layers: there are none");
        if (!filling && !(c->kind_of = calloc(n, sizeof *c->kind_of)))
            return no_memory(err);
    }
    c->n_layers = (uint32_t)n;
    return 0;
}

/* ---- devices and network ---- */

static int read_speed(const json_t *value, struct dp_sim_case *c, struct dp_err *err)
{
    size_t all = (size_t)c->replicas * c->devices, n = json_is_array(value) ? json_array_size(value) : 1;

    if (n != 1 && n != c->devices && n != all)
        return dp_err_set(err, DP_EINVAL, "device.speed: %zu numbers; expected 1, %u (a pipeline's) or %zu (all)", n, c->devices,
                          all);
    c->speed = calloc(all, sizeof *c->speed);
    if (!c->speed)
        return no_memory(err);
    for (size_t i = 0; i < all; i++)
        if (!dp_fields_is_number(json_is_array(value) ? json_array_get(value, i % n) : value, 1e-6, 1e6, &c->speed[i]))
            return dp_err_set(err, DP_EINVAL, "device.speed: expected numbers from 1e-6 to 1e6");
    return 0;
}

static int read_tier(const struct dp_fields *parent, const char *name, const struct dp_sim_tier *fallback, struct dp_sim_tier *out,
                     struct dp_err *err)
{
    const json_t *value = dp_fields_get(parent, name);
    char path[64];
    struct dp_fields f;

    *out = *fallback;
    if (!value)
        return 0;
    snprintf(path, sizeof path, "network.%s", name);
    dp_fields_open(&f, value, path, "latency_us gb_per_s", err);
    out->latency_ns = dp_fields_time(&f, "latency_us", US, 0);
    out->bytes_per_s = dp_fields_number(&f, "gb_per_s", 1e-6, 1e9, NAN) * 1e9;
    return f.is_bad ? -1 : 0;
}

static int read_network(const json_t *value, struct dp_sim_case *c, struct dp_err *err)
{
    static const struct dp_sim_tier free_of_cost = {0, 0};
    char neighbours[16];
    struct dp_fields f;

    dp_fields_open(&f, value, "network", "devices_per_node neighbours inside between", err);
    c->devices_per_node = (uint32_t)dp_fields_count(&f, "devices_per_node", 0, DP_SIM_MAX_DEVICES, 0);
    dp_fields_text(&f, "neighbours", neighbours, sizeof neighbours, "stages");
    c->is_data_inside = !strcmp(neighbours, "replicas");
    if (!c->is_data_inside && strcmp(neighbours, "stages") != 0)
        dp_fields_fail(&f, "neighbours", "expected 'stages' or 'replicas'");
    if (f.is_bad || read_tier(&f, "inside", &free_of_cost, &c->inside, err) < 0)
        return -1;
    return read_tier(&f, "between", &c->inside, &c->between, err);
}

static int read_machine(const struct dp_fields *f, struct dp_sim_case *c, struct dp_err *err)
{
    const json_t *device = dp_fields_get(f, "device"), *network = dp_fields_get(f, "network");
    struct dp_fields d;

    if (network && read_network(network, c, err) < 0)
        return -1;
    if (!device)
        return 0;
    dp_fields_open(&d, device, "device", "speed memory_bytes", err);
    c->memory_bytes = dp_fields_count(&d, "memory_bytes", 0, MAX_BYTES, 0);
    if (d.is_bad)
        return -1;
    return dp_fields_get(&d, "speed") ? read_speed(dp_fields_get(&d, "speed"), c, err) : 0;
}

/* ---- events ---- */

static int read_counts(const json_t *value, const char *path, const struct dp_sim_case *c, uint32_t **out, uint32_t *n_out,
                       struct dp_err *err)
{
    size_t n = json_array_size(value);
    double v;

    if (!json_is_array(value) || n < 1 || n > (uint64_t)c->devices * c->chunks)
        return dp_err_set(err, DP_EINVAL, "%s: expected an array with the number of layers of each stage", path);
    *out = calloc(n, sizeof **out);
    if (!*out)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (!dp_fields_is_number(json_array_get(value, i), 0, DP_SIM_MAX_LAYERS, &v) || v != floor(v))
            return dp_err_set(err, DP_EINVAL, "%s[%zu]: expected a number of layers", path, i);
        (*out)[i] = (uint32_t)v;
    }
    *n_out = (uint32_t)n;
    return 0;
}

/* One number for all layers, or one a layer. */
static int read_density(const json_t *value, const char *path, const struct dp_sim_case *c, struct dp_sim_event *e,
                        struct dp_err *err)
{
    bool is_good = true;

    e->has_density = true;
    if (!json_is_array(value)) {
        is_good = dp_fields_is_number(value, 0, 1, &e->density);
    } else {
        if (json_array_size(value) != c->n_layers)
            return dp_err_set(err, DP_EINVAL, "%s.density: %zu numbers for %u layers", path, json_array_size(value), c->n_layers);
        e->densities = calloc(c->n_layers, sizeof *e->densities);
        if (!e->densities)
            return no_memory(err);
        for (uint32_t i = 0; i < c->n_layers; i++)
            is_good = is_good && dp_fields_is_number(json_array_get(value, i), 0, 1, &e->densities[i]);
    }
    return is_good ? 0 : dp_err_set(err, DP_EINVAL, "%s.density: expected numbers from 0 to 1", path);
}

static void read_release(struct dp_fields *f, enum dp_sim_release *out)
{
    char text[16];

    dp_fields_text(f, "release", text, sizeof text, "");
    if (!strcmp(text, "devices"))
        *out = DP_SIM_RELEASE_DEVICES;
    else if (!strcmp(text, "nodes"))
        *out = DP_SIM_RELEASE_NODES;
    else if (*text)
        dp_fields_fail(f, "release", "expected 'devices' or 'nodes'");
}

static int read_event(const json_t *value, const char *path, const struct dp_sim_case *c, struct dp_sim_event *e, struct dp_err *err)
{
    const json_t *density, *layout;
    char inner[96];
    struct dp_fields f;

    dp_fields_open(&f, value, path, event_names, err);
    e->iteration = dp_fields_count(&f, "iteration", 1, (double)c->iterations, NAN);
    e->devices = (uint32_t)dp_fields_count(&f, "devices", 1, c->devices, 0);
    e->has_pause = dp_fields_get(&f, "pause_ms") != NULL;
    e->pause_ns = dp_fields_time(&f, "pause_ms", MS, 0);
    e->overhead_ns = dp_fields_time(&f, "overhead_ms", MS, 0);
    dp_fields_text(&f, "balance", e->policy, sizeof e->policy, "");
    read_release(&f, &e->release);
    density = dp_fields_get(&f, "density");
    layout = dp_fields_get(&f, "layout");
    if (layout && e->policy[0])
        dp_fields_fail(&f, "layout", "cannot be combined with balance; use one of them");
    if (e->devices && !e->policy[0])
        dp_fields_fail(&f, "devices", "says how many devices balance may use, which is missing");
    if (f.is_bad || (density && read_density(density, path, c, e, err) < 0))
        return -1;
    snprintf(inner, sizeof inner, "%.80s.layout", path);
    return layout ? read_counts(layout, inner, c, &e->count, &e->n_count, err) : 0;
}

static int read_events(const struct dp_fields *f, struct dp_sim_case *c, struct dp_err *err)
{
    const json_t *events = dp_fields_get(f, "events");
    size_t n = json_array_size(events);
    char path[64];

    if (!events)
        return 0;
    if (!json_is_array(events))
        return dp_err_set(err, DP_EINVAL, "events: expected an array");
    c->event = calloc(n ? n : 1, sizeof *c->event);
    if (!c->event)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "events[%zu]", i);
        c->n_events = (uint32_t)i + 1;
        if (read_event(json_array_get(events, i), path, c, &c->event[i], err) < 0)
            return -1;
        if (i && c->event[i].iteration < c->event[i - 1].iteration)
            return dp_err_set(err, DP_EINVAL, "%s.iteration: %llu comes after %llu", path,
                              (unsigned long long)c->event[i].iteration, (unsigned long long)c->event[i - 1].iteration);
    }
    return 0;
}

/* ---- the document ---- */

static int read_shape(struct dp_fields *f, const struct dp_sim_override *with, struct dp_sim_case *c, struct dp_err *err)
{
    char schedule[32];

    dp_fields_text(f, "name", c->name, sizeof c->name, "");
    dp_fields_text(f, "source", c->source, sizeof c->source, NULL);
    if (!f->is_bad && !c->source[0])
        dp_fields_fail(f, "source", "is empty; say where the costs come from");
    dp_fields_text(f, "schedule", schedule, sizeof schedule, "1f1b");
    dp_fields_text(f, "balance", c->policy, sizeof c->policy, "");
    c->devices = (uint32_t)dp_fields_count(f, "devices", 1, DP_SIM_MAX_DEVICES, NAN);
    c->chunks = (uint32_t)dp_fields_count(f, "chunks", 1, DP_SIM_MAX_CHUNKS, 1);
    c->microbatches = (uint32_t)dp_fields_count(f, "microbatches", 1, DP_SIM_MAX_MICROBATCHES, NAN);
    c->replicas = (uint32_t)dp_fields_count(f, "replicas", 1, DP_SIM_MAX_DEVICES, 1);
    c->buckets = (uint32_t)dp_fields_count(f, "gradient_buckets", 1, DP_SIM_MAX_BUCKETS, 1);
    c->tokens = dp_fields_count(f, "tokens_per_microbatch", 0, 1e12, 0);
    c->iterations = dp_fields_count(f, "iterations", 1, MAX_ITERATIONS, 1);
    if (f->is_bad)
        return -1;
    if (!with || !with->schedule)
        return dp_schedule_find(schedule, &c->schedule, err) < 0 ? dp_err_prefix(err, "schedule") : 0;
    return dp_schedule_find(with->schedule, &c->schedule, err);
}

int dp_sim_read_model(const json_t *document, const struct dp_sim_override *with, struct dp_sim_case *c, struct dp_err *err)
{
    const json_t *layout;
    struct dp_fields f;

    dp_fields_open(&f, document, "", document_names, err);
    if (f.is_bad || read_shape(&f, with, c, err) < 0)
        return -1;
    if (with)
        dp_sim_override_shape(with, c);
    if (dp_sim_case_check_shape(c, err) < 0)
        return -1;
    if (read_kinds(&f, c, err) < 0 || read_layers(&f, c, err) < 0 || read_machine(&f, c, err) < 0)
        return -1;
    layout = dp_fields_get(&f, "layout");
    if (layout && c->policy[0])
        dp_fields_fail(&f, "layout", "cannot be combined with balance; use one of them");
    if (f.is_bad || (layout && read_counts(layout, "layout", c, &c->count, &c->n_count, err) < 0))
        return -1;
    return read_events(&f, c, err);
}
