/* SPDX-License-Identifier: BSD-3-Clause */
/* The members of a JSON object, read strictly: an unknown name, a wrong type and a number out of range
 * are errors that say where ("events[3].density: ..."). The first error sticks; what is read after it
 * is the fallback, so that a reader can read on and look once. */
#ifndef DP_POLICIES_SIM_CASE_FIELDS_H
#define DP_POLICIES_SIM_CASE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct dp_fields {
    const json_t *object; /* borrowed; NULL after an error */
    char path[160];       /* "" or "events[3]." */
    struct dp_err *err;
    bool is_bad;
};

/* value: must be an object whose names all stand in known (blank-separated). path: of the value, "" for
 * the document itself. */
void dp_fields_open(struct dp_fields *f, const json_t *value, const char *path, const char *known, struct dp_err *err);

/* fallback NAN: the member must be there. */
double dp_fields_number(struct dp_fields *f, const char *name, double low, double high, double fallback);
uint64_t dp_fields_count(struct dp_fields *f, const char *name, double low, double high, double fallback);
/* A time in units of `ns`, as whole nanoseconds: 0 .. 1e15. */
uint64_t dp_fields_time(struct dp_fields *f, const char *name, double ns, double fallback);
/* Copied into out[cap]; longer is an error. fallback NULL: must be there. */
void dp_fields_text(struct dp_fields *f, const char *name, char *out, size_t cap, const char *fallback);
/* NULL when missing. Borrowed. */
const json_t *dp_fields_get(const struct dp_fields *f, const char *name);
/* Note an error at a member. Only the first one is kept. */
void dp_fields_fail(struct dp_fields *f, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A JSON number within [low, high]; false: it is not. */
bool dp_fields_is_number(const json_t *value, double low, double high, double *out);

#endif
