/* SPDX-License-Identifier: BSD-3-Clause */
/* See costs_file.h. */
#include "config.h"

#include "policies/graph/costs/costs_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file/slurp.h"
#include "policies/graph/read/object.h"

static const char costs_format[] = "dynpipe costs", devices_format[] = "dynpipe devices";
enum { FILE_VERSION = 1 };

static int take_terms(const struct dp_object_reader *r, const char *at, const json_t *o, const char *key, double out[DP_COSTS_TERMS])
{
    const json_t *list = json_object_get(o, key);

    for (size_t i = 0; i < DP_COSTS_TERMS; i++) {
        const json_t *v = json_array_get(list, i);

        out[i] = json_number_value(v);
        if (!json_is_number(v) || json_array_size(list) != DP_COSTS_TERMS || !(fabs(out[i]) <= 1e6))
            return dp_err_set(r->err, DP_EINVAL, "%s: %s.%s: expected %d numbers from -1e6 to 1e6", r->file, at, key, DP_COSTS_TERMS);
    }
    return 0;
}

/* ---- coefficients ---- */

static int take_type(const struct dp_object_reader *r, const char *name, const json_t *o, struct dp_costs_type *t)
{
    static const char *const keys[] = {"operators", "is_free", "forward_share", "terms", "low", "high", NULL};
    static const char *const free_keys[] = {"operators", "is_free", NULL};
    char at[DP_OPERATOR_TYPE + 16];
    double operators;

    *t = (struct dp_costs_type){.is_free = json_is_true(json_object_get(o, "is_free"))};
    if (!*name || strlen(name) >= DP_OPERATOR_TYPE)
        return dp_err_set(r->err, DP_EINVAL, "%s: types: '%.40s' is not the name of a type", r->file, name);
    memcpy(t->type, name, strlen(name) + 1);
    snprintf(at, sizeof at, "types.%s", name);
    if (dp_object_check_keys(r, at, o, t->is_free ? free_keys : keys) < 0 || dp_object_real(r, at, o, "operators", 0, 1e9, &operators) < 0)
        return -1;
    t->operators = (uint32_t)operators;
    if (t->is_free)
        return 0;
    if (dp_object_real(r, at, o, "forward_share", 0, 1, &t->forward_share) < 0 || take_terms(r, at, o, "terms", t->term) < 0 ||
        take_terms(r, at, o, "low", t->low) < 0 || take_terms(r, at, o, "high", t->high) < 0)
        return -1;
    for (int i = 0; i < DP_COSTS_TERMS; i++)
        if (t->low[i] > t->high[i])
            return dp_object_fail(r, at, "low", "above high");
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct dp_costs_type *x = a, *y = b;

    return strcmp(x->type, y->type);
}

static int take_types(const struct dp_object_reader *r, const json_t *types, struct dp_costs *c)
{
    const char *name;
    json_t *v;

    if (!json_is_object(types) || json_object_size(types) == 0 || json_object_size(types) > DP_COSTS_MAX_TYPES)
        return dp_err_set(r->err, DP_EINVAL, "%s: types: expected an object with 1 to %d types", r->file, DP_COSTS_MAX_TYPES);
    json_object_foreach((json_t *)types, name, v)
    {
        if (take_type(r, name, v, &c->type[c->n_types]) < 0)
            return -1;
        c->n_types++;
    }
    qsort(c->type, c->n_types, sizeof *c->type, by_name);
    return 0;
}

static int take_roof(const struct dp_object_reader *r, const json_t *o, struct dp_costs_roof *roof)
{
    static const char *const keys[] = {"flops_per_s", "bytes_per_s", "launch_s", NULL};

    return dp_object_check_keys(r, "profiled", o, keys) < 0 ||
                   dp_object_real(r, "profiled", o, "flops_per_s", 1, 1e18, &roof->flops_per_s) < 0 ||
                   dp_object_real(r, "profiled", o, "bytes_per_s", 1, 1e18, &roof->bytes_per_s) < 0 ||
                   dp_object_real(r, "profiled", o, "launch_s", 1e-10, 1, &roof->launch_s) < 0
               ? -1
               : 0;
}

