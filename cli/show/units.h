/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of a document with their unit, which their key's ending names (units live in
 * names), so that a number which this command has never heard of still reads well. */
#ifndef DP_CLI_SHOW_UNITS_H
#define DP_CLI_SHOW_UNITS_H

#include <jansson.h>
#include <stddef.h>

/* Words of a key: "predicted_step_ms" -> "predicted step". */
void dp_units_label(char *out, size_t cap, const char *key);

/* "41.2 ms", "512 MiB", "3.1 %", "yes", or the clean text of a string. "" for lists and objects. */
void dp_units_value(char *out, size_t cap, const char *key, const json_t *value);

#endif
