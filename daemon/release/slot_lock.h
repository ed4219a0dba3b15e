/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of a slot: a file that workers of a run hold (flock) while they use the slot's device. It lies
 * beside the socket, since every user gets there, as he need not to the journals.
 */
#ifndef DP_DAEMON_RELEASE_SLOT_LOCK_H
#define DP_DAEMON_RELEASE_SLOT_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* socket: of the daemon that serves the node. */
void dp_slot_lock_path(const char *socket, uint32_t job_id, char *out, size_t cap);

/* Make it, or see to it that it is as it must be: nobody but `owner` and the daemon can open it, so nobody
 * else can lock it and hold up a release. returns 0, or -1 with nothing left of a file that others could use. */
int dp_slot_lock_make(const char *path, uid_t owner, struct dp_err *err);

/* Does nobody hold it? A file that is not there is not held; one that cannot be looked at is. */
bool dp_slot_lock_is_free(const char *path);

#endif
