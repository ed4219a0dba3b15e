/* SPDX-License-Identifier: BSD-3-Clause */
/* See voting.h. */
#include "worker/handover/voting.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

#define NOTE_MAGIC 0x44504e54u /* "DPNT" */
#define TELL_NS UINT64_C(500000000) /* for all workers together: those that live take a message in milliseconds */

void dp_note_encode(uint8_t out[DP_NOTE_BYTES], uint64_t migration, const struct dp_note *n)
{
    struct dp_writer w;

    memset(out, 0, DP_NOTE_BYTES);
    dp_writer_init(&w, out, DP_NOTE_BYTES);
    dp_wr_u32(&w, NOTE_MAGIC);
    dp_wr_u64(&w, migration);
    dp_wr_u8(&w, n->yes);
    dp_wr_bytes(&w, n->digest, sizeof n->digest);
    dp_wr_str(&w, n->text);
}

int dp_note_decode(const uint8_t in[DP_NOTE_BYTES], uint64_t migration, struct dp_note *n, struct dp_err *err)
{
    struct dp_reader r;
    uint32_t magic;
    uint64_t id;

    dp_reader_init(&r, in, DP_NOTE_BYTES);
    magic = dp_rd_u32(&r);
    id = dp_rd_u64(&r);
    n->yes = dp_rd_u8(&r) == 1;
    dp_rd_bytes(&r, n->digest, sizeof n->digest);
    dp_rd_str(&r, n->text, sizeof n->text);
    if (r.bad || magic != NOTE_MAGIC || id != migration)
        return dp_err_set(err, DP_EPROTO, "a note about hand-over %llu where one about %llu was due",
                          (unsigned long long)id, (unsigned long long)migration);
    return 0;
}

/* 4 bits of the migration: a leftover of an earlier attempt at this boundary is never taken. */
uint64_t dp_voting_tag(const struct dp_voting *r, enum dp_voting_message kind)
{
    return dp_tag(DP_CH_VOTING, r->layout->epoch, r->step, (uint32_t)(r->migration & 15) << 12 | (uint32_t)kind);
}

static bool takes_part(const struct dp_voting *r, uint32_t rank)
{
    return rank != r->rank && !r->layout->gone[rank];
}

/* All sends first: one worker that hangs must not keep the verdict from the others. */
void dp_voting_tell(const struct dp_voting *r, enum dp_voting_message kind, const struct dp_note *n)
{
    struct dp_transport_request *x[DP_MAX_WORKERS] = {0};
    uint64_t end = dp_now_ns() + TELL_NS;
    uint8_t buf[DP_NOTE_BYTES];

    dp_note_encode(buf, r->migration, n);
    for (uint32_t i = 0; i < r->layout->n_workers; i++)
        if (takes_part(r, i))
            x[i] = dp_transport_send(r->transport, i, dp_voting_tag(r, kind), buf, sizeof buf, NULL);
    for (uint32_t i = 0; i < r->layout->n_workers; i++) {
        uint64_t now = dp_now_ns();
        struct dp_err err = {0};

        if (x[i] && dp_transport_wait(r->transport, x[i], now < end ? end - now : 1, NULL, &err) < 0 &&
            err.code == DP_ETIMEOUT)
            dp_transport_cancel(r->transport, x[i]);
    }
}

struct dp_voting_gather *dp_voting_gather_create(const struct dp_voting *r, enum dp_voting_message kind,
                                                 size_t (*bytes_of)(void *arg, uint32_t rank), void *arg, struct dp_err *err)
{
    struct dp_voting_gather *g = calloc(1, sizeof *g);

    if (!g) {
        dp_err_set(err, DP_ENOMEM, "no memory to gather notes");
        return NULL;
    }
    g->voting = r;
    for (uint32_t i = 0; i < r->layout->n_workers; i++) {
        size_t bytes = bytes_of ? bytes_of(arg, i) : DP_NOTE_BYTES;

        if (!takes_part(r, i))
            continue;
        g->buf[i] = malloc(bytes);
        if (!g->buf[i])
            dp_err_set(err, DP_ENOMEM, "no memory for a note of %zu bytes", bytes);
        else
            g->x[i] = dp_transport_recv(r->transport, i, dp_voting_tag(r, kind), g->buf[i], bytes, err);
        if (!g->x[i]) {
            dp_voting_gather_destroy(g);
            return NULL;
        }
        g->n_open++;
    }
    return g;
}

void dp_voting_gather_destroy(struct dp_voting_gather *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < DP_MAX_WORKERS; i++) {
        dp_transport_cancel(g->voting->transport, g->x[i]);
        free(g->buf[i]);
    }
    free(g);
}

int dp_voting_gather_step(struct dp_voting_gather *g, uint32_t *rank, struct dp_err *err)
{
    struct dp_transport *t = g->voting->transport;

    for (uint32_t i = 0; g->n_open && i < g->voting->layout->n_workers; i++) {
        struct dp_transport_request *x = g->x[i];

        if (!x || (!dp_transport_test(t, x) && !dp_transport_is_gone(t, i)))
            continue;
        *rank = i;
        g->x[i] = NULL;
        g->n_open--;
        return dp_transport_wait(t, x, 1000000000u, NULL, err) < 0 ? -1 : 1;
    }
    return 0;
}
