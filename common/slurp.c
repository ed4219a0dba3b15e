/* See slurp.h. The size is not asked for: a pipe has none, and a file may grow. */
#include "common/slurp.h"

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
    return memchr(text, '\0', bytes) ? dp_err_set(err, DP_EINVAL, "%s: a NUL byte: this is no text file", name) : 0;
}

typedef int check_fn(const char *name, const char *text, size_t bytes, struct dp_err *err);

static int slurp(const char *path, size_t most_bytes, check_fn *check, char **text, size_t *bytes, struct dp_err *err)
{
    bool is_stdin = !strcmp(path, "-");
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), rc;

    *text = NULL;
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    if (is_stdin)
        path = "stdin";
    rc = read_all(fd, path, most_bytes, text, bytes, err);
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
    return slurp(path, most_bytes, check_blank, text, bytes, err);
}

int dp_slurp_text(const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err)
{
    return slurp(path, most_bytes, dp_text_check, text, bytes, err);
}
