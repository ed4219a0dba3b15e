/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker's side of a hand-over: moving layers between workers, all or nothing.
 *
 * Implements the hand-over of doc/protocol.md. All workers that are still in the run call
 * dp_handover_run() at the same optimizer-step boundary, for the migration that the leader (the
 * lowest rank still in the run, which may be one that leaves by it) named in its order. So do newcomers, whom
 * only the next layout has, with the layout in force that the leader told them. Inside:
 *
 *   ready     everybody has PREPARE(m) of its own daemon, and all PREPAREs are equal
 *   transfer  sources send MANIFEST and chunks, destinations fill and verify shadows
 *   poll      the workers agree in band; one no, and all drop it at once and vote no
 *   vote      VOTE yes to the daemon; from here on a worker is in doubt and may not decide alone
 *   decision  COMMIT: shadows become layers, sources keep retired copies; ABORT: as if never begun
 *
 * A worker that has not voted yes may abort alone, and never votes yes for that migration later.
 */
#ifndef DP_WORKER_HANDOVER_HANDOVER_H
#define DP_WORKER_HANDOVER_HANDOVER_H

#include <stdbool.h>

#include "common/run/layout.h"
#include "lib/member.h"
#include "worker/copies/copies.h"
#include "worker/model/stage.h"
#include "worker/net/transport.h"
#include "worker/shadow/shadowing.h"

/* What outlives one hand-over: retired copies, migrations that are closed, whether this worker leaves. */
struct dp_handover;

/* All borrowed for the call; `stage` changes on a commit only. */
struct dp_handover_args {
    struct dp_transport *transport; /* knows every worker still in the run */
    uint32_t rank;
    const struct dp_layout *layout; /* in force, as dp_handover_create() had it */
    struct dp_stage **stage;  /* the worker's stage; on commit replaced by a new one; NULL with held */
    const struct dp_train_config *config;
    struct dp_backend *backend;
    const struct dp_tune *tune;
    uint32_t frozen;          /* layers of the model that only go forward */
    uint64_t step;            /* optimizer steps completed at this boundary */
    uint64_t mem_limit_bytes; /* 0: unlimited; a destination that would pass it votes no */
    uint64_t mem_most_bytes;  /* however many copies are let go of, which are beside mem_limit_bytes, no more than so much; 0: unlimited */
    /* Of newcomers, whom the next layout has and the one in force has not. NULL: none can come. */
    int (*meet)(void *arg, uint32_t rank, struct dp_err *err); /* make it known to the transport, as it was said last */
    /* The leader: tell those of `next` that they are to call dp_handover_run(), too. Who does not hear it makes the hand-over fail. */
    void (*invite)(void *arg, uint64_t migration, const struct dp_layout *next);
    void *arg;
    struct dp_layer *const *held; /* of a transfer in a regroup: what this worker has, by index in the model; else NULL */
    struct dp_shadowing *shadowing; /* layers that it has are not sent again; the same on all workers. NULL: none was copied before */
    struct dp_copies *copies; /* nor layers that their destination has whole copies of, if digests agree; settled. NULL: no copies here */
};

/* How long a worker waits. */
struct dp_handover_times {
    uint64_t prepare_ns; /* for PREPARE of one's own daemon: 10 s */
    uint64_t stall_ns;   /* without any byte moving in a transfer: 30 s */
    uint64_t poll_ns;    /* for all workers to finish theirs: 300 s */
    struct dp_member_times member;
};

struct dp_handover_outcome {
    bool is_committed;           /* false: aborted, the old layout is in force */
    bool is_leaving;             /* this worker left the run: see dp_handover_poll() */
    uint64_t pause_ns;           /* from the call until the return */
    uint64_t transfer_ns;        /* part in which layers were sent or received */
    uint64_t sent_bytes, received_bytes; /* of layers, those that were copied before included */
    uint32_t n_were_copies;      /* layers that came here, and of which a copy was here already */
    char text[256];              /* reason of an abort */
};

/* The defaults above, and those of lib/member.h. */
void dp_handover_times_default(struct dp_handover_times *times);

/* control and layout: borrowed for the life of the object; on a commit layout gets the new cuts and gone, epoch + 1. times NULL: the
 * defaults. */
struct dp_handover *dp_handover_create(struct dp_control *control, uint32_t rank, struct dp_layout *layout,
                                       const struct dp_handover_times *times, struct dp_err *err);
/* Frees retired copies too. */
void dp_handover_destroy(struct dp_handover *h);

/* Hand over. returns 0 and *out, or -1: the run cannot go on (T_doubt passed, the leader is gone, a
 * decision that contradicts the votes, out of memory after a commit); layout and stage are then as
 * they were or, after a commit, undefined but safe to destroy. Blocks. */
int dp_handover_run(struct dp_handover *h, const struct dp_handover_args *args, uint64_t migration,
                    struct dp_handover_outcome *out, struct dp_err *err);

/* dp_member_poll(), and frees retired copies whose migration is finished. Call it at every boundary (cheap, never blocks); a leaver
 * calls it in a loop around dp_control_wait(). returns enum dp_member_state, or -1 when the coordinator committed what this worker
 * refused. */
int dp_handover_poll(struct dp_handover *h, struct dp_err *err);

/* dp_member_regrouped(), and all copies are freed. */
void dp_handover_regrouped(struct dp_handover *h, uint64_t migration, uint64_t pause_ns);

/* Bytes of retired copies held now. */
size_t dp_handover_retired_bytes(const struct dp_handover *h);

#endif
