/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose rights a process of the daemon works with.
 *
 * The daemon is started as root, or by systemd as its own user with three capabilities: SETUID and
 * SETGID, to become the owner of a job, and SYS_PTRACE, to see in /proc what belongs to it. Whoever
 * is confined here never gets more again.
 */
#ifndef DP_DAEMON_RELEASE_RIGHTS_H
#define DP_DAEMON_RELEASE_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

/* May this process become another user? */
bool dp_rights_can_change(void);

/* Whom to become. */
struct dp_rights {
    uid_t uid;        /* what we do counts as this user's */
    uid_t guard;      /* only this user's signals reach us: = uid, or the daemon's, where uid may be hostile */
    gid_t gid;
    const char *name; /* NULL: gid is the only group; else also those that the user database lists */
};

/* Become them for good, with no capability. The user that we are already: only drop capabilities. */
int dp_rights_become(const struct dp_rights *who, struct dp_err *err);

/* The same, but go on seeing all of /proc. What it can send a signal to is what uid (or guard) owns. Stays
 * as it is where the process is that user already. */
int dp_rights_watch_as(const struct dp_rights *who, struct dp_err *err);

/* Open files as root does, in a process that dp_rights_watch_as() confined: the kernel gives /proc/pid of a
 * process that cannot be dumped to root. Elsewhere this changes nothing. */
void dp_rights_see_as_root(bool on);

/* May this process look into every other one (CAP_SYS_PTRACE)? hidepid hides nothing from it. */
bool dp_rights_trace_all(void);

#endif
