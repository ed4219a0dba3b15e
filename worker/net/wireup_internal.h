/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ways behind wireup.h: wireup_pmix.c and wireup_daemon.c. */
#ifndef DP_WORKER_NET_WIREUP_INTERNAL_H
#define DP_WORKER_NET_WIREUP_INTERNAL_H

#include "worker/net/wireup.h"

/* Ask PMIx who we are: fills rank, local_rank and n_workers of w. Only where the launcher announced PMIx. returns 0,
 * or -1: it does not answer, and this worker cannot start. */
int dp_pmix_init(struct dp_wireup *w, struct dp_err *err);
/* Cards and the run's key through PMIx's store; ends when all have them. Waits dp_rendezvous_timeout_ns() at most.
 * returns 0, or -1 and who is missing or why somebody refused. */
int dp_pmix_exchange(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err);
/* Tell the others why this worker does not come, and wait in their fence, or they would wait for it. */
void dp_pmix_refuse(const struct dp_wireup *w, const char *why);
/* All workers are here, or -1 after the same time. */
int dp_pmix_barrier(const struct dp_wireup *w, struct dp_err *err);
/* The step is to end, wherever its other tasks wait. Ends this process itself where PMIx does not return. */
void dp_pmix_abort(void);
/* PMIx's end; after it no other of these may be called. */
void dp_pmix_release(void);

/* The same as dp_pmix_exchange(), by CARD, ROSTER and WIREUP through the daemons (doc/protocol.md, "Wire-up"). Has
 * all addresses, but no word that others have: it warns, and goes on. */
int dp_meet_by_daemon(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err);
/* The worker of a slice: waits until the slices are one run, and fills rank and n_workers of w. returns 0, or -1: there is
 * none, or not with this slice. */
int dp_ask_rank_of_slice(struct dp_wireup *w, struct dp_err *err);
bool dp_refuse_by_daemon(const struct dp_wireup *w, const char *why); /* as dp_wireup_refuse() */

#endif
