/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker's connection to its node's daemon: a unix socket that never holds up training.
 *
 * Lost connections are opened again with back-off; HELLO is repeated each time, so a restarted daemon
 * adopts the worker. Without a daemon (no DYNPIPE_SOCKET, or dead) every call here still works: the
 * worker goes on with the layout it has.
 */
#ifndef DP_LIB_CONTROL_H
#define DP_LIB_CONTROL_H

#include <stdbool.h>

#include "common/message/msg.h"

struct dp_control;

/* socket NULL: no daemon, every query below says "nothing". hello: copied; step, epoch, doubt and cuts
 * are kept up to date with dp_control_state(). Tries to connect and get WELCOME for at most
 * first_timeout_ms. returns NULL with DP_EAUTH only when the daemon answered that this worker must not
 * run here (fenced or denied); an absent daemon is no error. */
struct dp_control *dp_control_create(const char *socket, const struct dp_msg_hello *hello,
                                     uint32_t first_timeout_ms, struct dp_err *err);
void dp_control_destroy(struct dp_control *c); /* sends what is queued for at most 1 s */
void dp_control_abandon(struct dp_control *c); /* says nothing to anybody: in a child of the process that connected */

int dp_control_fd(const struct dp_control *c); /* -1 while not connected */
void dp_control_poll(struct dp_control *c);    /* read, write, reconnect; never blocks */
/* Sleep until the daemon says something, a reconnect is due or timeout_ms passed, then poll. */
void dp_control_wait(struct dp_control *c, uint32_t timeout_ms);
bool dp_control_is_connected(const struct dp_control *c);
/* What is broken while there is no line, borrowed until the next poll; "": nothing, or no socket was given. */
const char *dp_control_trouble(const struct dp_control *c);
/* From here on another worker of this node tells people about the connection; refusals are still told. */
void dp_control_hush(struct dp_control *c);
/* From here on this worker leads the run, and tells people what all of its workers have to say. At first worker 0 does. */
void dp_control_lead(struct dp_control *c);
/* The newest WELCOME, NULL before the first one. A verdict other than OK in it: a daemon that came back
 * says that this worker must not run here; the connection then counts as down. */
const struct dp_msg_welcome *dp_control_welcome(const struct dp_control *c);

/* What the daemon asked, borrowed until the next poll; NULL or false: nothing. */
const struct dp_msg_prepare *dp_control_prepare(const struct dp_control *c);
void dp_control_prepare_done(struct dp_control *c); /* voted no or decided: forget it */
const struct dp_msg_decision *dp_control_decision(const struct dp_control *c, uint64_t migration);
bool dp_control_is_finished(const struct dp_control *c, uint64_t migration);
/* After a worker was lost: the newest REGROUP that goes on, with an epoch beyond that of dp_control_state(); NULL: none. */
const struct dp_msg_regroup *dp_control_regroup(const struct dp_control *c);
/* Why nobody goes on after a worker was lost; "": nothing was said of it. */
const char *dp_control_no_regroup(const struct dp_control *c);
bool dp_control_take_save(struct dp_control *c); /* a checkpoint was asked for; resets the request */
bool dp_control_take_stop(struct dp_control *c); /* the same, and that all stop then */
/* Has the daemon said how much time the job has left? Then: when that is over, monotonic; 0: never. */
bool dp_control_has_limit(const struct dp_control *c);
uint64_t dp_control_end_ns(const struct dp_control *c);

/* For a worker that cannot move layers: the layout that its run should begin again with, NULL: none is better than the one of
 * dp_control_state(). Borrowed until the next poll. */
const struct dp_msg_proposal *dp_control_proposal(const struct dp_control *c);

/* Of a run of slices: who comes later needs this worker's address and the run's key. Copied; said after each WELCOME. -1: no memory */
int dp_control_introduce(struct dp_control *c, const void *card, size_t bytes, const uint8_t key[DP_KEY_BYTES]);
/* The address of a worker that came later, as said last; borrowed until the next poll. NULL: nothing was said. */
const void *dp_control_card(const struct dp_control *c, uint32_t rank, size_t *bytes);
/* This worker is in the layout now, and no newcomer any more. */
void dp_control_joined(struct dp_control *c);

/* What this worker is at, for the next HELLO. */
void dp_control_state(struct dp_control *c, uint64_t step, uint64_t doubt, const struct dp_layout *layout);

/* Queue a message. Reports are dropped while the connection is down; votes, acks, events and goodbyes are
 * kept and sent again after a reconnect. returns false when there is no connection now. */
bool dp_control_report(struct dp_control *c, const struct dp_msg_report *m);
bool dp_control_vote(struct dp_control *c, const struct dp_msg_vote *m);
bool dp_control_ack(struct dp_control *c, const struct dp_msg_decision_ack *m);
bool dp_control_event(struct dp_control *c, const struct dp_msg_event *m);
bool dp_control_goodbye(struct dp_control *c, const struct dp_msg_goodbye *m);
/* As dp_expected_set() (lib/expected.h), and said after each WELCOME until dp_control_state() names a later step; never to a daemon
 * of protocol version 1 or 2. */
int dp_control_expect(struct dp_control *c, uint64_t step, uint32_t first, const struct dp_layer_load *load, uint32_t n,
                      struct dp_err *err);

#endif
