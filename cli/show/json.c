/* SPDX-License-Identifier: BSD-3-Clause */
/* See json.h. The keys of the documents belong to the daemon (daemon/coord/show/json.c); a command of
 * another version must still show what it understands. */
#include "config.h"

#include "cli/show/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/show/text.h"

/* The value at "a.b". */
static json_t *get_path(const json_t *object, char *path)
{
    json_t *v = (json_t *)object;
    char *rest = path, *name;

    while (v && (name = strsep(&rest, ".")))
        v = json_object_get(v, name);
    return json_is_null(v) ? NULL : v;
}

json_t *dp_json_get(const json_t *object, const char *names)
{
    while (*names) {
        char path[64];
        size_t n = strcspn(names, "|");
        json_t *v;

        snprintf(path, sizeof path, "%.*s", (int)n, names);
        v = get_path(object, path);
        if (v)
            return v;
        names += n + (names[n] == '|');
    }
    return NULL;
}

double dp_json_number(const json_t *object, const char *names)
{
    json_t *v = dp_json_get(object, names);

    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

uint64_t dp_json_count(const json_t *object, const char *names, uint64_t fallback)
{
    double v = dp_json_number(object, names);

    return v >= 0 && v < 9e15 ? (uint64_t)v : fallback;
}

bool dp_json_flag(const json_t *object, const char *names, bool fallback)
{
    json_t *v = dp_json_get(object, names);

    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

char *dp_json_text(char *out, size_t cap, const json_t *object, const char *names, const char *fallback)
{
    json_t *v = dp_json_get(object, names);

    if (json_is_string(v))
        return dp_text_clean(out, cap, json_string_value(v));
    if (json_is_integer(v))
        snprintf(out, cap, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, cap, "%.6g", json_real_value(v));
    else
        snprintf(out, cap, "%s", fallback);
    return out;
}

bool dp_json_is(const json_t *object, const char *names, const char *word)
{
    json_t *v = dp_json_get(object, names);

    return json_is_string(v) && !strcmp(json_string_value(v), word);
}

json_t *dp_json_list(const json_t *object, const char *names)
{
    json_t *v = dp_json_get(object, names);

    return json_is_array(v) ? v : NULL;
}

json_t *dp_json_envelope(const char *command, const char *key, json_t *value)
{
    json_t *doc = json_object(), *meta = json_object();

    json_object_del(value, "meta"); /* of the daemon's document */
    json_object_set_new(meta, "command", json_string(command));
    json_object_set_new(meta, "version", json_string(PACKAGE_VERSION));
    json_object_set_new(doc, "meta", meta);
    if (value)
        json_object_set_new(doc, key, value);
    json_object_set_new(doc, "errors", json_array());
    json_object_set_new(doc, "warnings", json_array());
    return doc;
}

void dp_json_add_error(json_t *envelope, const char *list, const char *text)
{
    char clean[1200];

    json_array_append_new(json_object_get(envelope, list),
                          json_string(dp_text_clean(clean, sizeof clean, text)));
}

void dp_json_print(const json_t *document, bool one_line)
{
    json_dumpf(document, stdout, JSON_ENSURE_ASCII | (one_line ? JSON_COMPACT : JSON_INDENT(2)));
    putchar('\n');
}
