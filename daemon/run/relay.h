/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes to and comes from daemons of other nodes for a run, and what happens to their connections. */
#ifndef DP_DAEMON_RUN_RELAY_H
#define DP_DAEMON_RUN_RELAY_H

#include "daemon/run/worker.h"

/* RELAY of another daemon: to the coordinator where this node has it, else to the worker here that it is for. What is
 * of another life of the job, of a node that is none of its, or no order of its batch host is dropped; senders repeat
 * what matters. */
void dp_run_relay(struct dp_conn *c, const struct dp_msg_relay *m);
/* Messages of other daemons for the batch host. JOIN of a job that is not known here: Slurm is asked (seek.h). The
 * others: to the coordinator, dropped where there is none. */
void dp_run_join(struct dp_conn *c, const struct dp_msg_join *m);
/* The batch host asks for a process of this node: answered when it has ended. */
void dp_run_find_worker(struct dp_conn *c, const struct dp_msg_find_worker *m);
void dp_run_worker_lost(struct dp_conn *c, const struct dp_msg_worker_lost *m);
void dp_run_slot_gone(struct dp_conn *c, const struct dp_msg_slot_gone *m);
/* The connection to a node's daemon stands: its orders are asked for where it is a batch host, and rosters go on. Or
 * it does not any more: where it is the batch host, workers here are hung up on and come back; where we coordinate,
 * its workers are unheard. */
void dp_run_peer_up(struct dp_daemon *d, const char *node);
void dp_run_peer_down(struct dp_daemon *d, const char *node);
/* A worker's frame to the batch host. Dropped where no connection stands, and what comes too often (dp_run_takes()):
 * what matters is said again. */
void dp_run_relay_up(struct dp_run *run, const struct dp_worker *w, enum dp_msg_type type, const uint8_t *body,
                     size_t bytes);

#endif
