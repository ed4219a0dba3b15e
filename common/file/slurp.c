/* SPDX-License-Identifier: BSD-3-Clause */
/* See slurp.h. The size is not asked for: a pipe has none, and a file may grow. */
#include "common/file/slurp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_all(int fd, const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err)
{
    size_t room = 0;
    ssize_t n;

    for (*bytes = 0;; *bytes += (size_t)n) {
        if (*bytes == room) {
            char *more = realloc(*text, (room = room ? 2 * room : 65536) + 1);

            if (!more)
                return dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
            *text = more;
        }
        do
            n = read(fd, *text + *bytes, room - *bytes);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        if (n == 0)
            break;
        if (*bytes + (size_t)n > most_bytes)
            return dp_err_set(err, DP_EINVAL, "%s: larger than %zu MiB", path, most_bytes >> 20);
    }
    (*text)[*bytes] = '\0';
    return 0;
}

static int check_blank(const char *name, const char *text, size_t bytes, struct dp_err *err)
{
    size_t at = 0;

    while (at < bytes && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
        at++;
    return at < bytes ? 0 : dp_err_set(err, DP_EINVAL, "%s: the file is empty", name);
}

int dp_text_check(const char *name, const char *text, size_t bytes, struct dp_err *err)
{
    if (check_blank(name, text, bytes, err) < 0)
        return -1;
    if (bytes >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2)) && memchr(text, '\0', bytes))
        return dp_err_set(err, DP_EINVAL, "%s: this is UTF-16 text: save it as UTF-8", name);
    return memchr(text, '\0', bytes) ? dp_err_set(err, DP_EINVAL, "%s: a NUL byte: this is not a text file", name) : 0;
}

size_t dp_text_skip_mark(char *text, size_t bytes)
{
    static const char mark[] = "\xef\xbb\xbf";

    if (bytes < 3 || memcmp(text, mark, 3) != 0)
        return bytes;
    memmove(text, text + 3, bytes - 3 + 1); /* and the NUL behind it */
    return bytes - 3;
}

typedef int check_fn(const char *name, const char *text, size_t bytes, struct dp_err *err);

/* has_mark: a byte order mark at the beginning is no part of the text. */
static int slurp(const char *path, size_t most_bytes, bool has_mark, check_fn *check, char **text, size_t *bytes,
                 struct dp_err *err)
{
    bool is_stdin = !strcmp(path, "-");
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), rc;

    *text = NULL;
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (is_stdin)
        path = "stdin";
    rc = read_all(fd, path, most_bytes, text, bytes, err);
    if (rc == 0 && has_mark)
        *bytes = dp_text_skip_mark(*text, *bytes);
    if (rc == 0)
        rc = check(path, *text, *bytes, err);
    if (!is_stdin)
        close(fd);
    if (rc < 0) {
        free(*text);
        *text = NULL;
    }
    return rc;
}

int dp_slurp(const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err)
{
    return slurp(path, most_bytes, false, check_blank, text, bytes, err);
}

int dp_slurp_text(const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err)
{
    return slurp(path, most_bytes, true, dp_text_check, text, bytes, err);
}
