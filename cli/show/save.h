/* SPDX-License-Identifier: BSD-3-Clause */
/* A drawing, or another text, becomes a file. */
#ifndef DP_CLI_SHOW_SAVE_H
#define DP_CLI_SHOW_SAVE_H

#include <stddef.h>

#include "common/err.h"

/* Write text to a file, all or nothing: a file of ours that was there before stays where the new one cannot be written.
 * Takes text (malloc'ed, NULL: it could not be formed). returns 0 or -1. */
int dp_show_save(const char *path, char *text, size_t bytes, struct dp_err *err);

#endif
