/* SPDX-License-Identifier: BSD-3-Clause */
/* What a user has of the daemon's time: a bucket that fills steadily and that everything he sends empties a little.
 * Who is below zero is not refused: what he sends next waits in the kernel. Root and the daemon's own user are not
 * held to it. A TCP connection has part in the share of its address until its user is known.
 */
#ifndef DP_DAEMON_NET_SHARE_H
#define DP_DAEMON_NET_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct dp_bucket {
    double level; /* may be below 0: the last one that fitted in was larger */
    uint64_t at_ns; /* 0: full */
};

/* Is there anything in it? per_s flows in, up to burst. */
bool dp_bucket_has(struct dp_bucket *b, double per_s, double burst, uint64_t now_ns);

/* One unit is some 25 us of the event loop. */
#define DP_UNITS_PER_S 2000.0
#define DP_UNITS_BURST 4000.0

struct dp_share {
    struct dp_share *next;
    uint32_t id; /* uid, or IPv4 address in network order */
    bool is_known; /* address: a daemon has come from there; stays */
    uint32_t n_conns, n_in_line, n_in_turn; /* the others: of them, callers who wait to be looked at, and who are */
    uint32_t n_throttled; /* of n_conns: they wait for units, and who comes later waits behind them */
    struct dp_bucket units, lines; /* lines: of the log */
    struct dp_bucket lookups;      /* of jobs that nobody registered, seek.c */
    uint32_t n_unsaid;             /* lines that were left out since that was said */
    uint64_t said_ns;
};

/* The share of a user or an address, made when there is none. NULL: out of memory. */
struct dp_share *dp_share_of(struct dp_share **list, uint32_t id);
bool dp_share_has_units(struct dp_share *s, uint64_t now_ns);
/* May Slurm be asked once more on this user's word? Counts it. */
bool dp_share_may_look_up(struct dp_share *s, uint64_t now_ns);
/* May another line about this user go to the log? Counts it, or that it was left out. */
bool dp_share_may_log(struct dp_share *s, uint64_t now_ns);
/* How many were left out, every ten seconds and once there is room to say so; 0: nothing to say. */
uint32_t dp_share_unsaid(struct dp_share *s, uint64_t now_ns);
/* Forget those that would be found full by who comes back. */
void dp_share_tidy(struct dp_share **list, uint64_t now_ns);
void dp_share_destroy(struct dp_share **list);

#endif
