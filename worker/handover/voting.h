/* SPDX-License-Identifier: BSD-3-Clause */
/* Short rounds among the workers of a hand-over, in band: all tell the leader, the leader tells all.
 *
 * Every message is a note (yes or no, a digest, a text) of fixed size; the poll carries the digests of
 * the worker's own layers behind it.
 */
#ifndef DP_WORKER_HANDOVER_VOTING_H
#define DP_WORKER_HANDOVER_VOTING_H

#include "common/message/msg.h"
#include "worker/net/transport.h"

#define DP_NOTE_BYTES 304u /* magic, migration, yes, digest and text: at most 302, and zeroes to a multiple of 16 */

enum dp_voting_message { DP_VOTING_READY = 0, DP_VOTING_GO = 1, DP_VOTING_POLL = 2, DP_VOTING_VERDICT = 3 };

struct dp_note {
    bool yes;
    uint8_t digest[DP_DIGEST_BYTES];
    char text[256]; /* reason of a no */
};

/* Who takes part, and what makes this attempt's messages differ from any other's. */
struct dp_voting {
    struct dp_transport *transport;
    const struct dp_layout *layout; /* in force: workers that are not gone */
    uint32_t rank, leader;
    uint64_t step, migration;
};

/* What a worker says about this hand-over: always DP_NOTE_BYTES, the rest zeroes. */
void dp_note_encode(uint8_t out[DP_NOTE_BYTES], uint64_t migration, const struct dp_note *n);
/* returns 0, or -1 with DP_EPROTO: no note, or one about another migration; *n is then of no use. */
int dp_note_decode(const uint8_t in[DP_NOTE_BYTES], uint64_t migration, struct dp_note *n, struct dp_err *err);

/* The same on all workers of this attempt, and another one for each kind, step, epoch and (of 16) migration. */
uint64_t dp_voting_tag(const struct dp_voting *r, enum dp_voting_message kind);
/* The leader tells all others; a worker that is gone or does not take it in 0.5 s is skipped. */
void dp_voting_tell(const struct dp_voting *r, enum dp_voting_message kind, const struct dp_note *n);

/* The leader's receives from all others. */
struct dp_voting_gather {
    const struct dp_voting *voting;
    uint32_t n_open; /* not arrived yet */
    struct dp_transport_request *x[DP_MAX_WORKERS];
    uint8_t *buf[DP_MAX_WORKERS];
};

/* bytes_of(arg, rank): size of that worker's message. NULL: DP_NOTE_BYTES. */
struct dp_voting_gather *dp_voting_gather_create(const struct dp_voting *r, enum dp_voting_message kind,
                                                 size_t (*bytes_of)(void *arg, uint32_t rank), void *arg, struct dp_err *err);
void dp_voting_gather_destroy(struct dp_voting_gather *g); /* cancels what has not come */
/* 1: *rank's message has arrived, in buf[*rank]; 0: nothing new; -1: *rank is gone. Never blocks. */
int dp_voting_gather_step(struct dp_voting_gather *g, uint32_t *rank, struct dp_err *err);

#endif
