/* SPDX-License-Identifier: BSD-3-Clause */
/* See fields.h. */
#include "policies/sim/case/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void dp_fields_fail(struct dp_fields *f, const char *name, const char *fmt, ...)
{
    char text[512];
    va_list args;

    if (f->is_bad)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    dp_err_set(f->err, DP_EINVAL, "%s%.64s: %s", f->path, name, text);
    f->is_bad = true;
    f->object = NULL;
}

static bool is_known(const char *name, const char *known)
{
    size_t n = strlen(name);

    for (const char *p = known; n && (p = strstr(p, name)) != NULL; p += n)
        if ((p == known || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0') && !memchr(name, ' ', n))
            return true;
    return false;
}

void dp_fields_open(struct dp_fields *f, const json_t *value, const char *path, const char *known, struct dp_err *err)
{
    const char *name;
    json_t *member;

    *f = (struct dp_fields){.object = value, .err = err};
    snprintf(f->path, sizeof f->path, "%.150s", path);
    if (!json_is_object(value)) {
        dp_fields_fail(f, *path ? "" : "the document", "expected an object {...}");
        return;
    }
    if (*path)
        snprintf(f->path, sizeof f->path, "%.150s.", path);
    json_object_foreach((json_t *)value, name, member)
    {
        if (!is_known(name, known)) {
            dp_fields_fail(f, name, "unknown; known: %s", known);
            return;
        }
    }
}

const json_t *dp_fields_get(const struct dp_fields *f, const char *name)
{
    const json_t *v = json_object_get(f->object, name);

    return json_is_null(v) ? NULL : v;
}

bool dp_fields_is_number(const json_t *value, double low, double high, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value) && *out >= low && *out <= high;
}

double dp_fields_number(struct dp_fields *f, const char *name, double low, double high, double fallback)
{
    const json_t *v = dp_fields_get(f, name);
    double out;

    if (!v) {
        if (isnan(fallback))
            dp_fields_fail(f, name, "is missing");
        return isnan(fallback) ? low : fallback;
    }
    if (!dp_fields_is_number(v, low, high, &out)) {
        dp_fields_fail(f, name, "expected a number from %g to %g", low, high);
        return low;
    }
    return out;
}

uint64_t dp_fields_count(struct dp_fields *f, const char *name, double low, double high, double fallback)
{
    double v = dp_fields_number(f, name, low, high, fallback);

    if (v != floor(v)) {
        dp_fields_fail(f, name, "expected a whole number, not %g", v);
        return (uint64_t)low;
    }
    return (uint64_t)v;
}

uint64_t dp_fields_time(struct dp_fields *f, const char *name, double ns, double fallback)
{
    return (uint64_t)llround(dp_fields_number(f, name, 0, 1e15 / ns, fallback) * ns);
}

void dp_fields_text(struct dp_fields *f, const char *name, char *out, size_t cap, const char *fallback)
{
    const json_t *v = dp_fields_get(f, name);

    out[0] = '\0';
    if (!v && fallback)
        snprintf(out, cap, "%s", fallback);
    else if (!v)
        dp_fields_fail(f, name, "is missing");
    else if (!json_is_string(v) || json_string_length(v) >= cap)
        dp_fields_fail(f, name, "expected a text of less than %zu bytes", cap);
    else
        snprintf(out, cap, "%s", json_string_value(v));
}
