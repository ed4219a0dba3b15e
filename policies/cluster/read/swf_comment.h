/* SPDX-License-Identifier: BSD-3-Clause */
/* Comments of workload files (swf.h): "; MaxNodes: 128". */
#ifndef DP_POLICIES_CLUSTER_READ_SWF_COMMENT_H
#define DP_POLICIES_CLUSTER_READ_SWF_COMMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Within the text that was split. A comment without a colon has neither. */
struct dp_swf_comment {
    const char *key, *value; /* without blanks around the value */
    size_t key_bytes, value_bytes;
};

/* Between the fields of a job. */
bool dp_swf_is_blank(char c);

/* p: the ';'. end: behind the last byte of the line. */
void dp_swf_comment_split(const char *p, const char *end, struct dp_swf_comment *out);
bool dp_swf_comment_is(const struct dp_swf_comment *c, const char *key);

#endif
