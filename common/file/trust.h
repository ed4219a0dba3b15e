/* SPDX-License-Identifier: BSD-3-Clause */
/* Where may others have put something? Of files that root or a daemon makes or connects to by their path.
 *
 * Neither allocates nor asks the user database: slurmstepd calls them. */
#ifndef DP_COMMON_FILE_TRUST_H
#define DP_COMMON_FILE_TRUST_H

#include <sys/types.h>

#include "common/err.h"

/* The folder of a file: nobody but its owner may write it (a sticky bit does not help: who may write can be there
 * first), and all folders above it, links followed, belong to root or to us and can be changed by nobody else.
 * owner: = whose it is: root, us, or somebody to whom root or we gave it. */
int dp_trust_folder(const char *file, uid_t *owner, struct dp_err *err);

/* Is a connected unix socket served by root, by us, or by whom the folder of its path belongs to? */
int dp_trust_server(int fd, const char *path, struct dp_err *err);

/* Fill err with why `path` could not be opened (errno), and, where that is because it or a folder above it is another user's,
 * whose: a daemon that began to run as another user finds what it left as the first one. returns -1. */
int dp_trust_not_opened(const char *path, struct dp_err *err);

#endif
