/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of configuration keys, read from a libconfig file into a struct.
 *
 * Everything is parsed into a caller's fresh struct and validated whole, so a wrong file changes
 * nothing. An unknown key is an error that names the nearest known one; a value of the wrong type or
 * out of range names the range; every message begins "file:line: ". @include is refused and integers
 * are checked on their text, because libconfig 1.5 wraps them silently.
 */
#ifndef DP_COMMON_CONF_CONF_H
#define DP_COMMON_CONF_CONF_H

#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

struct stat;
struct config_t;         /* of libconfig.h, for callers that read groups of their own */
struct config_setting_t;

enum dp_conf_type { DP_CONF_INT, DP_CONF_FLOAT, DP_CONF_BOOL, DP_CONF_STRING };

struct dp_conf_key {
    const char *section, *name;
    enum dp_conf_type type;
    size_t offset;          /* of the member: int64_t, double, bool, or char[size] */
    size_t size;            /* strings: bytes of the array */
    double min, max;        /* numbers, both included */
    const char *fallback;   /* default, as text; NULL: the key is required */
    const char *choices;    /* strings: "a|b|c", NULL: any */
    const char *help;       /* one line with the unit */
};

/* Fill *out with the defaults, then with the file (path NULL: defaults only, required keys stay zero).
 * keys ends with an entry whose name is NULL. Sections not named in the table are left to `extra`,
 * a NULL-terminated list of section names that the caller reads itself (may be NULL).
 * returns: 0, or -1 with DP_EIO (cannot be read) or DP_EINVAL; *out is then unspecified. */
int dp_conf_load(const char *path, const struct dp_conf_key *keys, const char *const *extra, void *out,
                 struct dp_err *err);

/* May a file of this owner and mode be used? opened: what fstat says of it. returns 0, or -1 with why not. */
typedef int (*dp_conf_check_fn)(const char *path, const struct stat *opened, struct dp_err *err);

/* In two parts, for a file that must be checked and is read more than once: its text (the caller frees it; NULL:
 * err), and dp_conf_load() of it. text NULL: defaults only. */
char *dp_conf_read(const char *path, dp_conf_check_fn check, struct dp_err *err);
int dp_conf_load_text(const char *path, const char *text, const struct dp_conf_key *keys, const char *const *extra,
                      void *out, struct dp_err *err);

/* Set one key from "section.key=value", with the same checks; `where` begins the message. */
int dp_conf_set(const struct dp_conf_key *keys, const char *assignment, const char *where, void *out,
                struct dp_err *err);

/* Print the table as a commented libconfig file: every key with its help, range and default. */
void dp_conf_print(const struct dp_conf_key *keys, FILE *out);

/* The checked parse of a text on its own, path for messages, for the `extra` sections: out is a config_t that the caller has
 * initialised with config_init() and destroys. Integers in it are always 64-bit, never wrapped. */
int dp_conf_parse(const char *path, const char *text, struct config_t *out, struct dp_err *err);

/* Read the members of one group into *out by the table's entries whose section is `section`; members
 * that the group lacks keep what *out holds. path: for messages. The same checks as dp_conf_load. */
int dp_conf_read_group(const char *path, const struct config_setting_t *group, const char *section,
                       const struct dp_conf_key *keys, void *out, struct dp_err *err);

/* The entry of the table, or NULL. */
const struct dp_conf_key *dp_conf_find(const struct dp_conf_key *keys, const char *section,
                                       const char *name);

#endif
