/* SPDX-License-Identifier: BSD-3-Clause */
/* See wire.h. */
#include "common/wire.h"

#include <string.h>

void dp_reader_init(struct dp_reader *r, const void *data, size_t bytes)
{
    r->p = data;
    r->end = r->p + bytes;
    r->bad = false;
    r->version = 0;
}

void dp_writer_init(struct dp_writer *w, void *data, size_t bytes)
{
    w->start = w->p = data;
    w->end = w->p + bytes;
    w->bad = false;
    w->version = 0;
}

size_t dp_writer_used(const struct dp_writer *w)
{
    return (size_t)(w->p - w->start);
}

bool dp_reader_at_end(const struct dp_reader *r)
{
    return !r->bad && r->p == r->end;
}

/* The next `bytes` bytes, or NULL (and bad) when there are not that many. */
static const uint8_t *take(struct dp_reader *r, size_t bytes)
{
    const uint8_t *p = r->p;

    if (r->bad || (size_t)(r->end - r->p) < bytes) {
        r->bad = true;
        return NULL;
    }
    r->p += bytes;
    return p;
}

static uint8_t *room(struct dp_writer *w, size_t bytes)
{
    uint8_t *p = w->p;

    if (w->bad || (size_t)(w->end - w->p) < bytes) {
        w->bad = true;
        return NULL;
    }
    w->p += bytes;
    return p;
}

static uint64_t read_be(struct dp_reader *r, size_t bytes)
{
    const uint8_t *p = take(r, bytes);
    uint64_t v = 0;

    for (size_t i = 0; p && i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

static void write_be(struct dp_writer *w, uint64_t v, size_t bytes)
{
    uint8_t *p = room(w, bytes);

    for (size_t i = bytes; p && i-- > 0; v >>= 8)
        p[i] = (uint8_t)v;
}

uint8_t dp_rd_u8(struct dp_reader *r)
{
    return (uint8_t)read_be(r, 1);
}

uint16_t dp_rd_u16(struct dp_reader *r)
{
    return (uint16_t)read_be(r, 2);
}

uint32_t dp_rd_u32(struct dp_reader *r)
{
    return (uint32_t)read_be(r, 4);
}

uint64_t dp_rd_u64(struct dp_reader *r)
{
    return read_be(r, 8);
}

double dp_rd_f64(struct dp_reader *r)
{
    uint64_t bits = read_be(r, 8);
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

void dp_rd_bytes(struct dp_reader *r, void *out, size_t bytes)
{
    const uint8_t *p = take(r, bytes);

    if (p)
        memcpy(out, p, bytes);
    else
        memset(out, 0, bytes);
}

void dp_rd_str(struct dp_reader *r, char *out, size_t cap)
{
    size_t n = dp_rd_u16(r);
    const uint8_t *p = n < cap ? take(r, n) : NULL;

    out[0] = '\0';
    if (!p) {
        r->bad = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (p[i] < 0x20 || p[i] == 0x7f) {
            r->bad = true;
            return;
        }
    memcpy(out, p, n);
    out[n] = '\0';
}

void dp_wr_u8(struct dp_writer *w, uint8_t v)
{
    write_be(w, v, 1);
}

void dp_wr_u16(struct dp_writer *w, uint16_t v)
{
    write_be(w, v, 2);
}

void dp_wr_u32(struct dp_writer *w, uint32_t v)
{
    write_be(w, v, 4);
}

void dp_wr_u64(struct dp_writer *w, uint64_t v)
{
    write_be(w, v, 8);
}

void dp_wr_f64(struct dp_writer *w, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    write_be(w, bits, 8);
}

void dp_wr_bytes(struct dp_writer *w, const void *data, size_t bytes)
{
    uint8_t *p = room(w, bytes);

    if (p && bytes)
        memcpy(p, data, bytes);
}

void dp_wr_str(struct dp_writer *w, const char *text)
{
    size_t n = strlen(text);
    uint8_t *p;

    if (n > UINT16_MAX) {
        w->bad = true;
        return;
    }
    dp_wr_u16(w, (uint16_t)n);
    p = room(w, n);
    for (size_t i = 0; p && i < n; i++) {
        unsigned char c = (unsigned char)text[i];

        p[i] = c < 0x20 || c == 0x7f ? '?' : c;
    }
}
