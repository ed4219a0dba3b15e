/* SPDX-License-Identifier: BSD-3-Clause */
/* See err.h. Texts that do not fit are cut, never overflowed: an error path must not fail itself. */
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int dp_err_set(struct dp_err *err, enum dp_errcode code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return -1;
}

int dp_err_prefix(struct dp_err *err, const char *fmt, ...)
{
    char old[sizeof err->text];
    size_t n;
    va_list ap;

    if (!err)
        return -1;
    memcpy(old, err->text, sizeof old);
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, ": %s", old);
    return -1;
}
