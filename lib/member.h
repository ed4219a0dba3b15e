/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes a worker a safe member of a run: what it may say to the coordinator, and when, so that all workers stay in one layout
 * whatever dies when (doc/protocol.md). How layers move, and how workers agree among themselves, is their trainer's.
 *
 *   - the layout changes here in dp_member_commit() and nowhere else, after DP_MEMBER_COMMIT;
 *   - a worker says yes once, after all its layers are there and verified, and is in doubt from then on: it may not decide alone;
 *   - what was refused or aborted is closed: no yes for it or for anything older, ever;
 *   - who gave layers away keeps them until FINISH, and who leaves stays until then.
 *
 * One hand-over, at a boundary between two steps:
 *
 *     dp_member_begin(), dp_member_prepare() until it is not 0
 *     1, and all workers agree:  dp_member_vote_yes(), dp_member_decision() until it is not DP_MEMBER_WAITS,
 *                                DP_MEMBER_COMMIT: make the new layout's layers, dp_member_commit()
 *     else:                      dp_member_vote_no()
 *     in the end:                dp_member_done()
 *
 * Nothing here blocks: waits are steps, between which the caller serves what else it has and sleeps in dp_control_wait().
 */
#ifndef DP_LIB_MEMBER_H
#define DP_LIB_MEMBER_H

#include "lib/control.h"

/* How long a member waits for others. */
struct dp_member_times {
    uint64_t doubt_ns; /* T_doubt, for a decision after a yes, and a leaver with a daemon for FINISH: 600 s, DYNPIPE_DOUBT_S */
    uint64_t leave_ns; /* a leaver without a daemon: 60 s, DYNPIPE_LEAVE_S */
};

/* The defaults above; the environment overrides both (seconds, > 0). */
void dp_member_times_default(struct dp_member_times *times);

/* Read it at will; only the functions below write. */
struct dp_member {
    struct dp_control *control; /* borrowed */
    uint32_t rank;
    struct dp_layout *layout;   /* in force; borrowed */
    struct dp_member_times times;

    uint64_t closed;    /* no yes for a migration up to this one */
    uint64_t committed; /* the newest that this worker took part in */
    uint64_t answered;  /* decisions up to this one are acknowledged */
    uint64_t kept;      /* the newest that this worker gave layers away in; 0: none */
    bool is_leaving;
    uint64_t leaving_since_ns, down_since_ns; /* down_since_ns 0: the connection is up */

    /* Of the hand-over that dp_member_begin() began last. */
    uint64_t migration;
    uint64_t begin_ns, prepare_ns, up_ns; /* since when and how long PREPARE is waited for; when the daemon was there last */
    bool may_come;
    bool has_prepare;
    struct dp_msg_prepare prepare; /* with has_prepare */
    struct dp_layout next;         /* that it asks for, once dp_member_prepare() returned 1 */
    uint64_t doubt_since_ns;       /* 0: no yes was said */
};

/* control and layout: borrowed as long as m is used; layout is the one in force, and the caller may put another one there while no
 * hand-over is under way. times NULL: the defaults. */
void dp_member_init(struct dp_member *m, struct dp_control *control, uint32_t rank, struct dp_layout *layout,
                    const struct dp_member_times *times);

/* ---- before the vote ---- */

/* At a boundary, and not in doubt: hand-over `migration` begins. prepare_ns: how long this worker waits for PREPARE. may_come: the next
 * layout may have workers that the one in force has not. */
void dp_member_begin(struct dp_member *m, uint64_t migration, uint64_t prepare_ns, bool may_come);

/* Is PREPARE here? returns: 1: it is, and can be obeyed: m->prepare, m->next. 0: not yet. -1: never, or it asks for what cannot be
 * (err): all workers have to vote no. */
int dp_member_prepare(struct dp_member *m, struct dp_err *err);

/* Is PREPARE something that workers of the layout `old` can do? *next = what it leads to. may_come: as for dp_member_begin(). returns 0,
 * or -1 with DP_EINVAL. */
