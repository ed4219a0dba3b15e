/* SPDX-License-Identifier: BSD-3-Clause */
/* Files whose contents run with the daemon's rights. */
#ifndef DP_COMMON_FILE_TRUSTED_FILE_H
#define DP_COMMON_FILE_TRUSTED_FILE_H

#include "common/err.h"

/* May this file be loaded? An absolute path without links to a regular file; file and folders belong to
 * root or to the effective user, and nobody else may write them (a folder with the sticky bit is fine:
 * others cannot replace what is not theirs in it). returns 0, or -1 with the offending part of the path. */
int dp_trusted_file_check(const char *file, struct dp_err *err);

#endif
