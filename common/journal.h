/* An append-only file of records that are durable before the append returns.
 *
 * Layout: 8 bytes "DPJRNL1\n", then records: len u32 | crc32c u32 | seq u64 | type u8 | payload, all
 * big-endian; len counts the payload, the checksum covers everything of the record but itself, seq
 * is 1, 2, 3 ... One process holds a journal at a time (an OFD lock, so a forked child that wants to
 * outlive its parent must close its descriptors first).
 */
#ifndef DP_COMMON_JOURNAL_H
#define DP_COMMON_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define DP_JOURNAL_PAYLOAD_MAX 4096u

struct dp_journal;

/* Called for each record in order. Anything but 0 ends the opening with the error that it set. */
typedef int (*dp_journal_fn)(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err);

/* Open, or create (temporary name, fsync, rename, fsync of the folder), lock, and replay.
 * A torn tail - the end of an append that a crash cut short - is cut off. A record that is wrong with
 * a good one behind it is damage, not a crash: DP_ECORRUPT, nothing is changed.
 * replay may be NULL. returns NULL on failure (DP_EIO, DP_ECORRUPT, or what replay set). */
struct dp_journal *dp_journal_open(const char *path, dp_journal_fn replay, void *arg, struct dp_err *err);
void dp_journal_destroy(struct dp_journal *j);

/* Append one record and fdatasync it. returns 0, or -1 and the record is not to be relied on. A full
 * disk is no end: the next append may work again. After a failed fdatasync every later append fails,
 * because what the kernel has dropped cannot be known. */
int dp_journal_append(struct dp_journal *j, uint8_t type, const void *payload, size_t bytes, struct dp_err *err);

/* Replace the contents by the records that `fill` appends (to the journal it is given), in one step:
 * after a crash either all old or all new records are there. On failure the old ones stay. */
typedef int (*dp_journal_fill_fn)(void *arg, struct dp_journal *fresh, struct dp_err *err);
int dp_journal_compact(struct dp_journal *j, dp_journal_fill_fn fill, void *arg, struct dp_err *err);

uint64_t dp_journal_bytes(const struct dp_journal *j);     /* size of the file */
uint64_t dp_journal_cut_bytes(const struct dp_journal *j); /* torn tail that opening removed */

#endif