static int take_error(const struct dp_object_reader *r, const char *key, const json_t *held_out, struct dp_costs_error *e)
{
    static const char *const keys[] = {"mean", "median", "worst", NULL};
    const json_t *o = json_object_get(held_out, key);
    char at[48];

    snprintf(at, sizeof at, "held_out.%s", key);
    return dp_object_check_keys(r, at, o, keys) < 0 || dp_object_real(r, at, o, "mean", 0, 1e9, &e->mean) < 0 ||
                   dp_object_real(r, at, o, "median", 0, 1e9, &e->median) < 0 || dp_object_real(r, at, o, "worst", 0, 1e9, &e->worst) < 0
               ? -1
               : 0;
}

static int take_held_out(const struct dp_object_reader *r, const json_t *o, struct dp_costs *c)
{
    static const char *const keys[] = {"questions", "roofline", "estimate", "with_measured", NULL};
    double questions;

    if (!o) /* one family alone cannot be left out */
        return 0;
    if (dp_object_check_keys(r, "held_out", o, keys) < 0 || dp_object_real(r, "held_out", o, "questions", 1, 1e9, &questions) < 0 ||
        take_error(r, "roofline", o, &c->roofline) < 0 || take_error(r, "estimate", o, &c->estimate) < 0 ||
        take_error(r, "with_measured", o, &c->with_measured) < 0)
        return -1;
    c->n_questions = (uint32_t)questions;
    return 0;
}

int dp_costs_parse(const char *name, const char *text, size_t bytes, struct dp_costs *c, struct dp_err *err)
{
    static const char *const keys[] = {"format", "version", "source", "licence", "profiled", "types", "held_out", NULL};
    struct dp_err own;
    const struct dp_object_reader r = {name, err ? err : &own};
    json_t *doc;
    int rc = -1;

    memset(c, 0, sizeof *c);
    doc = dp_object_load(&r, text, bytes, DP_COSTS_MAX_FILE, costs_format, FILE_VERSION);
    if (doc && dp_object_check_keys(&r, "", doc, keys) == 0 && dp_object_text(&r, "", doc, "source", sizeof c->source, c->source) == 0 &&
        dp_object_text(&r, "", doc, "licence", sizeof c->licence, c->licence) == 0 &&
        take_roof(&r, json_object_get(doc, "profiled"), &c->profiled) == 0 && take_types(&r, json_object_get(doc, "types"), c) == 0 &&
        take_held_out(&r, json_object_get(doc, "held_out"), c) == 0)
        rc = 0;
    json_decref(doc);
    return rc;
}

int dp_costs_read(const char *path, struct dp_costs *c, struct dp_err *err)
{
    size_t bytes;
    char *text;
    int rc;

    memset(c, 0, sizeof *c);
    if (dp_slurp(path, DP_COSTS_MAX_FILE, &text, &bytes, err) < 0)
        return -1;
    rc = dp_costs_parse(path, text, bytes, c, err);
    free(text);
    return rc;
}

/* Six digits: more say nothing, and the last ones of a logarithm are another library's. */
static json_t *real(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.6g", v);
    return json_real(strtod(text, NULL));
}

static json_t *terms(const double term[DP_COSTS_TERMS])
{
    json_t *list = json_array();

    for (int i = 0; i < DP_COSTS_TERMS; i++)
        json_array_append_new(list, real(term[i]));
    return list;
}

static json_t *error_json(const struct dp_costs_error *e)
{
    return json_pack("{s:o, s:o, s:o}", "mean", real(e->mean), "median", real(e->median), "worst", real(e->worst));
}

