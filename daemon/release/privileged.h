/* SPDX-License-Identifier: BSD-3-Clause */
/* What needs another user's rights, behind one narrow interface: empty a slot and prove it,
 * and ask Slurm for a shrink, for less memory, a requeue or for jobs beside it, all as the job's owner; and what the cards' driver
 * is asked.
 *
 * Started as root with `run_user` set, or with capabilities by systemd, a small process that keeps these
 * rights is forked before any socket is opened; it takes fixed requests from a socketpair and answers
 * each from a child of its own. Without it the same work runs in an ordinary helper with the daemon's
 * own rights. What a request names is a job and no user: whose it is, the child asks of Slurm.
 */
#ifndef DP_DAEMON_RELEASE_PRIVILEGED_H
#define DP_DAEMON_RELEASE_PRIVILEGED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/child/helper.h"

enum dp_priv_op {
    DP_PRIV_EMPTY = 1,
    DP_PRIV_SHRINK = 2,
    DP_PRIV_REQUEUE = 3,
    DP_PRIV_MEMORY = 4,
    DP_PRIV_CARDS = 5,
    DP_PRIV_ASK_SLICES = 6,
    DP_PRIV_MARK_SLICES = 7,
};

struct dp_priv;

/* What the work knows of its own daemon: fixed at the start, never part of a request. */
struct dp_priv_scope {
    char node[64], socket[108], boot_id[40], devices[256];
    char nvml[256];      /* the name of NVIDIA's library (nvml.h); "": it is not loaded */
    bool is_shared_host; /* empty_slot.h */
    /* = by dp_priv_create(): */
    bool is_split;       /* the process that asks has fewer rights */
    uid_t listener;      /* whose it is */
};

/* run_user empty and root, or no right to change users: no process is made. Else: fork it; this process
 * becomes run_user (with capabilities: stays who it is) and loses every other right for good. */
struct dp_priv *dp_priv_create(const char *run_user, const struct dp_priv_scope *scope, struct dp_err *err);
const struct dp_priv_scope *dp_priv_current_scope(void);
void dp_priv_destroy(struct dp_priv *p); /* the process ends when its socket closes */

/* As dp_helper_start(); request: the op's own struct (empty_slot.h, as_owner.h, ask_slices.h, device_memory.h). */
struct dp_helper *dp_priv_start(struct dp_priv *p, struct event_base *base, enum dp_priv_op op,
                                const void *request, size_t bytes, double deadline_s,
                                dp_helper_done_fn done, void *arg, struct dp_err *err);

/* Call gone once when the process with the rights has ended: nothing can be released any more then. No such process:
 * nothing to do. */
int dp_priv_watch(struct dp_priv *p, struct event_base *base, void (*gone)(void *arg), void *arg, struct dp_err *err);

/* On the socket: this, the op's own struct, and one descriptor, the write end of a pipe for the answer.
 * Anything else is dropped. */
struct dp_priv_envelope {
    uint32_t op; /* enum dp_priv_op */
    double deadline_s;
};

/* The process with the rights, until its socket closes. Here for the tests. */
_Noreturn void dp_priv_serve(int fd);

#endif
