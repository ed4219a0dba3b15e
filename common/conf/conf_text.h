/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of common/conf/conf.c: the text of a configuration file before libconfig sees it. */
#ifndef DP_COMMON_CONF_CONF_TEXT_H
#define DP_COMMON_CONF_CONF_TEXT_H

#include <stddef.h>

#include "common/conf/conf.h"
#include "common/err.h"

/* The whole file as a NUL-terminated string that the caller frees; NULL and err ("path: ...") when it
 * cannot be read, is not a regular file, is larger than 1 MiB, is empty, or holds a NUL byte. */
char *dp_conf_text_read(const char *path, struct dp_err *err);

/* The same, if `check` (NULL: none) takes the file that was opened: what is looked at is what is read. */
char *dp_conf_text_read_checked(const char *path, dp_conf_check_fn check, struct dp_err *err);

/* A copy of `text` in which every integer carries the suffix L, so that libconfig reads it as 64 bits;
 * the caller frees it. NULL and err ("path:line: ...") for an integer beyond 64 bits, a number beyond
 * a double, and @include. */
char *dp_conf_text_widen(const char *path, const char *text, struct dp_err *err);

/* The first token at p or behind it, over blanks and comments: a name, a number, a string with its
 * quotes, or one byte. *bytes: its length. NULL: none is left. */
const char *dp_conf_text_token(const char *p, size_t *bytes);

#endif
