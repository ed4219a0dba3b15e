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

int dp_slurp(const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err)
{
    bool is_stdin = !strcmp(path, "-");
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), rc;

    *text = NULL;
    if (fd < 0)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    rc = read_all(fd, is_stdin ? "stdin" : path, most_bytes, text, bytes, err);
    if (!is_stdin)
        close(fd);
    if (rc < 0) {
        free(*text);
        *text = NULL;
    }
    return rc;
}