int dp_member_next_layout(const struct dp_msg_prepare *prepare, const struct dp_layout *old, bool may_come, struct dp_layout *next,
                          struct dp_err *err);

/* What the workers have to agree on: SHA-256 over PREPARE as it was said to all, and over digest behind it. digest:
 * [DP_DIGEST_BYTES], or NULL: over PREPARE alone. With m->has_prepare. */
void dp_member_digest(const struct dp_member *m, const uint8_t *digest, uint8_t out[DP_DIGEST_BYTES]);

/* Has the coordinator aborted the hand-over, or gone on to a later one? Reads what the daemon said. */
bool dp_member_is_aborted(struct dp_member *m);

/* ---- votes, doubt, decision ---- */

/* Close the hand-over with a no, unless the coordinator has ended it already. v: text says why; boundary, sent_bytes and
 * received_bytes. The rest is filled here. returns: false: this worker said yes, and may not take it back; nothing was done. */
bool dp_member_vote_no(struct dp_member *m, struct dp_msg_vote *v);

/* Say yes. v: digest, boundary, sent_bytes and received_bytes; the rest is filled here. From here on this worker is in doubt.
 * Repeated, it does nothing. returns: 1: said; 0: the coordinator has aborted, nothing was said, nothing has to be waited for;
 * -1: there is no PREPARE, or the hand-over is closed here: a yes may not be said (DP_EINVAL). */
int dp_member_vote_yes(struct dp_member *m, struct dp_msg_vote *v, struct dp_err *err);

enum dp_member_answer {
    DP_MEMBER_END = -1,   /* this worker may neither go on nor decide: DP_ETIMEOUT (T_doubt), DP_EGONE (REGROUP), DP_EPROTO */
    DP_MEMBER_ABORT = 0,  /* go on with the layout in force */
    DP_MEMBER_COMMIT = 1, /* dp_member_commit() */
    DP_MEMBER_WAITS = 2,  /* nobody has said: dp_control_wait(), and ask again */
};

/* After a yes: what was decided? The same when it is asked again, until dp_member_done(). why: cap bytes, with ABORT the reason; as
 * it was with the others. Reads nothing: dp_control_wait() does. */
enum dp_member_answer dp_member_decision(const struct dp_member *m, char *why, size_t cap, struct dp_err *err);

/* m->next is in force: *m->layout =. Layers that this worker gave away are to be kept: dp_member_poll(). */
void dp_member_commit(struct dp_member *m);

/* This worker goes on, in the new layout or in the old one, with `step` steps completed: tell the coordinator. pause_ns: since the
 * boundary; transfer_ns: part in which layers were sent or received; copying_ns: what copying them before took, while training went on.
 * After a no, and after ABORT or COMMIT. */
void dp_member_done(struct dp_member *m, uint64_t step, uint64_t pause_ns, uint64_t transfer_ns, uint64_t copying_ns);

/* ---- between hand-overs ---- */

enum dp_member_state {
    DP_MEMBER_IDLE = 0,    /* nothing is kept: go on */
    DP_MEMBER_KEEPING = 1, /* layers that were given away wait for FINISH: go on, ask again */
    DP_MEMBER_LEAVING = 2, /* this worker owns nothing and waits for FINISH: ask again, do not leave yet */
    DP_MEMBER_LEAVE = 3,   /* FINISH came, or nobody was there for too long: say goodbye and exit 0 */
};

/* Answer what came outside of a hand-over: late decisions, PREPAREs of what is closed. At every boundary; never blocks.
 * returns: enum dp_member_state, or -1 when the coordinator committed what this worker has not said yes to (DP_EPROTO). */
int dp_member_poll(struct dp_member *m, struct dp_err *err);

/* May layers that were given away in this migration be freed? */
bool dp_member_is_finished(const struct dp_member *m, uint64_t migration);

/* A REGROUP is in force, with its layout: whatever hand-over was known is over, nothing is kept, and the decision is acknowledged.
 * pause_ns: since training stopped. */
void dp_member_regrouped(struct dp_member *m, uint64_t migration, uint64_t pause_ns);

#endif
