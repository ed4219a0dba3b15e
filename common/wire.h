/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounded reading and writing of big-endian fields.
 *
 * Both ends are sticky: after the first field that does not fit, `bad` stays set, reads give 0 and
 * writes do nothing, so a codec can be a straight list of fields with one test at its end.
 */
#ifndef DP_COMMON_WIRE_H
#define DP_COMMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_reader {
    const uint8_t *p, *end;
    bool bad;
    uint16_t version; /* of the protocol that the bytes are of (msg.h), 0: our own */
};

struct dp_writer {
    uint8_t *start, *p, *end;
    bool bad;
    uint16_t version; /* that is written, 0: our own */
};

/* Borrow the bytes; in our own version of the protocol unless the caller sets `version`. */
void dp_reader_init(struct dp_reader *r, const void *data, size_t bytes);
void dp_writer_init(struct dp_writer *w, void *data, size_t bytes);

/* Bytes written so far. */
size_t dp_writer_used(const struct dp_writer *w);

/* True when everything was read and nothing is left over: trailing bytes are an error. */
bool dp_reader_at_end(const struct dp_reader *r);

/* The next field, unsigned and big-endian; f64: the 64 bits of an IEEE 754 number, of which any are taken (NaN, too).
 * Past the end: bad is set and the value is 0; dp_rd_bytes() fills `out` with zeroes then. */
uint8_t dp_rd_u8(struct dp_reader *r);
uint16_t dp_rd_u16(struct dp_reader *r);
uint32_t dp_rd_u32(struct dp_reader *r);
uint64_t dp_rd_u64(struct dp_reader *r);
double dp_rd_f64(struct dp_reader *r);
void dp_rd_bytes(struct dp_reader *r, void *out, size_t bytes);
/* A string: u16 length, then that many bytes. Sets bad when it does not fit into cap with its NUL,
 * or holds a control byte (0x00-0x1f, 0x7f): no text from a peer can forge a log line. */
void dp_rd_str(struct dp_reader *r, char *out, size_t cap);

/* Append a field. What does not fit is left out as a whole, and bad is set. */
void dp_wr_u8(struct dp_writer *w, uint8_t v);
void dp_wr_u16(struct dp_writer *w, uint16_t v);
void dp_wr_u32(struct dp_writer *w, uint32_t v);
void dp_wr_u64(struct dp_writer *w, uint64_t v);
void dp_wr_f64(struct dp_writer *w, double v); /* the IEEE 754 bits, as u64 */
void dp_wr_bytes(struct dp_writer *w, const void *data, size_t bytes);
void dp_wr_str(struct dp_writer *w, const char *text); /* control bytes become '?' */

#endif
