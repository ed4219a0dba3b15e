/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of a configuration file before libconfig sees it (conf_text.h).
 *
 * libconfig 1.5, which Debian 12 has, reads "3000000000" as -1294967296 and "1e9999" as infinity and
 * says nothing; it also opens whatever @include names. So the text is scanned once with libconfig's
 * own lexical rules (comments: # // and C; strings with backslashes, names, numbers): numbers are
 * checked, integers get the suffix L that makes libconfig read 64 bits, @include is refused. Lines
 * stay lines, so libconfig's line numbers hold for the file as it was written.
 */
#include "common/conf/conf_text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file/slurp.h"

#define MAX_FILE_BYTES (1 << 20) /* nobody writes a configuration of 1 MiB: it is the wrong file */

static int read_all(int fd, char *buf, size_t bytes)
{
    size_t got = 0;

    while (got < bytes) {
        ssize_t n = read(fd, buf + got, bytes - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = EIO; /* it shrank while we read it */
            return -1;
        }
        got += (size_t)n;
    }
    return 0;
}

char *dp_conf_text_read(const char *path, struct dp_err *err)
{
    return dp_conf_text_read_checked(path, NULL, err);
}

char *dp_conf_text_read_checked(const char *path, dp_conf_check_fn check, struct dp_err *err)
{
    char *text = NULL;
    struct stat st;
    int fd = -1;

    if (!*path) {
        dp_err_set(err, DP_EINVAL, "the name of the configuration file is empty");
        return NULL;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE_BYTES) {
        dp_err_set(err, DP_EINVAL, "%s: %s", path,
                   S_ISREG(st.st_mode) ? "larger than 1 MiB: not a configuration file" : "not a regular file");
        goto out;
    }
    if (check && check(path, &st, err) < 0)
        goto out;
    text = calloc(1, (size_t)st.st_size + 1);
    if (!text || read_all(fd, text, (size_t)st.st_size) < 0) {
        dp_err_set(err, text ? DP_EIO : DP_ENOMEM, "%s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        size_t bytes = dp_text_skip_mark(text, (size_t)st.st_size);

        if (dp_text_check(path, text, bytes, err) < 0) {
            free(text);
            text = NULL;
        }
    }
out:
    if (fd >= 0)
        close(fd);
    return text;
}

/* A byte of a libconfig name (digits and '-' not at its beginning). */
static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '*';
}

/* Length of what starts at p and must be copied as it is: a comment, a string, a name, or one byte. */
static size_t plain_length(const char *p)
{
    const char *end;

    if (*p == '#' || (p[0] == '/' && p[1] == '/'))
        return strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*') {
        end = strstr(p + 2, "*/");
        return end ? (size_t)(end + 2 - p) : strlen(p);
    }
    if (*p == '"') {
        for (end = p + 1; *end && *end != '"'; end++)
            if (*end == '\\' && end[1])
                end++;
        return (size_t)(end - p) + (*end == '"');
    }
    if (!is_name(*p) || *p == '-')
        return 1;
    for (end = p + 1; is_name(*end); end++)
        ;
    return (size_t)(end - p);
}

/* A string or comment that the text ends in? libconfig says so only vaguely, and loses memory. */
static const char *unfinished(const char *p, size_t n)
{
    if (*p == '"') {
        size_t back = 0; /* backslashes before the last byte: an odd number makes a quote part of the text */

        while (n > 2 + back && p[n - 2 - back] == '\\')
            back++;
        return n > 1 && p[n - 1] == '"' && back % 2 == 0 ? NULL : "string";
    }
    if (p[0] == '/' && p[1] == '*')
        return n >= 4 && !memcmp(p + n - 2, "*/", 2) ? NULL : "comment";
    return NULL;
}

static bool starts_number(const char *p)
{
    p += *p == '-' || *p == '+';
    return isdigit((unsigned char)*p) || (*p == '.' && isdigit((unsigned char)p[1]));
}

/* One number at p of *used bytes. *integer: it takes the suffix. */
static int check_number(const char *p, size_t *used, bool *integer, struct dp_err *err)
{
    size_t sign = *p == '-' || *p == '+', n = sign;
    bool hex = p[n] == '0' && (p[n + 1] == 'x' || p[n + 1] == 'X');
    char *end;

    n += hex ? 2 : 0;
    while (hex ? isxdigit((unsigned char)p[n]) : isdigit((unsigned char)p[n]))
        n++;
    *integer = hex || !strchr(".eE", p[n]) || !p[n];
    errno = 0;
    if (*integer) {
        strtoll(p, &end, hex ? 16 : 10);
        *used = n;
        if (errno == ERANGE)
            return dp_err_set(err, DP_EINVAL, "%.*s does not fit into 64 bits", (int)(n > 60 ? 60 : n), p);
        return 0;
    }
    if (!isfinite(strtod(p, &end)))
        return dp_err_set(err, DP_EINVAL, "%.*s is too large for a number",
                          (int)(end - p > 60 ? 60 : end - p), p);
    *used = (size_t)(end - p);
    return 0;
}

/* Length of the token at p, blanks and comments being tokens, too. */
static size_t token_length(const char *p)
{
    struct dp_err ignored;
    bool integer;
    size_t n;

    if (!starts_number(p))
        return plain_length(p);
    return check_number(p, &n, &integer, &ignored) == 0 ? n + strspn(p + n, "L") : 1;
}

static bool is_blank_or_comment(const char *p)
{
    return *p == '#' || (p[0] == '/' && (p[1] == '/' || p[1] == '*')) || isspace((unsigned char)*p);
}

const char *dp_conf_text_token(const char *p, size_t *bytes)
{
    while (*p && is_blank_or_comment(p))
        p += plain_length(p);
    *bytes = *p ? token_length(p) : 0;
    return *p ? p : NULL;
}

char *dp_conf_text_widen(const char *path, const char *text, struct dp_err *err)
{
    char *out = malloc(2 * strlen(text) + 1), *w = out;
    unsigned line = 1;

    if (!out) {
        dp_err_set(err, DP_ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    for (const char *p = text; *p;) {
        size_t n = 0;
        bool integer = false;

        if (*p == '@') {
            dp_err_set(err, DP_EINVAL, "%s:%u: @include is not allowed here", path, line);
            goto fail;
        }
        if (!starts_number(p)) {
            n = plain_length(p);
            if (unfinished(p, n)) {
                dp_err_set(err, DP_EINVAL, "%s:%u: unterminated %s", path, line, unfinished(p, n));
                goto fail;
            }
        } else if (check_number(p, &n, &integer, err) < 0) {
            dp_err_prefix(err, "%s:%u", path, line);
            goto fail;
        }
        for (size_t i = 0; i < n; i++)
            line += p[i] == '\n';
        memcpy(w, p, n);
        w += n;
        p += n;
        if (integer) {
            *w++ = 'L';
            p += strspn(p, "L") > 2 ? 0 : strspn(p, "L");
        }
    }
    *w = '\0';
    return out;
fail:
    free(out);
    return NULL;
}
