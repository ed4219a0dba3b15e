/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading documents that may lack keys, and writing those that this command prints.
 *
 * Getters take names "a|b.c": the first of the alternatives that is there, b.c being c inside of b.
 * They never fail: what is missing, null or of another type gives the fallback.
 */
#ifndef DP_CLI_SHOW_JSON_H
#define DP_CLI_SHOW_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* Borrowed; NULL when missing. */
json_t *dp_json_get(const json_t *object, const char *names);
/* NaN when missing. */
double dp_json_number(const json_t *object, const char *names);
uint64_t dp_json_count(const json_t *object, const char *names, uint64_t fallback);
bool dp_json_flag(const json_t *object, const char *names, bool fallback);
/* The text made harmless (dp_text_clean) in out[cap]; numbers are printed. returns: out. */
char *dp_json_text(char *out, size_t cap, const json_t *object, const char *names, const char *fallback);
bool dp_json_is(const json_t *object, const char *names, const char *word);
/* An array, or NULL. */
json_t *dp_json_list(const json_t *object, const char *names);

/* The envelope of --json: {"meta": {"command": ..., "version": ...}, key: value, "errors": [],
 * "warnings": []}. Takes the reference to value (NULL: no such key). New reference. */
json_t *dp_json_envelope(const char *command, const char *key, json_t *value);
void dp_json_add_error(json_t *envelope, const char *list, const char *text);

/* Print on stdout with two spaces of indent and a newline; on one line where `one_line`. */
void dp_json_print(const json_t *document, bool one_line);

#endif
