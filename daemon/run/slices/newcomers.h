/* SPDX-License-Identifier: BSD-3-Clause */
/* What slices that come later need to know of the workers that train already, and those of them: addresses, and the run's key. Each
 * worker says its own after every WELCOME (CARD of kind AGAIN), so a daemon that was restarted knows them again. It stays in
 * memory, at home.
 */
#ifndef DP_DAEMON_RUN_NEWCOMERS_H
#define DP_DAEMON_RUN_NEWCOMERS_H

#include "daemon/run/run.h"
#include "daemon/run/wireup/roster.h"

/* A worker of this node says its card: it is kept, or goes to home's daemon. */
void dp_newcomers_card(struct dp_conn *c, const struct dp_msg_card *m);
/* At home: a worker's card, with the key; the process that has said HELLO for that rank. */
void dp_newcomers_put(struct dp_run *run, const struct dp_msg_card *m);
/* The card of the process that a rank has now. out->card: borrowed until the next call of one of these. false: not known. */
bool dp_newcomers_find(const struct dp_run *run, uint32_t rank, struct dp_msg_card *out);
/* The table of the newcomer that has this rank: all but its own card. DP_EGONE: not all are known yet, or not the key. */
int dp_newcomers_fill(const struct dp_run *run, struct dp_roster *r, uint32_t rank, struct dp_err *err);
void dp_newcomers_drop(struct dp_run *run, uint32_t rank); /* another process has this rank */
void dp_newcomers_forget(struct dp_run *run); /* all, and the key is overwritten */

#endif
