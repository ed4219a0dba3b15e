/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole file in memory. */
#ifndef DP_COMMON_FILE_SLURP_H
#define DP_COMMON_FILE_SLURP_H

#include <stddef.h>

#include "common/err.h"

/* path "-" is stdin. text: = the bytes and a NUL behind them; the caller frees it.
 * returns 0, or -1 with DP_EIO (cannot be read) or DP_EINVAL (more than most_bytes, or nothing but blanks). */
int dp_slurp(const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err);

/* The same for a file of text: the byte order mark that some editors write before UTF-8 is left out, and a
 * file with a NUL byte is refused. */
int dp_slurp_text(const char *path, size_t most_bytes, char **text, size_t *bytes, struct dp_err *err);

/* What dp_slurp_text refuses, for bytes that came in another way. name: for the message.
 * returns 0, or -1 with DP_EINVAL. */
int dp_text_check(const char *name, const char *text, size_t bytes, struct dp_err *err);

/* Take the byte order mark of UTF-8 off the beginning of a text with a NUL behind it. returns: bytes left. */
size_t dp_text_skip_mark(char *text, size_t bytes);

#endif