json_t *dp_costs_json(const struct dp_costs *c)
{
    json_t *types = json_object();

    for (uint32_t i = 0; i < c->n_types; i++) {
        const struct dp_costs_type *t = &c->type[i];

        json_object_set_new(types, t->type,
                            t->is_free ? json_pack("{s:I, s:b}", "operators", (json_int_t)t->operators, "is_free", 1)
                                       : json_pack("{s:I, s:o, s:o, s:o, s:o}", "operators", (json_int_t)t->operators, "forward_share",
                                                   real(t->forward_share), "terms", terms(t->term), "low", terms(t->low), "high",
                                                   terms(t->high)));
    }
    return json_pack("{s:s, s:i, s:s, s:s, s:{s:o, s:o, s:o}, s:o*, s:o}", "format", costs_format, "version", FILE_VERSION,
                     "source", c->source, "licence", c->licence, "profiled", "flops_per_s", real(c->profiled.flops_per_s), "bytes_per_s",
                     real(c->profiled.bytes_per_s), "launch_s", real(c->profiled.launch_s), "held_out",
                     c->n_questions ? json_pack("{s:I, s:o, s:o, s:o}", "questions", (json_int_t)c->n_questions, "roofline",
                                                error_json(&c->roofline), "estimate", error_json(&c->estimate), "with_measured",
                                                error_json(&c->with_measured))
                                    : NULL,
                     "types", types);
}

/* ---- devices ---- */

static int take_rates(const struct dp_object_reader *r, const char *at, const json_t *o, struct dp_costs_device *d)
{
    const char *precision;
    json_t *v;

    if (!json_is_object(o) || json_object_size(o) == 0 || json_object_size(o) > DP_COSTS_DEVICE_RATES)
        return dp_err_set(r->err, DP_EINVAL, "%s: %s.flops_per_s: expected an object with 1 to %d rates", r->file, at,
                          DP_COSTS_DEVICE_RATES);
    json_object_foreach((json_t *)o, precision, v)
    {
        if (!*precision || strlen(precision) >= sizeof d->rate->precision)
            return dp_err_set(r->err, DP_EINVAL, "%s: %s.flops_per_s: '%.40s' is not a precision", r->file, at, precision);
        memcpy(d->rate[d->n_rates].precision, precision, strlen(precision) + 1);
        if (dp_object_real(r, at, o, precision, 1, 1e18, &d->rate[d->n_rates].flops_per_s) < 0)
            return -1;
        d->n_rates++;
    }
    return 0;
}

static int take_device(const struct dp_object_reader *r, const char *at, const json_t *o, struct dp_costs_device *d)
{
    static const char *const keys[] = {"name", "title", "source", "is_measured", "flops_per_s", "bytes_per_s", "launch_s",
                                       "flops_share", "bytes_share", "memory_bytes", NULL};
    double bytes;

    memset(d, 0, sizeof *d);
    if (dp_object_check_keys(r, at, o, keys) < 0 || dp_object_text(r, at, o, "name", sizeof d->name, d->name) < 0 ||
        dp_object_text(r, at, o, "title", sizeof d->title, d->title) < 0 ||
        dp_object_text(r, at, o, "source", sizeof d->source, d->source) < 0 ||
        take_rates(r, at, json_object_get(o, "flops_per_s"), d) < 0 ||
        dp_object_real(r, at, o, "bytes_per_s", 1, 1e18, &d->bytes_per_s) < 0 ||
        dp_object_real(r, at, o, "launch_s", 1e-10, 1, &d->launch_s) < 0 ||
        dp_object_real(r, at, o, "flops_share", 1e-3, 1, &d->flops_share) < 0 ||
        dp_object_real(r, at, o, "bytes_share", 1e-3, 1, &d->bytes_share) < 0)
        return -1;
    if (!json_is_boolean(json_object_get(o, "is_measured")))
        return dp_object_fail(r, at, "is_measured", "expected true or false");
    d->is_measured = json_is_true(json_object_get(o, "is_measured"));
    if (json_object_get(o, "memory_bytes")) {
        if (dp_object_real(r, at, o, "memory_bytes", 1, 1e18, &bytes) < 0)
            return -1;
        d->memory_bytes = (uint64_t)bytes;
    }
    if (strpbrk(d->name, "/:"))
        return dp_object_fail(r, at, "name", "without '/' and ':'");
    return 0;
}

