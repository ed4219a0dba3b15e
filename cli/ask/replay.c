/* SPDX-License-Identifier: BSD-3-Clause */
/* Saved documents (fetch.h): a file with one JSON document after the other, as `dynpipe watch --json`
 * writes them, or just one. */
#include <errno.h>
#include <string.h>

#include "cli/ask/fetch.h"
#include "cli/show/json.h"
#include "cli/show/text.h"

/* What this command puts around a document with --json. */
static const char *wrapper_of(enum dp_query what)
{
    switch (what) {
    case DP_QUERY_EXPLAIN: return "explain";
    case DP_QUERY_REPORT: return "report";
    default: return "run";
    }
}

FILE *dp_replay_open(const char *path, struct dp_err *err)
{
    FILE *file;

    if (!strcmp(path, "-"))
        return stdin;
    file = fopen(path, "re");
    if (!file)
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    return file;
}

json_t *dp_replay_next(FILE *file, const char *path, bool is_first, enum dp_query what, struct dp_err *err)
{
    json_error_t bad;
    json_t *doc, *inner;
    int byte;

    *err = (struct dp_err){.code = DP_OK};
    if (!strcmp(path, "-"))
        path = "stdin";
    while ((byte = getc(file)) == ' ' || byte == '\n' || byte == '\r' || byte == '\t')
        ;
    if (byte == EOF) {
        if (ferror(file))
            dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        else if (is_first)
            dp_err_set(err, DP_EINVAL, "%s: the file is empty", path);
        return NULL;
    }
    ungetc(byte, file);
    doc = json_loadf(file, JSON_DISABLE_EOF_CHECK, &bad);
    if (!doc) {
        dp_err_set(err, DP_EPROTO, "%s: line %d: not valid JSON: %s", path, bad.line, bad.text);
        return NULL;
    }
    inner = json_object_get(doc, "meta") ? json_object_get(doc, wrapper_of(what)) : NULL;
    if (!inner && what == DP_QUERY_STATUS && json_array_size(json_object_get(doc, "runs")) == 1)
        inner = json_array_get(json_object_get(doc, "runs"), 0);
    if (!inner)
        return doc;
    json_incref(inner);
    json_decref(doc);
    return inner;
}
