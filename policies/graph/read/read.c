/* SPDX-License-Identifier: BSD-3-Clause */
/* See read.h. A file whose first visible byte is '{' is JSON; every other one is held to be a profile,
 * whose first line then has to look like one. */
#include "policies/graph/read/read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/file/slurp.h"

int dp_graph_take_time(double value, double unit_ns, const char *what, uint64_t *out, struct dp_err *err)
{
    if (!isfinite(value) || value < 0.0 || !(value * unit_ns <= (double)DP_GRAPH_MAX_NS))
        return dp_err_set(err, DP_EINVAL, "%s = %g: expected a time from 0 to %g", what, value,
                          (double)DP_GRAPH_MAX_NS / unit_ns);
    *out = (uint64_t)(value * unit_ns + 0.5);
    return 0;
}

int dp_graph_take_bytes(double value, const char *what, uint64_t *out, struct dp_err *err)
{
    if (!isfinite(value) || value < 0.0 || !(value <= (double)DP_GRAPH_MAX_BYTES))
        return dp_err_set(err, DP_EINVAL, "%s = %g: expected a size from 0 to %g bytes", what, value,
                          (double)DP_GRAPH_MAX_BYTES);
    *out = (uint64_t)(value + 0.5);
    return 0;
}

static int parse(const char *name, char *text, size_t bytes, struct dp_graph *g, struct dp_err *err)
{
    if (dp_text_check(name, text, bytes, err) < 0)
        return -1;
    if (text[strspn(text, " \t\r\n")] == '{')
        return dp_graph_parse_json(name, text, bytes, g, err);
    return dp_graph_parse_profile(name, text, bytes, g, err);
}

int dp_graph_parse(const char *name, const char *text, size_t bytes, struct dp_graph *g, struct dp_err *err)
{
    char *copy = NULL;
    int rc;

    dp_graph_init(g, DP_GRAPH_PROFILE);
    if (bytes > DP_GRAPH_MAX_FILE)
        return dp_err_set(err, DP_EINVAL, "%s: larger than %u MiB", name, DP_GRAPH_MAX_FILE >> 20);
    copy = malloc(bytes + 1);
    if (!copy)
        return dp_err_set(err, DP_ENOMEM, "%s: out of memory", name);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    rc = parse(name, copy, bytes, g, err);
    free(copy);
    return rc;
}

int dp_graph_read(const char *path, struct dp_graph *g, struct dp_err *err)
{
    char *text;
    size_t bytes;
    int rc;

    dp_graph_init(g, DP_GRAPH_PROFILE);
    if (dp_slurp(path, DP_GRAPH_MAX_FILE, &text, &bytes, err) < 0)
        return -1;
    rc = dp_graph_parse(strcmp(path, "-") ? path : "stdin", text, bytes, g, err);
    free(text);
    return rc;
}