int dp_costs_device_parse(const char *name, const char *text, size_t bytes, dp_costs_device_fn each, void *arg,
                          struct dp_err *err)
{
    static const char *const keys[] = {"format", "version", "note", "devices", NULL};
    struct dp_err own;
    const struct dp_object_reader r = {name, err ? err : &own};
    json_t *doc = dp_object_load(&r, text, bytes, DP_COSTS_MAX_FILE, devices_format, FILE_VERSION);
    json_t *list = json_object_get(doc, "devices"), *v;
    int rc = doc ? dp_object_check_keys(&r, "", doc, keys) : -1;
    size_t i;

    if (rc == 0 && json_array_size(list) == 0)
        rc = dp_object_fail(&r, "", "devices", "expected an array with a device");
    json_array_foreach(list, i, v)
    {
        struct dp_costs_device d;
        char at[32];

        snprintf(at, sizeof at, "devices[%zu]", i);
        if (rc == 0)
            rc = take_device(&r, at, v, &d);
        if (rc == 0)
            each(arg, &d);
    }
    json_decref(doc);
    return rc;
}

int dp_costs_device_each(const char *path, dp_costs_device_fn each, void *arg, struct dp_err *err)
{
    size_t bytes;
    char *text;
    int rc;

    if (dp_slurp(path, DP_COSTS_MAX_FILE, &text, &bytes, err) < 0)
        return -1;
    rc = dp_costs_device_parse(path, text, bytes, each, arg, err);
    free(text);
    return rc;
}

struct search {
    const char *name; /* NULL: the first */
    size_t length;    /* of name */
    bool is_found;
    struct dp_costs_device *out;
    char known[512];
};

static void look(void *arg, const struct dp_costs_device *d)
{
    struct search *s = arg;
    size_t n = strlen(s->known);

    snprintf(s->known + n, sizeof s->known - n, "%s%s", n ? ", " : "", d->name);
    if (s->is_found || (s->name && (strlen(d->name) != s->length || strncmp(d->name, s->name, s->length) != 0)))
        return;
    *s->out = *d;
    s->is_found = true;
}

static int take_rate(const char *wanted, const struct dp_costs_device *d, const char **precision, struct dp_costs_roof *roof,
                     struct dp_err *err)
{
    char known[DP_COSTS_DEVICE_RATES * 20] = "";
    uint32_t i = 0;

    while (wanted && i < d->n_rates && strcmp(d->rate[i].precision, wanted) != 0) {
        size_t n = strlen(known);

        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", d->rate[i].precision);
        i++;
    }
    if (i == d->n_rates)
        return dp_err_set(err, DP_EINVAL, "device %s has no rate '%.40s'; it has %s", d->name, wanted, known);
    *precision = d->rate[i].precision;
    *roof = (struct dp_costs_roof){d->rate[i].flops_per_s * d->flops_share, d->bytes_per_s * d->bytes_share, d->launch_s};
    return 0;
}

int dp_costs_device_find(const char *path, const char *wanted, struct dp_costs_device *out, const char **precision,
                         struct dp_costs_roof *roof, struct dp_err *err)
{
    const char *slash = strrchr(wanted, '/'), *colon = strchr(slash ? slash : wanted, ':');
    struct search s = {.name = slash ? NULL : wanted, .length = colon ? (size_t)(colon - wanted) : strlen(wanted), .out = out};
    char *own = slash ? strndup(wanted, s.length) : NULL;
    int rc;

    if (slash && !own)
        return dp_err_set(err, DP_ENOMEM, "device: out of memory");
    rc = dp_costs_device_each(own ? own : path, look, &s, err);
    free(own);
    if (rc < 0)
        return -1;
    if (!s.is_found)
        return dp_err_set(err, DP_EINVAL, "unknown device '%.*s'; known: %s; ./FILE: your own", (int)(s.length < 40 ? s.length : 40),
                          wanted, s.known);
    return take_rate(colon ? colon + 1 : NULL, out, precision, roof, err);
}
