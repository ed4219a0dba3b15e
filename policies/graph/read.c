/* See read.h. A file whose first visible byte is '{' is JSON; every other one is held to be a profile,
 * whose first line then has to look like one. */
#include "policies/graph/read.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dp_graph_take_time(double value, double unit_ns, const char *what, uint64_t *out, struct dp_err *err)
{
    if (!isfinite(value) || value < 0.0 || !(value * unit_ns <= (double)DP_GRAPH_MAX_NS))
        return dp_err_set(err, DP_EINVAL, "%s = %g: wanted is a time from 0 to %g", what, value,
                          (double)DP_GRAPH_MAX_NS / unit_ns);
    *out = (uint64_t)(value * unit_ns + 0.5);
    return 0;
}

int dp_graph_take_bytes(double value, const char *what, uint64_t *out, struct dp_err *err)
{
    if (!isfinite(value) || value < 0.0 || !(value <= (double)DP_GRAPH_MAX_BYTES))
        return dp_err_set(err, DP_EINVAL, "%s = %g: wanted is a size from 0 to %g bytes", what, value,
                          (double)DP_GRAPH_MAX_BYTES);
    *out = (uint64_t)(value + 0.5);
    return 0;
}

static int parse(const char *name, char *text, size_t bytes, struct dp_graph *g, struct dp_err *err)
{
    size_t at = 0;

    while (at < bytes && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
        at++;
    if (at == bytes)
        return dp_err_set(err, DP_EINVAL, "%s: the file is empty", name);
    if (memchr(text, '\0', bytes))
        return dp_err_set(err, DP_EINVAL, "%s: a NUL byte: this is no text file", name);
    if (text[at] == '{')
        return dp_graph_parse_costs(name, text, bytes, g, err);
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

/* The whole of a file. returns: 0, or -1 with *out to be freed all the same. */
static int slurp(FILE *f, const char *path, char **out, size_t *bytes, struct dp_err *err)
{
    size_t room = 0;

    *bytes = 0;
    do {
        char *more;

        room = room ? 2 * room : 1u << 16;
        more = realloc(*out, room);
        if (!more)
            return dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
        *out = more;
        *bytes += fread(*out + *bytes, 1, room - *bytes, f);
    } while (*bytes == room && room <= DP_GRAPH_MAX_FILE);
    if (ferror(f))
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    return 0;
}

int dp_graph_read(const char *path, struct dp_graph *g, struct dp_err *err)
{
    bool is_stdin = !strcmp(path, "-");
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    const char *name = is_stdin ? "stdin" : path;
    char *text = NULL;
    size_t bytes;
    int rc = -1;

    dp_graph_init(g, DP_GRAPH_PROFILE);
    if (!f)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (slurp(f, name, &text, &bytes, err) == 0)
        rc = dp_graph_parse(name, text, bytes, g, err);
    free(text);
    if (!is_stdin)
        fclose(f);
    return rc;
}
