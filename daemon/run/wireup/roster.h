/* SPDX-License-Identifier: BSD-3-Clause */
/* The table by which the workers of one step meet: each one's card, whose process it is, and the run's key. On the batch
 * host it is the one that counts; on the job's other nodes it is a copy, that is handed on to the workers there.
 *
 * Nothing here knows of connections; wireup.c does. doc/protocol.md, "Wire-up".
 */
#ifndef DP_DAEMON_RUN_ROSTER_H
#define DP_DAEMON_RUN_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/msg.h"

enum dp_roster_state {
    DP_ROSTER_GATHERING, /* not all have come */
    DP_ROSTER_WHOLE,     /* all have; not all are known to have the table */
    DP_ROSTER_GO,        /* they are; the cards are forgotten */
    DP_ROSTER_FAILED,    /* text says why */
};

struct dp_roster_entry {
    bool is_there;
    bool is_empty;       /* a seat of a run of slices that nobody has: not waited for */
    uint8_t kind;        /* enum dp_card of the newest */
    uint16_t bytes;
    uint32_t pid;
    uint8_t *card;
    char node[64];       /* that it came from */
    char told[64];       /* where the plugin saw the task start; "": nobody told */
};

/* How far a node has it. */
struct dp_outlet {
    struct dp_outlet *next;
    char node[64];
    uint32_t cursor;     /* next rank to send */
    int sent;            /* enum dp_roster_state that it was told last, -1: none */
    uint64_t sent_ns;
};

struct dp_roster {
    struct dp_roster *next;
    uint32_t step_id, n_workers;
    enum dp_roster_state state;
    bool has_key, has_warned;
    uint8_t key[DP_KEY_BYTES];
    uint32_t n_taken;      /* a copy: cards so far */
    uint64_t began_ns, deadline_ns; /* 0: no card yet */
    uint32_t speaker;      /* of the text */
    char text[1024];
    struct dp_outlet *outlets;
    struct dp_roster_entry entry[]; /* n_workers */
};

/* Nobody has come yet. n_workers: 1..DP_MAX_WORKERS, the caller has checked. NULL: no memory. */
struct dp_roster *dp_roster_create(uint32_t step_id, uint32_t n_workers);
/* Overwrites the run's key; NULL is fine. The caller takes it out of its list first. */
void dp_roster_destroy(struct dp_roster *r);

/* A worker's card, or that it refuses or is lost. node and pid: as its daemon knows them; m->key: opened. A card that
 * comes again changes nothing. The state may change. After FAILED or GO another process in a rank begins a new round.
 * returns: 0, or -1 and why this card is refused; the others go on. */
int dp_roster_put(struct dp_roster *r, const char *node, uint32_t pid, const struct dp_msg_card *m, uint64_t now_ns,
                  struct dp_err *err);
/* All that have come are told why. Without effect after GO. */
void dp_roster_fail(struct dp_roster *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The time is over: why, of those that refuse. returns false: nobody refuses. */
bool dp_roster_fail_refused(struct dp_roster *r);
/* "worker 3 on n2, worker 5 and 2 more". returns how many are missing. */
uint32_t dp_roster_missing(const struct dp_roster *r, char *out, size_t cap);
/* The lowest rank that came and does not refuse, else the lowest that came; DP_NOBODY: worker 0 refuses, and has said it. */
uint32_t dp_roster_speaker(const struct dp_roster *r);

/* Cards from this rank on, as many as fit into cards (DP_ROSTER_CHUNK bytes); m's other fields are the caller's.
 * returns: the next rank. */
uint32_t dp_roster_piece(const struct dp_roster *r, uint32_t first, uint8_t *cards, struct dp_msg_roster *m);
/* The same, of a copy. Out of order: -1. */
int dp_roster_take(struct dp_roster *r, const struct dp_msg_roster *m, struct dp_err *err);
void dp_roster_forget_cards(struct dp_roster *r);

/* How far this node has it; made where there is none. NULL: no memory. */
struct dp_outlet *dp_roster_outlet(struct dp_roster *r, const char *node);

#endif
