/* SPDX-License-Identifier: BSD-3-Clause */
/* See text.h. Everything that a daemon, a file or a user's job wrote goes through dp_text_clean()
 * before it reaches a terminal: a job name may hold escape sequences (slurm.md F10). */
#include "config.h"

#include "cli/show/text.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "common/numbers.h"

static bool is_utf8;

void dp_text_setup(bool ascii)
{
    is_utf8 = !ascii && !strcmp(nl_langinfo(CODESET), "UTF-8");
}

bool dp_text_is_utf8(void)
{
    return is_utf8;
}

/* Decode one character. returns: its bytes, 0 when they are no UTF-8 (overlong and surrogates too). */
static size_t decode(const unsigned char *p, uint32_t *out)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = *p < 0x80 ? 1 : (*p & 0xe0) == 0xc0 ? 2 : (*p & 0xf0) == 0xe0 ? 3 : (*p & 0xf8) == 0xf0 ? 4 : 0;
    uint32_t c;

    if (n < 2) {
        *out = *p;
        return n;
    }
    c = *p & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *out = c;
    return n;
}

/* Characters that a terminal acts on, or that reorder what stands next to them. */
static bool is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x061c ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

char *dp_text_clean(char *out, size_t cap, const char *in)
{
    const unsigned char *p = (const unsigned char *)in;
    size_t n = 0;

    while (*p) {
        uint32_t c;
        size_t bytes = decode(p, &c);
        bool raw = bytes && !is_unsafe(c) && (bytes == 1 || is_utf8);

        if (!bytes)
            bytes = 1;
        if (n + (raw ? bytes : 4 * bytes) + 1 > cap)
            break;
        for (size_t i = 0; i < bytes; i++) {
            if (raw)
                out[n++] = (char)p[i];
            else
                n += (size_t)snprintf(out + n, cap - n, "\\x%02x", p[i]);
        }
        p += bytes;
    }
    if (cap)
        out[n] = '\0';
    return out;
}

/* Columns of one character; what wcwidth() does not know counts as one. */
static size_t columns_of(uint32_t c)
{
    int w = c < 0x80 ? 1 : wcwidth((wchar_t)c);

    return w < 0 ? 1 : (size_t)w;
}

void dp_text_xml(FILE *out, const char *in)
{
    for (; *in; in++) {
        unsigned char c = (unsigned char)*in;

        if (c == '<' || c == '>' || c == '&' || c == '"')
            fprintf(out, "&#%u;", c);
        else if (c >= ' ' && c != 0x7f)
            fputc(c, out);
    }
}

size_t dp_text_width(const char *text)
{
    size_t columns = 0;

    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        uint32_t c;
        size_t bytes = decode(p, &c);

        columns += bytes ? columns_of(c) : 1;
        p += bytes ? bytes : 1;
    }
    return columns;
}

size_t dp_text_fit(const char *text, size_t columns)
{
    const unsigned char *p = (const unsigned char *)text;

    while (*p) {
        uint32_t c;
        size_t bytes = decode(p, &c), w = bytes ? columns_of(c) : 1;

        if (w > columns)
            break;
        columns -= w;
        p += bytes ? bytes : 1;
    }
    return (size_t)((const char *)p - text);
}

char *dp_text_count(char *out, size_t cap, double value)
{
    if (!isfinite(value))
        snprintf(out, cap, "-");
    else if (fabs(value) >= 999999.5)
        snprintf(out, cap, "%.2f M", value / 1e6);
    else if (fabs(value) >= 9999.5)
        snprintf(out, cap, "%d %03d", (int)(value + 0.5) / 1000, (int)(value + 0.5) % 1000);
    else if (value == floor(value) || fabs(value) >= 99.95)
        snprintf(out, cap, "%.0f", value);
    else
        snprintf(out, cap, "%.*f", fabs(value) >= 10 ? 1 : 2, value);
    return out;
}

char *dp_text_bytes(char *out, size_t cap, double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned u = 0;

    if (!isfinite(bytes)) {
        snprintf(out, cap, "-");
        return out;
    }
    while (bytes >= 1023.5 && u + 1 < sizeof unit / sizeof *unit) {
        bytes /= 1024;
        u++;
    }
    snprintf(out, cap, "%.*f %s", u && bytes < 9.95 ? 1 : 0, bytes, unit[u]);
    return out;
}

char *dp_text_seconds(char *out, size_t cap, double s)
{
    if (!isfinite(s))
        snprintf(out, cap, "-");
    else if (s == 0)
        snprintf(out, cap, "0 s");
    else if (fabs(s) < 0.9995)
        snprintf(out, cap, "%.*f ms", fabs(s) < 0.00995 ? 2 : fabs(s) < 0.0995 ? 1 : 0, s * 1e3);
    else if (fabs(s) < 99.95)
        snprintf(out, cap, "%.1f s", s);
    else if (s < 3600)
        snprintf(out, cap, "%d:%02d", (int)s / 60, (int)s % 60);
    else
        snprintf(out, cap, "%.0f:%02d:%02d", floor(s / 3600), (int)fmod(s, 3600) / 60, (int)fmod(s, 60));
    return out;
}

char *dp_text_percent(char *out, size_t cap, double share)
{
    if (!isfinite(share))
        snprintf(out, cap, "-");
    else
        snprintf(out, cap, "%.1f %%", 100 * share);
    return out;
}

size_t dp_text_distance(const char *a, const char *b)
{
    enum { CAP = 32 };
    uint32_t d[CAP + 1][CAP + 1];
    uint32_t n = (uint32_t)strnlen(a, CAP), m = (uint32_t)strnlen(b, CAP);

    for (uint32_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (uint32_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        for (uint32_t j = 1; j <= m; j++) {
            uint32_t changed = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            d[i][j] = dp_least_u32(dp_least_u32(d[i - 1][j], d[i][j - 1]) + 1, changed);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = dp_least_u32(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}
