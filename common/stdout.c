/* SPDX-License-Identifier: BSD-3-Clause */
/* See stdout.h. */
#include "common/stdout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int dp_stdout_flush(struct dp_err *err)
{
    bool had_failed = ferror(stdout); /* then errno is long gone */

    if (fflush(stdout) != 0)
        return dp_err_set(err, DP_EIO, "stdout: %s", strerror(errno));
    return had_failed ? dp_err_set(err, DP_EIO, "stdout: not everything could be written") : 0;
}
