/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of a journal, in memory: records as they are written, found and read back. No files here
 * (journal.h), so what a stranger's bytes can do is tried at the speed of memory (tests/fuzz).
 *
 * Layout: 8 bytes "DPJRNL1\n", then records: len u32 | crc32c u32 | seq u64 | type u8 | payload, all
 * big-endian; len counts the payload, the checksum covers everything of the record but itself, seq
 * is 1, 2, 3 ...
 */
#ifndef DP_COMMON_FILE_JOURNAL_RECORD_H
#define DP_COMMON_FILE_JOURNAL_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* What a scan believes of a length; daemon/coord/records/journal.c says what the largest record takes. */
#define DP_JOURNAL_PAYLOAD_MAX 4096u
#define DP_JOURNAL_MAGIC "DPJRNL1\n"
#define DP_JOURNAL_MAGIC_BYTES 8u
#define DP_JOURNAL_HEAD_BYTES 17u /* len, crc, seq, type */

/* Called for each record in order. Anything but 0 ends the reading with the error that it set. */
typedef int (*dp_journal_fn)(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err);

struct dp_journal_extent {
    size_t end;   /* where the good records end; what lies behind is a torn tail */
    uint64_t seq; /* of the last one */
};

/* out: room for DP_JOURNAL_HEAD_BYTES + bytes. bytes: DP_JOURNAL_PAYLOAD_MAX at most.
 * returns how long the record is. */
size_t dp_journal_record_encode(uint8_t *out, uint64_t seq, uint8_t type, const void *payload, size_t bytes);

/* Find the end of the good records. A record that is wrong with a good one behind it is damage, not
 * the end of an append that a crash cut short: DP_ECORRUPT. returns 0 or -1. */
int dp_journal_scan(const uint8_t *data, size_t bytes, struct dp_journal_extent *out, struct dp_err *err);

/* Give every record before `end`, which dp_journal_scan() found, to fn. returns 0, or -1 and what fn set. */
int dp_journal_replay(const uint8_t *data, size_t end, dp_journal_fn fn, void *arg, struct dp_err *err);

#endif
