/* SPDX-License-Identifier: BSD-3-Clause */
/* What two workers send each other against the bytes in peer_messages_golden.h: a step's sums and its order, counters, the
 * agreement after a failure, an entry of a checkpoint, a hand-over's notes and streams, a stage message. Everything goes
 * through ucp_tag_send_nbx, which stands here before UCX's own and writes it down. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include "common/clock.h"
#include "tests/unit/worker/engine.h"
#include "tests/unit/worker/peer_messages_golden.h"
#include "tests/unit/worker/procs.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/handover/transfer.h"
#include "worker/handover/voting.h"
#include "worker/step/step_sync.h"

#define STEP 7
#define MIGRATION 0x15u
#define BIG 9000 /* more than goes into one message with its header */

static struct {
    uint64_t tag;
    size_t bytes;
    uint8_t data[12288];
} sent[32];
static size_t n_sent;

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *data, size_t bytes, ucp_tag_t tag, const ucp_request_param_t *param)
{
    static ucs_status_ptr_t (*real)(ucp_ep_h, const void *, size_t, ucp_tag_t, const ucp_request_param_t *);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ucp_tag_send_nbx");
    if (n_sent < sizeof sent / sizeof sent[0] && bytes <= sizeof sent[0].data) {
        sent[n_sent].tag = tag;
        sent[n_sent].bytes = bytes;
        memcpy(sent[n_sent].data, data, bytes);
    }
    n_sent++;
    return real(ep, data, bytes, tag, param);
}

/* Digits of a byte that is there; '.' is any. */
static bool fits(const char *digits, uint8_t byte)
{
    char two[3];

    snprintf(two, sizeof two, "%02x", byte);
    return (digits[0] == '.' || digits[0] == two[0]) && (digits[1] == '.' || digits[1] == two[1]);
}

/* The first byte of the i-th message that differs, or SIZE_MAX. */
static size_t difference(size_t i, const struct golden_sent *should)
{
    size_t n = should->bytes ? strlen(should->bytes) / 2 : 0;

    for (size_t at = 0; at < sent[i].bytes || at < n + should->zeros; at++) {
        if (at >= sent[i].bytes || at >= n + should->zeros)
            return at;
        if (at < n ? !fits(should->bytes + 2 * at, sent[i].data[at])
                   : sent[i].data[at] != (should->bytes ? 0 : (uint8_t)at))
            return at;
    }
    return SIZE_MAX;
}

/* returns: 0, or 1 and says what differs. In a child: cmocka's checks would jump into its parent's test. */
static int compare(uint32_t rank, const struct golden_sent *should, size_t n)
{
    for (size_t i = 0; i < n && i < n_sent; i++) {
        size_t at = difference(i, &should[i]);

        if (at == SIZE_MAX && sent[i].tag == should[i].tag)
            continue;
        fprintf(stderr, "# worker %u: message %zu, %s, with tag 0x%016llx should have 0x%016llx, differs at byte %zd, and is\n# ",
                rank, i, should[i].name, (unsigned long long)sent[i].tag, (unsigned long long)should[i].tag, (ssize_t)at);
        for (size_t k = 0; k < sent[i].bytes && k < 800; k++)
            fprintf(stderr, "%02x", sent[i].data[k]);
        fputc('\n', stderr);
        return 1;
    }
    if (n_sent != n)
        fprintf(stderr, "# worker %u: %zu messages, should be %zu\n", rank, n_sent, n);
    return n_sent != n;
}

static int sums_and_verdicts(struct dp_collectives *s, const struct dp_train_config *c)
{
    static const double squares[2][2] = {{1.5, 2.5}, {4.0}}, losses[] = {0.5, 0.25};
    const struct dp_step_part part = {.requests = s->rank == 1 ? DP_REQUEST_SAVE : 0, .squares = squares[s->rank], .losses = losses};
    static const size_t offset[] = {0, 0, sizeof(struct dp_ckpt_entry)};
    uint64_t counts[] = {0x0102030405060708 + s->rank, 0x1112131415161718 + s->rank};
    struct dp_ckpt_entry entry = {.bytes = 0x2122232425262728}, all[1];
    struct dp_step_order order;
    struct dp_err err = {0};

    for (unsigned i = 0; i < DP_DIGEST_BYTES; i++)
        entry.digest[i] = (uint8_t)(0x40 + i);
    if (dp_step_sync(s, c, STEP, &part, &(struct dp_reached){0}, 5, &(struct dp_step_shadow){0}, &order, &err) < 0 ||
        dp_collectives_allreduce(s, counts, 2, &err) < 0)
        return 11;
    if (s->rank == 1)
        dp_err_set(&err, DP_ECORRUPT, "layer 2: damaged");
    if (dp_collectives_agree(s, s->rank == 1 ? -1 : 0, &err) == 0 || err.code != DP_ECORRUPT)
        return 12;
    if (dp_collectives_gather(s, &entry, s->rank == 1 ? sizeof entry : 0, all, offset, &err) < 0)
        return 13;
    return 0;
}

