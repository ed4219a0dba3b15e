/* SPDX-License-Identifier: BSD-3-Clause */
/* What control.c and control_receive.c share: the worker's connection to its daemon and what is kept for it. */
#ifndef DP_LIB_CONTROL_INTERNAL_H
#define DP_LIB_CONTROL_INTERNAL_H

#include "lib/control.h"
#include "lib/device_lock.h"
#include "lib/expected.h"
#include "lib/frame_socket.h"

#define MAX_EVENTS 32 /* kept while no daemon takes them; then the oldest goes */

enum link_state { LINK_DOWN, LINK_GREETING, LINK_UP };

struct kept_event {
    struct dp_msg_event m;
    bool is_queued;
    uint64_t end; /* of its frame, in bytes queued on this connection */
};

struct dp_control {
    char *socket; /* NULL: there is no daemon */
    struct dp_frame_socket link;
    enum link_state state;
    uint16_t try_version; /* of the next HELLO */
    uint64_t backoff_ns, next_try_ns, hello_ns;
    bool was_up;  /* since the last refusal */
    bool is_lost; /* "lost" was told, "back" was not */
    bool is_untold; /* neither was "lost": the leader may tell it for all */
    bool leads;
    bool is_hushed; /* another worker of the node tells */
    char trouble[300], told[300]; /* what is broken while the connection is down, "": nothing was; as logged last */
    uint64_t down_ns, told_ns;    /* since when; when something of it was logged last */

    struct dp_msg_hello hello;
    struct dp_msg_welcome welcome;
    bool has_welcome;
    struct dp_device_lock lock;

    uint32_t incarnation;    /* highest seen */
    uint64_t prepare_closed; /* migrations up to this one are done with: PREPARE is not shown again */
    bool has_prepare, has_decision, wants_save, wants_stop;
    struct dp_msg_prepare prepare;
    struct dp_msg_decision decision;
    uint64_t finished; /* highest migration of a FINISH */
    struct dp_msg_regroup regroup; /* epoch 0: none */
    char no_regroup[256];
    struct dp_msg_proposal proposal; /* number 0: none */
    bool has_limit;
    uint64_t end_ns; /* of the job, from the newest LIMIT; 0: without end */

    uint8_t *card; /* of this worker; NULL: it is not told */
    size_t card_bytes;
    uint8_t key[DP_KEY_BYTES];
    bool card_queued;
    struct {
        uint8_t *card;
        size_t bytes;
    } peer[DP_MAX_WORKERS]; /* of newcomers */

    bool has_vote, vote_queued, has_ack, ack_queued, has_goodbye, goodbye_queued;
    struct dp_msg_vote vote;
    struct dp_msg_decision_ack ack;
    struct dp_msg_goodbye goodbye;
    struct kept_event event[MAX_EVENTS]; /* oldest first */
    uint32_t n_events;
    struct dp_expected *expected; /* NULL: nothing was expected yet */
    struct dp_msg_expect expect;  /* that is sent: too large for a stack */
};

/* "job=7 step=0 rank=2" for every line that is logged here. */
#define WHO_FMT "job=%u step=%u rank=%u"
#define WHO(c) (c)->hello.job_id, (c)->hello.step_id, (c)->hello.rank

/* Ask for the device lock that the daemon named, where it is not held yet. */
void dp_control_take_lock(struct dp_control *c);

/* Read and handle all whole frames; what was read before the peer closed still counts. Rounds are
 * bounded: a daemon that never stops talking does not hold up training.
 * returns: 0, or -1 when the connection has to be closed; DP_EAUTH: the daemon refuses this worker. */
int dp_control_receive(struct dp_control *c, struct dp_err *err);

#endif
