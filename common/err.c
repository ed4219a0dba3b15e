/* SPDX-License-Identifier: BSD-3-Clause */
/* See err.h. Texts that do not fit are cut, never overflowed: an error path must not fail itself. A path or a line of
 * the user's may be in them, so the cut is made between two characters of UTF-8: half of one would be no JSON. */
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* text was cut behind its last byte. Takes away the beginning of a character whose rest did not fit. */
static void end_whole(char *text)
{
    size_t n = strlen(text), lead = n;
    unsigned char c;

    while (lead > 0 && n - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead == 0)
        return;
    c = (unsigned char)text[--lead];
    if (c >= 0xc0 && n - lead < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u))
        text[lead] = '\0';
}

int dp_err_set(struct dp_err *err, enum dp_errcode code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    err->code = code;
    va_start(ap, fmt);
    if (vsnprintf(err->text, sizeof err->text, fmt, ap) >= (int)sizeof err->text)
        end_whole(err->text);
    va_end(ap);
    return -1;
}

int dp_err_prefix(struct dp_err *err, const char *fmt, ...)
{
    char old[sizeof err->text];
    size_t n;
    va_list ap;

    if (!err)
        return -1;
    memcpy(old, err->text, sizeof old);
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    n = strlen(err->text);
    if (snprintf(err->text + n, sizeof err->text - n, ": %s", old) >= (int)(sizeof err->text - n))
        end_whole(err->text);
    return -1;
}
