/* The two things that need root, behind one narrow interface: empty a slot and prove it, and ask
 * Slurm for a shrink as the job's owner.
 *
 * With `run_user` set and started as root, a small process with root's rights is forked before any
 * socket is opened; it takes fixed requests from a socketpair and answers each from a child of its
 * own. Without it the same work runs in an ordinary helper with the daemon's own rights.
 */
#ifndef DP_DAEMON_PRIVILEGED_H
#define DP_DAEMON_PRIVILEGED_H

#include "daemon/helper.h"

enum dp_priv_op { DP_PRIV_FENCE = 1, DP_PRIV_SHRINK = 2 };

struct dp_priv;

/* run_user empty or not root: no process is made. Else: fork it and become run_user for good. */
struct dp_priv *dp_priv_create(const char *run_user, struct dp_err *err);
void dp_priv_destroy(struct dp_priv *p); /* the process ends when its socket closes */

/* As dp_helper_start(); request: the op's own struct (fence.h, shrink.h). */
struct dp_helper *dp_priv_start(struct dp_priv *p, struct event_base *base, enum dp_priv_op op,
                                const void *request, size_t bytes, double deadline_s,
                                dp_helper_done_fn done, void *arg, struct dp_err *err);

#endif
