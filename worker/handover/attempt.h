/* SPDX-License-Identifier: BSD-3-Clause */
/* One hand-over under way, up to the point where its workers have agreed to vote or to abort. */
#ifndef DP_WORKER_HANDOVER_ATTEMPT_H
#define DP_WORKER_HANDOVER_ATTEMPT_H

#include "worker/handover/voting.h"
#include "worker/handover/transfer.h"

/* Largest poll: a note and the digests of all layers, each of which may both come and go. */
#define DP_POLL_BYTES (DP_NOTE_BYTES + 2 * DP_MAX_LAYERS * DP_DIGEST_BYTES)

struct dp_attempt {
    const struct dp_handover_args *args;
    const struct dp_handover_times *times;
    struct dp_member *member; /* PREPARE, and the layout that a commit puts in force */
    uint64_t migration;
    struct dp_voting voting;
    struct dp_layout meeting; /* that in force, and newcomers: who takes part, once PREPARE is there */
    struct dp_moves moves;
    struct dp_transfer *transfer;
    dp_ticket ticket; /* what the device was told for the layers that came */
    bool is_told;     /* all of it was, and ticket is the end of it */
    uint8_t *poll_buf; /* DP_POLL_BYTES, borrowed; outlives the attempt, a stuck leader may still read it */
    uint8_t digest[DP_DIGEST_BYTES]; /* of all layers that move, the same on every worker */
    uint64_t transfer_ns;
    char why[256]; /* reason of an abort */
};

/* Wait for PREPARE and learn whether everybody has the same one.
 * returns 1: go, 0: abort (why), -1: the run cannot go on. */
int dp_attempt_prepare(struct dp_attempt *p, struct dp_err *err);

/* Move the layers and poll the workers.
 * returns 1: all are ready to vote yes, 0: abort (why), -1: the run cannot go on. */
int dp_attempt_transfer(struct dp_attempt *p, struct dp_err *err);

#endif
