/* SPDX-License-Identifier: BSD-3-Clause */
/* What was printed has to arrive. */
#ifndef DP_COMMON_STDOUT_H
#define DP_COMMON_STDOUT_H

#include "common/err.h"

/* Write out what stdout still holds: before a program ends that prints a result.
 * returns 0, or -1 with DP_EIO ("stdout: ...") when this, or anything printed before, was lost. */
int dp_stdout_flush(struct dp_err *err);

#endif
