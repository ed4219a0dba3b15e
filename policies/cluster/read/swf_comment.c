/* SPDX-License-Identifier: BSD-3-Clause */
/* See swf_comment.h. */
#include "policies/cluster/read/swf_comment.h"

#include <string.h>

bool dp_swf_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

void dp_swf_comment_split(const char *p, const char *end, struct dp_swf_comment *out)
{
    const char *colon = memchr(p, ':', (size_t)(end - p));

    *out = (struct dp_swf_comment){0};
    while (p < end && (dp_swf_is_blank(*p) || *p == ';'))
        p++;
    if (!colon || colon < p)
        return;
    out->key = p;
    out->key_bytes = (size_t)(colon - p);
    while (end > colon + 1 && dp_swf_is_blank(end[-1]))
        end--;
    for (out->value = colon + 1; out->value < end && dp_swf_is_blank(*out->value);)
        out->value++;
    out->value_bytes = (size_t)(end - out->value);
}

bool dp_swf_comment_is(const struct dp_swf_comment *c, const char *key)
{
    return c->key_bytes == strlen(key) && memcmp(c->key, key, c->key_bytes) == 0;
}
