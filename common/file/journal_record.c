/* SPDX-License-Identifier: BSD-3-Clause */
/* See journal_record.h. Rubbish may follow the last record only at the very end, so a later good record
 * turns "torn" into "damaged". The search for one costs a look at every byte of the tail, and a
 * checksum only where length and number could be a record's: a tail that has such places everywhere was
 * made by somebody, and is damage without a further look.
 */
#include "config.h"

#include "common/file/journal_record.h"

#include <stdbool.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/wire.h"

#define SEARCH_BYTES (64u << 20) /* checksummed in search of a record behind a torn one */

static uint32_t record_crc(const uint8_t *record, size_t bytes)
{
    uint8_t head[13];
    uint32_t crc;

    memcpy(head, record, 4);
    memcpy(head + 4, record + 8, 9);
    crc = dp_crc32c(0, head, sizeof head);
    return dp_crc32c(crc, record + DP_JOURNAL_HEAD_BYTES, bytes);
}

size_t dp_journal_record_encode(uint8_t *out, uint64_t seq, uint8_t type, const void *payload, size_t bytes)
{
    struct dp_writer w;

    dp_writer_init(&w, out, DP_JOURNAL_HEAD_BYTES + bytes);
    dp_wr_u32(&w, (uint32_t)bytes);
    dp_wr_u32(&w, 0);
    dp_wr_u64(&w, seq);
    dp_wr_u8(&w, type);
    dp_wr_bytes(&w, payload, bytes);
    w.p = out + 4;
    dp_wr_u32(&w, record_crc(out, bytes));
    return DP_JOURNAL_HEAD_BYTES + bytes;
}

struct head {
    uint32_t len, crc;
    uint64_t seq;
};

/* Is there room for the record that these bytes announce? */
static bool read_head(const uint8_t *p, size_t left, struct head *h)
{
    struct dp_reader r;

    if (left < DP_JOURNAL_HEAD_BYTES)
        return false;
    dp_reader_init(&r, p, DP_JOURNAL_HEAD_BYTES);
    h->len = dp_rd_u32(&r);
    h->crc = dp_rd_u32(&r);
    h->seq = dp_rd_u64(&r);
    return h->len <= DP_JOURNAL_PAYLOAD_MAX && h->len <= left - DP_JOURNAL_HEAD_BYTES;
}

/* Is there a good record anywhere from `at` on? */
static bool has_good_record(const uint8_t *data, size_t bytes, size_t at, uint64_t seq)
{
    size_t budget = SEARCH_BYTES;

    for (; at + DP_JOURNAL_HEAD_BYTES <= bytes; at++) {
        struct head h;

        if (!read_head(data + at, bytes - at, &h) || h.seq < seq || h.seq - seq > bytes)
            continue;
        if (budget < h.len || record_crc(data + at, h.len) == h.crc)
            return true;
        budget -= h.len;
    }
    return false;
}

int dp_journal_scan(const uint8_t *data, size_t bytes, struct dp_journal_extent *out, struct dp_err *err)
{
    size_t at = DP_JOURNAL_MAGIC_BYTES;
    uint64_t seq = 0;
    struct head h;

    if (bytes < DP_JOURNAL_MAGIC_BYTES || memcmp(data, DP_JOURNAL_MAGIC, DP_JOURNAL_MAGIC_BYTES))
        return dp_err_set(err, DP_ECORRUPT, "not a journal");
    while (read_head(data + at, bytes - at, &h) && h.seq == seq + 1 && record_crc(data + at, h.len) == h.crc) {
        seq++;
        at += DP_JOURNAL_HEAD_BYTES + h.len;
    }
    if (at < bytes && has_good_record(data, bytes, at + 1, seq + 1))
        return dp_err_set(err, DP_ECORRUPT, "record %llu at byte %zu is damaged, followed by good ones",
                          (unsigned long long)(seq + 1), at);
    *out = (struct dp_journal_extent){at, seq};
    return 0;
}

int dp_journal_replay(const uint8_t *data, size_t end, dp_journal_fn fn, void *arg, struct dp_err *err)
{
    struct head h;

    for (size_t at = DP_JOURNAL_MAGIC_BYTES; at < end && read_head(data + at, end - at, &h);
         at += DP_JOURNAL_HEAD_BYTES + h.len)
        if (fn(arg, data[at + DP_JOURNAL_HEAD_BYTES - 1], data + at + DP_JOURNAL_HEAD_BYTES, h.len, err))
            return -1;
    return 0;
}
