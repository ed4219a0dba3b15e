/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ways behind wireup.h: wireup_pmix.c and wireup_daemon.c. */
#ifndef DP_WORKER_NET_WIREUP_INTERNAL_H
#define DP_WORKER_NET_WIREUP_INTERNAL_H

#include "worker/net/wireup.h"

int dp_pmix_init(struct dp_wireup *w, struct dp_err *err);
int dp_pmix_exchange(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err);
void dp_pmix_refuse(const struct dp_wireup *w, const char *why);
int dp_pmix_barrier(const struct dp_wireup *w, struct dp_err *err);
void dp_pmix_abort(void);
void dp_pmix_release(void);

int dp_meet_by_daemon(const struct dp_wireup *w, struct dp_transport *t, struct dp_err *err);
bool dp_refuse_by_daemon(const struct dp_wireup *w, const char *why); /* as dp_wireup_refuse() */

#endif
