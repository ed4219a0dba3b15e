/* SPDX-License-Identifier: BSD-3-Clause */
/* One hand-over under way, up to the point where its workers have agreed to vote or to abort. */
#ifndef DP_WORKER_HANDOVER_PASSAGE_H
#define DP_WORKER_HANDOVER_PASSAGE_H

#include "worker/handover/round.h"
#include "worker/handover/ship.h"

/* Largest poll: a note and the digests of all layers, each of which may both come and go. */
#define DP_POLL_BYTES (DP_NOTE_BYTES + 2 * DP_MAX_LAYERS * DP_DIGEST_BYTES)

struct dp_passage {
    const struct dp_handover_args *args;
    const struct dp_handover_times *times;
    uint64_t migration, closed; /* closed: migrations up to this one may never be voted yes for */
    struct dp_round round;
    bool has_prepare;
    struct dp_msg_prepare prepare;
    struct dp_layout next; /* the layout that a commit puts in force */
    struct dp_moves moves;
    struct dp_ship *ship;
    uint8_t *poll_buf; /* DP_POLL_BYTES, borrowed; outlives the passage, a stuck leader may still read it */
    uint8_t digest[DP_DIGEST_BYTES]; /* of the whole cargo, the same on every worker */
    uint64_t transfer_ns;
    char why[256]; /* reason of an abort */
};

/* Wait for PREPARE and learn whether everybody has the same one.
 * returns 1: go, 0: abort (why), -1: the run cannot go on. */
int dp_passage_ready(struct dp_passage *p, struct dp_err *err);

/* Move the cargo and poll the workers.
 * returns 1: all are ready to vote yes, 0: abort (why), -1: the run cannot go on. */
int dp_passage_ship(struct dp_passage *p, struct dp_err *err);

/* Has the coordinator aborted this migration, or gone on to a later one? Only before a yes. */
bool dp_passage_is_aborted(struct dp_passage *p);

#endif
