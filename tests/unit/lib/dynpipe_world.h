/* SPDX-License-Identifier: BSD-3-Clause */
/* A trainer that has the shared object and nothing else of ours, and the daemon that it talks to: both in one process, driven in turn
 * until a condition holds or 20 s have passed. */
#ifndef DP_TESTS_DYNPIPE_WORLD_H
#define DP_TESTS_DYNPIPE_WORLD_H

#include "common/clock.h"
#include "lib/dynpipe.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/fakedaemon.h"

#define LONG_NS (20 * DP_SECOND_NS) /* a deadline that only a fault meets */
#define WORKERS 3
#define LAYERS 9
#define ALL (DYNPIPE_CAN_MOVE | DYNPIPE_CAN_LEAVE)

extern struct fake_daemon the_daemon;
extern struct fake_peer peer; /* of the worker under test */
extern uint32_t the_cut[WORKERS + 1];

/* Serve the handle until cond holds. */
#define UNTIL(d, cond)                                                                             \
    do {                                                                                           \
        uint64_t until_end = dp_now_ns() + LONG_NS;                                                \
        bool until_ok;                                                                             \
        while (!(until_ok = (cond)) && dp_now_ns() < until_end)                                    \
            dynpipe_wait((d), 2);                                                                  \
        assert_true(until_ok);                                                                     \
    } while (0)

/* A run of WORKERS workers and LAYERS layers, in which this is worker `rank`. */
struct dynpipe_run run_of(uint32_t rank, uint32_t traits);
/* Joined, welcomed by the_daemon, which was started for it; the HELLO. */
struct dynpipe *joined(const struct dynpipe_run *run, struct dp_msg_hello *hello);
/* The worker connects again, and is welcomed. */
void greet(struct dynpipe *d, struct dp_msg_hello *hello);
/* The daemon dies; revive() and greet() bring it back. */
void kill_daemon(void);
void revive_daemon(void);
/* Leave, and the end of the_daemon. */
void finish(struct dynpipe *d);

/* The next message that is not PONG is of this type. */
void hear(struct dynpipe *d, uint16_t type, struct dp_reader *r);
void hear_vote(struct dynpipe *d, struct dp_msg_vote *m);
void hear_ack(struct dynpipe *d, struct dp_msg_decision_ack *m);
/* What was sent before is handled: a PING behind it was answered. */
void settle(struct dynpipe *d);

/* Ask for hand-over m: workers 0 and 1 own layers up to these cuts; gone: worker 2 has none and leaves. */
void ask(uint64_t m, uint64_t epoch, uint32_t cut1, uint32_t cut2, bool gone);
void tell(uint64_t m, bool commit, uint64_t epoch, const char *text);
void tell_finished(uint64_t m);

/* One step of a worker that owns n layers. returns: as dynpipe_report(). */
int train(struct dynpipe *d, uint64_t step, uint32_t n);

extern const uint8_t a_digest[32];

#endif
