/* SPDX-License-Identifier: BSD-3-Clause */
/* See slice_comment.h. */
#include "config.h"

#include "daemon/child/slice_comment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OURS "dynpipe: "
#define SLICE OURS "slice of "
#define HOME OURS "home of slices"
#define BETWEEN "; "

/* Where the daemons' words begin: after the last separator, or at the very beginning. NULL: there are none. */
static const char *find_ours(const char *comment)
{
    const char *last = comment;

    for (const char *p = comment; (p = strstr(p, BETWEEN OURS)); p++)
        last = p + strlen(BETWEEN);
    return strncmp(last, OURS, strlen(OURS)) ? NULL : last;
}

/* 1 to 2^32 - 1, without a sign, blanks or zeroes in front, and nothing behind it. */
static uint32_t plain_number(const char *text)
{
    size_t n = strspn(text, "0123456789");
    unsigned long long v = n > 0 && n <= 10 && text[0] != '0' && !text[n] ? strtoull(text, NULL, 10) : 0;

    return v <= UINT32_MAX ? (uint32_t)v : 0;
}

uint32_t dp_slice_comment_home(const char *comment)
{
    const char *ours = find_ours(comment);

    return ours && !strncmp(ours, SLICE, strlen(SLICE)) ? plain_number(ours + strlen(SLICE)) : 0;
}

/* Only what a daemon may have written is replaced. */
static bool is_replaceable(const char *ours)
{
    return !strcmp(ours, HOME) || (!strncmp(ours, SLICE, strlen(SLICE)) && plain_number(ours + strlen(SLICE)));
}

bool dp_slice_comment_make(const char *old, uint32_t slice_of, char *out, size_t cap)
{
    const char *ours = find_ours(old);
    size_t kept = strlen(old);
    char words[64];
    int n;

    if (slice_of)
        snprintf(words, sizeof words, SLICE "%u", slice_of);
    else
        snprintf(words, sizeof words, HOME);
    if (ours && is_replaceable(ours))
        kept = (size_t)(ours - old) >= strlen(BETWEEN) ? (size_t)(ours - old) - strlen(BETWEEN) : 0;
    n = kept < cap ? snprintf(out, cap, "%.*s%s%s", (int)kept, old, kept ? BETWEEN : "", words) : -1;
    if (n >= 0 && (size_t)n < cap && strcmp(out, old) != 0)
        return true;
    out[0] = '\0';
    return false;
}