static int notes(struct dp_transport *t, const struct dp_layout *layout, uint32_t rank)
{
    const struct dp_voting v = {.transport = t, .layout = layout, .rank = rank, .step = STEP, .migration = MIGRATION};
    enum dp_voting_message mine = rank ? DP_VOTING_READY : DP_VOTING_VERDICT, other = rank ? DP_VOTING_VERDICT : DP_VOTING_READY;
    struct dp_note n = {.yes = rank == 0};
    struct dp_transport_request *in, *out = NULL;
    uint8_t bytes[DP_NOTE_BYTES], got[DP_NOTE_BYTES];
    struct dp_err err = {0};

    if (rank == 0)
        for (unsigned i = 0; i < DP_DIGEST_BYTES; i++)
            n.digest[i] = (uint8_t)(0x40 + i);
    else
        snprintf(n.text, sizeof n.text, "no room");
    in = dp_transport_recv(t, !rank, dp_voting_tag(&v, other), got, sizeof got, &err);
    if (rank == 0) {
        dp_voting_tell(&v, mine, &n);
    } else {
        dp_note_encode(bytes, MIGRATION, &n);
        out = dp_transport_send(t, 0, dp_voting_tag(&v, mine), bytes, sizeof bytes, &err);
        if (!out || dp_transport_wait(t, out, 0, NULL, &err) < 0)
            return 21;
    }
    if (!in || dp_transport_wait(t, in, 0, NULL, &err) < 0 || dp_note_decode(got, MIGRATION, &n, &err) < 0)
        return 22;
    return n.yes == (rank == 1) ? 0 : 23;
}

/* The head goes from worker 1 to worker 0; then another hand-over is given up before it begins. */
static int streams(const struct dp_handover_args *args)
{
    static const struct dp_moves moves = {.n = 1, .move = {{.layer = 2, .from = 1, .to = 0}}};
    struct dp_err err = {0};
    struct dp_transfer *s = dp_transfer_create(args, MIGRATION, &moves, args->layout, &err);
    int rc;

    if (!s)
        return 31;
    while ((rc = dp_transfer_step(s, &err)) == 0)
        dp_transport_idle(args->transport, DP_MS_NS);
    dp_transfer_destroy(s, NULL);
    if (rc < 0)
        return 32;
    s = dp_transfer_create(args, MIGRATION + 1, &moves, args->layout, &err);
    if (!s)
        return 33;
    dp_transfer_stop(s, 60 * DP_SECOND_NS);
    dp_transfer_destroy(s, NULL);
    return 0;
}

static int stage_message(struct dp_transport *t, uint32_t rank)
{
    static uint8_t data[BIG];
    uint64_t tag = dp_tag(DP_CH_ACTIVATION, 0x11, STEP, 3);
    struct dp_err err = {0};
    struct dp_transport_request *x;

    for (size_t i = 0; rank == 0 && i < BIG; i++)
        data[i] = (uint8_t)i;
    x = rank == 0 ? dp_transport_send(t, 1, tag, data, BIG, &err) : dp_transport_recv(t, 0, tag, data, BIG, &err);
    return x && dp_transport_wait(t, x, 0, NULL, &err) == 0 ? 0 : 41;
}

/* The tied head of layers_golden.h, whose bytes are in the chunk. */
static struct dp_stage *golden_stage(const struct dp_train_config *c, struct dp_backend *be, const struct dp_tune *tune,
                                     uint32_t rank)
{
    struct dp_stage *s = rank ? stage_of(c, 2, 3, be, tune) : stage_of(c, 0, 2, be, tune);
    struct dp_layer *l = dp_stage_layer(s, 0);

    l->rng_key = 0x0102030405060708;
    l->rng_counter = 0x1112131415161718;
    for (uint32_t i = 0; rank && i < l->n_params; i++)
        for (int64_t e = 0; e < l->param[i].n; e++) {
            l->param[i].w[e] = (float)(16.0 * i + (double)e / 4.0);
            if (l->param[i].m) {
                l->param[i].m[e] = l->param[i].w[e] + 0.5f;
                l->param[i].v[e] = l->param[i].w[e] + 0.25f;
            }
        }
    return s;
}

static int body(struct dp_transport *t, uint32_t rank)
{
    struct dp_layout layout = {.epoch = 0x11, .n_workers = 2, .n_layers = 3, .cut = {0, 2, 3}};
    struct dp_train_config c = tiny_config();
    struct dp_backend *be = cpu();
    struct dp_tune tune = {0};
    struct dp_collectives s;
    struct dp_stage *stage;
    struct dp_handover_args args;
    int rc;

    c.model.blocks = 1;
    c.model.channels = 4;
    c.model.heads = 1;
    c.model.context = 1;
    c.model.vocabulary = 2;
    c.model.tied_head = true;
    c.train.batch = 1;
    c.train.microbatches = 2;
    c.data.eval_every = 0;
    c.prune.begin = c.prune.end = 0;
    snprintf(c.checkpoint.dir, sizeof c.checkpoint.dir, "x");
    stage = golden_stage(&c, be, &tune, rank);
    dp_collectives_init(&s, t, &layout, rank);
    args = (struct dp_handover_args){.transport = t, .rank = rank, .layout = &layout, .stage = &stage, .config = &c,
                                     .backend = be, .tune = &tune, .step = STEP};
    rc = sums_and_verdicts(&s, &c);
    if (!rc)
        rc = notes(t, &layout, rank);
    if (!rc)
        rc = streams(&args);
    if (!rc)
        rc = stage_message(t, rank);
    dp_stage_destroy(stage);
    dp_backend_destroy(be);
    if (rc)
        return rc;
    return rank ? compare(rank, golden_sent_by_1, sizeof golden_sent_by_1 / sizeof golden_sent_by_1[0])
                : compare(rank, golden_sent_by_0, sizeof golden_sent_by_0 / sizeof golden_sent_by_0[0]);
}

static void workers_send_these_bytes(void **state)
{
    (void)state;
    procs_run(2, (procs_body_fn *[]){body, body}, (int[]){0, 0}, false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(workers_send_these_bytes),
};
TEST_MAIN("peer_messages", tests)
