/* SPDX-License-Identifier: BSD-3-Clause */
/* Masks as portable bitmaps (mask.h). The header is the same in both formats: P1 or P4, columns, rows, with
 * white space and comments between, one white space behind. Plain pixels are the digits 0 and 1, with or
 * without white space; raw ones are bits, the first one high, and a row begins with a new byte.
 */
#include "kernels/bench/mask.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bits.h"
#include "common/file/slurp.h"

#define MAX_FILE_BYTES ((size_t)2 * BENCH_MASK_MAX) /* plain pixels with white space */

struct reader {
    const char *path;
    const unsigned char *text;
    int64_t bytes, at, line;
    struct dp_err *err;
};

/* Where in the file, and what is wrong. returns: -1. */
static int __attribute__((format(printf, 2, 3))) fail(const struct reader *r, const char *fmt, ...)
{
    char what[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return dp_err_set(r->err, DP_EINVAL, "%s, line %lld, byte %lld: %s", r->path, (long long)r->line,
                      (long long)r->at, what);
}

static int next(struct reader *r)
{
    if (r->at == r->bytes)
        return EOF;
    r->line += r->text[r->at] == '\n';
    return r->text[r->at++];
}

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next byte that is neither white space nor in a comment. */
static int skip_space(struct reader *r)
{
    bool in_comment = false;
    int c;

    do {
        c = next(r);
        in_comment = c == '#' || (in_comment && c != '\n');
    } while (c != EOF && (in_comment || is_space(c)));
    return c;
}

/* A number of the header and the white space behind it. */
static int read_side(struct reader *r, const char *name, int64_t *out)
{
    int c = skip_space(r);

    if (c < '0' || c > '9')
        return fail(r, "no number of %s", name);
    for (*out = 0; c >= '0' && c <= '9'; c = next(r)) {
        *out = *out * 10 + (c - '0');
        if (*out > BENCH_MASK_MAX_SIDE)
            return fail(r, "more than %d %s", BENCH_MASK_MAX_SIDE, name);
    }
    if (!is_space(c))
        return fail(r, "no white space behind the number of %s", name);
    return *out > 0 ? 0 : fail(r, "no %s", name);
}

static int read_plain(struct reader *r, struct bench_mask *m)
{
    const int64_t n = m->rows * m->cols;
    int64_t i = 0;
    int c;

    while ((c = next(r)) != EOF) {
        if (is_space(c))
            continue;
        if (c != '0' && c != '1')
            return fail(r, "a byte 0x%02x where a pixel is 0 or 1", (unsigned)c);
        if (i == n)
            return fail(r, "more than %lld pixels", (long long)n);
        if (c == '1')
            dp_bits_set(m->keep, i);
        i++;
    }
    return i == n ? 0 : fail(r, "%lld of %lld pixels", (long long)i, (long long)n);
}

static void read_raw(const struct reader *r, struct bench_mask *m)
{
    const unsigned char *row = r->text + r->at;

    for (int64_t i = 0; i < m->rows; i++, row += (m->cols + 7) / 8)
        for (int64_t j = 0; j < m->cols; j++)
            if (row[j / 8] >> (7 - j % 8) & 1)
                dp_bits_set(m->keep, i * m->cols + j);
}

static int read_picture(struct reader *r, struct bench_mask *m)
{
    bool is_raw = r->bytes > 1 && r->text[1] == '4';
    int64_t left, want;

    if (next(r) != 'P' || (next(r) != '1' && !is_raw))
        return fail(r, "begins with neither P1 nor P4, so this is not a bitmap");
    if (read_side(r, "columns", &m->cols) < 0 || read_side(r, "rows", &m->rows) < 0)
        return -1;
    if (m->rows * m->cols > BENCH_MASK_MAX)
        return fail(r, "%lld x %lld pixels are more than %lld", (long long)m->rows, (long long)m->cols,
                    (long long)BENCH_MASK_MAX);
    left = r->bytes - r->at;
    want = is_raw ? m->rows * ((m->cols + 7) / 8) : m->rows * m->cols;
    if (left < want || (is_raw && left > want))
        return fail(r, "%lld bytes of pixels, not %lld", (long long)left, (long long)want);
    m->keep = calloc(dp_bits_words(m->rows * m->cols), sizeof *m->keep);
    if (!m->keep)
        return dp_err_set(r->err, DP_ENOMEM, "%s: no memory for %lld x %lld pixels", r->path,
                          (long long)m->rows, (long long)m->cols);
    if (!is_raw)
        return read_plain(r, m);
    read_raw(r, m);
    return 0;
}

int bench_mask_read(const char *path, struct bench_mask *out, struct dp_err *err)
{
    struct bench_mask m = {0};
    struct reader r = {.path = path, .line = 1, .err = err};
    size_t bytes;
    char *text;
    int rc;

    if (dp_slurp(path, MAX_FILE_BYTES, &text, &bytes, err) < 0)
        return -1;
    r.text = (const unsigned char *)text;
    r.bytes = (int64_t)bytes;
    rc = read_picture(&r, &m);
    free(text);
    if (rc < 0) {
        bench_mask_release(&m);
        return -1;
    }
    m.nnz = dp_bits_count(m.keep, m.rows * m.cols);
    *out = m;
    return 0;
}

static int write_picture(const struct bench_mask *m, FILE *f)
{
    const int64_t bytes = (m->cols + 7) / 8;

    fprintf(f, "P4\n%lld %lld\n", (long long)m->cols, (long long)m->rows);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t b = 0; b < bytes; b++) {
            unsigned byte = 0;

            for (int64_t j = 8 * b; j < 8 * b + 8; j++)
                byte = byte << 1 | (j < m->cols && dp_bits_get(m->keep, i * m->cols + j));
            putc((int)byte, f);
        }
    return ferror(f) ? -1 : 0;
}

int bench_mask_write(const struct bench_mask *m, const char *path, struct dp_err *err)
{
    char part[PATH_MAX]; /* half of a picture is none */
    FILE *f;
    int rc;

    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
        return dp_err_set(err, DP_EINVAL, "%.200s...: the name is too long", path);
    f = fopen(part, "wbe");
    if (!f)
        return dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
    rc = write_picture(m, f);
    if (fclose(f) != 0 || rc < 0 || rename(part, path) < 0) {
        dp_err_set(err, DP_EIO, "%s: %s", path, strerror(errno));
        unlink(part);
        return -1;
    }
    return 0;
}
