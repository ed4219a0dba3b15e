/* SPDX-License-Identifier: BSD-3-Clause */
/* An append-only file of records that are durable before the append returns (journal_record.h has the
 * bytes). One process holds a journal at a time (an OFD lock, so a forked child that wants to outlive
 * its parent must close its descriptors first).
 *
 * What an append leaves behind when it fails decides what its caller may say, so there are three
 * answers, not two. A journal mends itself: it is written anew from what its owner knows (a new file,
 * then its name) when a write failed, and when it has grown.
 */
#ifndef DP_COMMON_FILE_JOURNAL_H
#define DP_COMMON_FILE_JOURNAL_H

#include "common/file/journal_record.h"

/* No journal is larger. Reading one of this size takes some 20 ms, and the daemon does it in its event loop. */
#define DP_JOURNAL_MAX_BYTES (16u << 20)
#define DP_JOURNAL_COMPACT_BYTES (256u << 10) /* written anew from here on, when it has doubled since the last time */

struct dp_journal;

/* Append what counts now, as records, to the journal that is given. */
typedef int (*dp_journal_fill_fn)(void *arg, struct dp_journal *fresh, struct dp_err *err);

enum dp_journal_fate {
    DP_JOURNAL_DURABLE = 0,
    DP_JOURNAL_ABSENT = -1,   /* the record is not in the journal, whatever happens */
    DP_JOURNAL_DOUBTFUL = -2, /* it may be there or not, until dp_journal_settle() returns 0: then it is not */
};

/* Open, or create (temporary name, fsync, rename, fsync of the folder), lock, and replay. What is found
 * is durable before it is replayed. A torn tail - the end of an append that a crash cut short - is cut
 * off; damage (journal_record.h) changes nothing: DP_ECORRUPT.
 * replay, fill: either may be NULL; both get arg. fill is called during later appends, never at once.
 * returns NULL on failure (DP_EIO, DP_ECORRUPT, or what replay set). */
struct dp_journal *dp_journal_open(const char *path, dp_journal_fn replay, dp_journal_fill_fn fill, void *arg,
                                   struct dp_err *err);
void dp_journal_destroy(struct dp_journal *j);

/* Append one record and fdatasync it. A write that fails is tried once more in a new file. After
 * DOUBTFUL every append first writes the journal anew, without that record. */
enum dp_journal_fate dp_journal_append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes,
                                       struct dp_err *err);

/* Make the file hold the records that were confirmed and nothing else. returns 0; or -1, to be tried again
 * (a second later at the earliest; until then it fails at once). */
int dp_journal_settle(struct dp_journal *j, struct dp_err *err);

/* Keep room for so many bytes of records, with their heads, behind what is there: a full disk does not
 * fail them then. A file system that cannot promise this is not an error. returns 0, or -1: no room. */
int dp_journal_reserve(struct dp_journal *j, size_t bytes, struct dp_err *err);

/* Replace the contents by what fill appends, in one step: after a crash either all old or all new records
 * are there. On failure the old ones stay. */
int dp_journal_compact(struct dp_journal *j, struct dp_err *err);

uint64_t dp_journal_bytes(const struct dp_journal *j);     /* size of the file */
uint64_t dp_journal_cut_bytes(const struct dp_journal *j); /* torn tail that opening removed */
/* Why the newest record, or the settling since, failed; NULL when it did not. Valid until the next append. */
const char *dp_journal_trouble(const struct dp_journal *j);

#endif
