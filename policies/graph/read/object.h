/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of one JSON object whose members are all known: descriptions and coefficients, not graphs. A member that is not known is an
 * error: it was meant to do something. Every error names the file and the place in it, "devices[3].name". */
#ifndef DP_POLICIES_GRAPH_READ_OBJECT_H
#define DP_POLICIES_GRAPH_READ_OBJECT_H

#include <jansson.h>

#include "common/err.h"

struct dp_object_reader {
    const char *file;
    struct dp_err *err; /* not NULL */
};

/* at: the place of an object, "" for the document; key: a member of it, "" for the object itself. returns -1. */
int dp_object_fail(const struct dp_object_reader *r, const char *at, const char *key, const char *text);
/* Is `o` an object with no member but these? keys ends with NULL. returns 0 or -1. */
int dp_object_check_keys(const struct dp_object_reader *r, const char *at, const json_t *o, const char *const *keys);
/* A number from low to high that must be there. returns 0 or -1. */
int dp_object_real(const struct dp_object_reader *r, const char *at, const json_t *o, const char *key, double low, double high,
                   double *out);
/* A text of 1 to cap - 1 bytes that must be there. returns 0 or -1. */
int dp_object_text(const struct dp_object_reader *r, const char *at, const json_t *o, const char *key, size_t cap, char *out);

/* The document, of at most so many bytes, whose "format" and "version" are these. returns: new reference, or NULL. */
json_t *dp_object_load(const struct dp_object_reader *r, const char *text, size_t bytes, size_t most_bytes, const char *format,
                       int version);

#endif
