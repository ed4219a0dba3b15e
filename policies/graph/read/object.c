/* SPDX-License-Identifier: BSD-3-Clause */
/* See object.h. */
#include "policies/graph/read/object.h"

#include <string.h>

#include "common/file/slurp.h"

int dp_object_fail(const struct dp_object_reader *r, const char *at, const char *key, const char *text)
{
    return dp_err_set(r->err, DP_EINVAL, "%s: %s%s%s%s%s", r->file, at, *at && *key ? "." : "", key, *at || *key ? ": " : "", text);
}

int dp_object_check_keys(const struct dp_object_reader *r, const char *at, const json_t *o, const char *const *keys)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o))
        return dp_object_fail(r, at, "", "expected an object");
    json_object_foreach((json_t *)o, key, v)
    {
        const char *const *k = keys;

        while (*k && strcmp(*k, key) != 0)
            k++;
        if (!*k)
            return dp_err_set(r->err, DP_EINVAL, "%s: %s%s'%.40s' is not known here", r->file, at, *at ? ": " : "", key);
    }
    return 0;
}

int dp_object_real(const struct dp_object_reader *r, const char *at, const json_t *o, const char *key, double low, double high,
                   double *out)
{
    const json_t *v = json_object_get(o, key);

    *out = json_number_value(v);
    if (!json_is_number(v) || !(*out >= low && *out <= high))
        return dp_err_set(r->err, DP_EINVAL, "%s: %s%s%s: expected a number from %g to %g", r->file, at, *at ? "." : "", key, low, high);
    return 0;
}

int dp_object_text(const struct dp_object_reader *r, const char *at, const json_t *o, const char *key, size_t cap, char *out)
{
    const char *text = json_string_value(json_object_get(o, key));

    if (!text || !*text || strlen(text) >= cap)
        return dp_err_set(r->err, DP_EINVAL, "%s: %s%s%s: expected a text of 1 to %zu bytes", r->file, at, *at ? "." : "", key, cap - 1);
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

json_t *dp_object_load(const struct dp_object_reader *r, const char *text, size_t bytes, size_t most_bytes, const char *format,
                       int version)
{
    json_error_t error;
    double says_version;
    const char *says;
    json_t *doc;

    if (bytes > most_bytes) {
        dp_err_set(r->err, DP_EINVAL, "%s: larger than %zu bytes", r->file, most_bytes);
        return NULL;
    }
    if (dp_text_check(r->file, text, bytes, r->err) < 0) /* jansson takes some NUL bytes for blanks */
        return NULL;
    doc = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!doc) {
        dp_err_set(r->err, DP_EINVAL, "%s:%d: %s", r->file, error.line, error.text);
        return NULL;
    }
    says = json_string_value(json_object_get(doc, "format"));
    if (!says || strcmp(says, format) != 0) {
        dp_err_set(r->err, DP_EINVAL, "%s: format: expected '%s'", r->file, format);
        json_decref(doc);
        return NULL;
    }
    if (dp_object_real(r, "", doc, "version", version, version, &says_version) < 0) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}
