/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message: round trip, every truncation refused, trailing bytes refused, fixed sizes kept; and the versions: what
 * an older peer sends and is sent, what a newer one may add. */
#include <math.h>

#include "common/message/msg.h"
#include "tests/unit/common/message/messages_v1.h"
#include "tests/unit/unit.h"

static uint8_t buf[DP_BODY_MAX + 64], again[DP_BODY_MAX + 64];

/* A message whose every byte is in play: counts are set to what the arrays need. */
static uint8_t inner[8] = {0, 0, 0, 0, 0, 0, 0, 5};

static void fill_hello(struct dp_msg_hello *m)
{
    m->rank = 1;
    m->n_workers = 3;
    m->n_layers = 9;
    m->cut[1] = 4;
    m->cut[2] = 4;
    m->cut[3] = 9;
    m->n_changes = 2;
    m->change[0] = (struct dp_change){5, 0.5, DP_CHANGE_PRUNE};
    m->change[1] = (struct dp_change){7, 3, DP_CHANGE_FREEZE};
    snprintf(m->device, sizeof m->device, "cpu");
}

static void fill_report(struct dp_msg_report *m)
{
    m->first_layer = 4;
    m->n_layers = 2;
    m->loss = 1.5;
    m->layer[1].nnz = 77;
}

static void fill_prepare(struct dp_msg_prepare *m)
{
    m->n_workers = 2;
    m->n_layers = 5;
    m->cut[2] = 5;
    m->gone[1] = 1;
}

static void fill_regroup(struct dp_msg_regroup *m)
{
    m->n_workers = 2;
    m->n_layers = 5;
    m->cut[2] = 5;
    m->gone[1] = 1;
}

static void fill_expect(struct dp_msg_expect *m)
{
    m->first_layer = 4;
    m->n_layers = 2;
    m->layer[1].nnz = 77;
}

static void fill_proposal(struct dp_msg_proposal *m)
{
    m->n_workers = 2;
    m->n_layers = 5;
    m->cut[2] = 5;
    m->gone[1] = 1;
}

static void fill_relay(struct dp_msg_relay *m)
{
    m->inner_type = DP_MSG_FINISH;
    m->inner_len = sizeof inner;
    m->inner = inner;
}

static void fill_answer(struct dp_msg_answer *m)
{
    m->json = "{}";
    m->json_len = 2;
}

static void fill_tasks(struct dp_msg_tasks *m)
{
    m->n_tasks = 4;
    m->count = 2;
    m->rank[1] = 3;
    m->pid[1] = 77;
}

static void fill_card(struct dp_msg_card *m)
{
    m->rank = 1;
    m->n_workers = 2;
    m->key_len = DP_KEY_BYTES;
    m->key = (const uint8_t *)"0123456789abcdef";
    m->card_len = sizeof inner;
    m->card = inner;
}

static uint8_t cards[] = {0, 2, 'a', 'b', 0, 0, 0, 1, 'c'};

static void fill_roster(struct dp_msg_roster *m)
{
    m->n_workers = 5;
    m->first = 2;
    m->count = 3;
    m->cards_len = sizeof cards;
    m->cards = cards;
}

static void fill_wireup(struct dp_msg_wireup *m)
{
    m->state = DP_WIREUP_WHOLE;
    m->key_len = DP_SEALED_KEY_BYTES;
    m->key = (const uint8_t *)"0123456789abcdef0123456789abcdef01234567";
}

#define fill_plain(name)                                                                           \
    static void fill_##name(struct dp_msg_##name *m)                                               \
    {                                                                                              \
        memset(m, 0, sizeof *m);                                                                   \
    }
#define FILL_PLAIN(name) fill_plain(name)
#define FILL_PLAIN_3(name) fill_plain(name)
#define FILL_OWN(name)
#define FILL_OF(name, NAME, number, since, kind) FILL_##kind(name)
DP_MESSAGES(FILL_OF)
fill_plain(ack) fill_plain(goodbye)

static uint8_t other[DP_BODY_MAX + 64];

/* buf: a body of n bytes, and one more. Of a newer version that is its tail; of ours, or said to be, it is an error. */
static void a_newer_peer_may_go_on(uint16_t type, size_t n)
{
    size_t bytes;

    memset(buf + n, 0xa5, 40);
    assert_int_equal(dp_msg_recode(type, 200, buf, n + 40, DP_PROTO_VERSION, other, sizeof other, &bytes, NULL), 0);
    assert_int_equal(bytes, n);
    assert_memory_equal(other, buf, n);
    if (n)
        assert_int_not_equal(dp_msg_recode(type, 200, buf, n - 1, DP_PROTO_VERSION, other, sizeof other, &bytes, NULL), 0);
    for (uint16_t v = DP_PROTO_MIN; v < DP_PROTO_VERSION; v++)
        if (dp_proto_agree(v) && dp_msg_since(type) <= v)
            assert_int_not_equal(dp_msg_recode(type, v, buf, n + 40, DP_PROTO_VERSION, other, sizeof other, &bytes, NULL), 0);
}

/* To every older version and back: nothing but what that version does not have is lost. */
static void older_ones_come_back(uint16_t type, size_t n)
{
    static uint8_t back[DP_BODY_MAX + 64], twice[DP_BODY_MAX + 64];
    size_t bytes, ours, theirs;

    for (uint16_t v = DP_PROTO_MIN; v < DP_PROTO_VERSION; v++) {
        if (!dp_proto_agree(v))
            continue;
        if (dp_msg_since(type) > v) {
            assert_int_equal(dp_msg_recode(type, DP_PROTO_VERSION, buf, n, v, other, sizeof other, &bytes, NULL), 1);
            continue;
        }
        assert_int_equal(dp_msg_recode(type, DP_PROTO_VERSION, buf, n, v, other, sizeof other, &bytes, NULL), 0);
        assert_true(bytes <= n);
        assert_int_equal(dp_msg_recode(type, v, other, bytes, DP_PROTO_VERSION, back, sizeof back, &ours, NULL), 0);
        assert_int_equal(dp_msg_recode(type, DP_PROTO_VERSION, back, ours, v, twice, sizeof twice, &theirs, NULL), 0);
        assert_int_equal(theirs, bytes);
        assert_memory_equal(twice, other, bytes);
        for (size_t cut = 0; cut < bytes; cut++)
            assert_int_not_equal(dp_msg_recode(type, v, other, cut, DP_PROTO_VERSION, back, sizeof back, &ours, NULL), 0);
    }
}

#define ROUND_TRIP(name, NAME, type, since, kind)                                                  \
    static void round_trip_##name(void **state)                                                    \
    {                                                                                              \
        struct dp_msg_##name *m = calloc(1, sizeof *m), *back = malloc(sizeof *back);              \
        struct dp_writer w;                                                                        \
        struct dp_reader r;                                                                        \
        struct dp_err err;                                                                         \
        size_t n;                                                                                  \
                                                                                                   \
        (void)state;                                                                               \
        assert_non_null(m);                                                                        \
        assert_non_null(back);                                                                     \
        fill_##name(m);                                                                            \
        dp_writer_init(&w, buf, sizeof buf);                                                       \
        dp_msg_##name##_encode(&w, m);                                                             \
        assert_false(w.bad);                                                                       \
        n = dp_writer_used(&w);                                                                    \
        assert_true(n <= dp_msg_max_body(type));                                                   \
        dp_reader_init(&r, buf, n);                                                                \
        assert_int_equal(dp_msg_##name##_decode(&r, back, &err), 0);                               \
        dp_writer_init(&w, again, sizeof again);                                                   \
        dp_msg_##name##_encode(&w, back);                                                          \
        assert_int_equal(dp_writer_used(&w), n);                                                   \
        assert_memory_equal(again, buf, n);                                                        \
        for (size_t cut = 0; cut < n; cut++) {                                                     \
            dp_reader_init(&r, buf, cut);                                                          \
            assert_int_equal(dp_msg_##name##_decode(&r, back, &err), -1);                          \
        }                                                                                          \
        buf[n] = 0;                                                                                \
        dp_reader_init(&r, buf, n + 1);                                                            \
        assert_int_equal(dp_msg_##name##_decode(&r, back, &err), -1);                              \
        a_newer_peer_may_go_on(type, n);                                                           \
        older_ones_come_back(type, n);                                                             \
        free(m);                                                                                   \
        free(back);                                                                                \
    }
DP_MESSAGES(ROUND_TRIP)

/* Read a body of release 0.1.0 into m, and write it back byte for byte. */
#define FROM_V1(name, m)                                                                           \
    do {                                                                                           \
        struct dp_reader r;                                                                        \
        struct dp_writer w;                                                                        \
        struct dp_err err;                                                                         \
        dp_reader_init(&r, v1_##name, sizeof v1_##name);                                           \
        r.version = 1;                                                                             \
        assert_int_equal(dp_msg_##name##_decode(&r, (m), &err), 0);                                \
        dp_writer_init(&w, again, sizeof again);                                                   \
        w.version = 1;                                                                             \
        dp_msg_##name##_encode(&w, (m));                                                           \
        assert_int_equal(dp_writer_used(&w), sizeof v1_##name);                                    \
        assert_memory_equal(again, v1_##name, sizeof v1_##name);                                   \
        for (size_t cut = 0; cut < sizeof v1_##name; cut++) {                                      \
            dp_reader_init(&r, v1_##name, cut);                                                    \
            r.version = 1;                                                                         \
            assert_int_equal(dp_msg_##name##_decode(&r, (m), &err), -1);                           \
        }                                                                                          \
        memcpy(buf, v1_##name, sizeof v1_##name);                                                  \
        buf[sizeof v1_##name] = 0;                                                                 \
        dp_reader_init(&r, buf, sizeof v1_##name + 1);                                             \
        r.version = 1;                                                                             \
        assert_int_equal(dp_msg_##name##_decode(&r, (m), &err), -1);                               \
        dp_reader_init(&r, v1_##name, sizeof v1_##name);                                           \
        r.version = 1;                                                                             \
        assert_int_equal(dp_msg_##name##_decode(&r, (m), &err), 0);                                \
    } while (0)

static void release_0_1_0_is_understood(void **state)
{
    static struct dp_msg_step_start start;
    static struct dp_msg_hello hello;
    static struct dp_msg_report report;
    static struct dp_msg_prepare prepare;
    static struct dp_msg_decision_ack decided;
    static struct dp_msg_goodbye bye;
    static struct dp_msg_relay relay;
    static struct dp_msg_stop_slot stop;
    static struct dp_msg_welcome welcome;
    static struct dp_msg_ack ack;

    (void)state;
    FROM_V1(step_start, &start);
    assert_string_equal(start.node, "n1");
    assert_true(start.stall_end_s == 0 && start.copies == 0);
    FROM_V1(hello, &hello);
    assert_true(hello.cut[2] == 4 && hello.cut[3] == 9 && hello.steps_total == 100);
    assert_string_equal(hello.options, "");
    assert_int_equal(hello.n_changes, DP_CHANGES_MAX); /* of 81 */
    assert_true(hello.change[0].step == 10 && hello.change[63].step == 90 && hello.change[63].value == 0.9);
    assert_float_equal(dp_changes_value(hello.change, hello.n_changes, DP_CHANGE_PRUNE, 50), 0.9 - 0.9 / 8, 0.01);
    FROM_V1(report, &report);
    assert_true(report.mem_bytes == 6 && report.layer[1].nnz == 77);
    assert_true(!report.lost_ns && !report.ahead_ns && !report.held_ns && !report.copy_layers && !report.copy_bytes);
    FROM_V1(prepare, &prepare);
    assert_true(prepare.migration == 2 && prepare.cut[1] == 5 && prepare.gone[1] == 1 && prepare.coming_bytes == 0);
    FROM_V1(decision_ack, &decided);
    assert_true(decided.epoch == 3 && decided.transfer_ns == 300 && decided.copying_ns == 0);
    FROM_V1(goodbye, &bye);
    assert_string_equal(bye.text, "bye");
    assert_true(isnan(bye.loss));
    FROM_V1(relay, &relay);
    assert_true(relay.inner_type == DP_MSG_GOODBYE && relay.inner_len == sizeof v1_goodbye && relay.restarts == 0);
    FROM_V1(stop_slot, &stop);
    assert_true(stop.incarnation == 3 && stop.grace_ms == 5000 && stop.restarts == 0);
    FROM_V1(welcome, &welcome);
    assert_true(welcome.mode == DP_MODE_BALANCE && !strcmp(welcome.text, "hello") && welcome.copies == 0);
    FROM_V1(ack, &ack);
    assert_int_equal(ack.verdict, DP_VERDICT_FENCED);
}

/* What a RELAY carries is of its version. Neither side answers for what a worker said. */
static void a_relay_carries_its_version(void **state)
{
    struct dp_msg_goodbye bye;
    struct dp_msg_relay relay;
    struct dp_reader r;
    size_t bytes;

    (void)state;
    assert_int_equal(dp_msg_recode(DP_MSG_RELAY, 1, v1_relay, sizeof v1_relay, DP_PROTO_VERSION, buf, sizeof buf, &bytes, NULL), 0);
    dp_reader_init(&r, buf, bytes);
    assert_int_equal(dp_msg_relay_decode(&r, &relay, NULL), 0);
    assert_int_equal(relay.inner_len, sizeof v1_goodbye + 8);
    dp_reader_init(&r, relay.inner, relay.inner_len);
    assert_int_equal(dp_msg_goodbye_decode(&r, &bye, NULL), 0);
    assert_true(isnan(bye.loss));
    assert_int_equal(dp_msg_recode(DP_MSG_RELAY, DP_PROTO_VERSION, buf, bytes, 1, again, sizeof again, &bytes, NULL), 0);
    assert_int_equal(bytes, sizeof v1_relay);
    assert_memory_equal(again, v1_relay, bytes);
    memcpy(buf, v1_relay, sizeof v1_relay);
    buf[sizeof v1_relay - 5] = 0xff; /* length of the text */
    assert_int_equal(dp_msg_recode(DP_MSG_RELAY, 1, buf, sizeof v1_relay, DP_PROTO_VERSION, again, sizeof again, &bytes, NULL), 1);
    buf[12] = 0;
    buf[13] = DP_MSG_CHECK; /* version 1 has none */
    assert_int_equal(dp_msg_recode(DP_MSG_RELAY, 1, buf, sizeof v1_relay, DP_PROTO_VERSION, again, sizeof again, &bytes, NULL), 1);
    buf[13] = DP_MSG_RELAY; /* none within one */
    assert_int_equal(dp_msg_recode(DP_MSG_RELAY, 1, buf, sizeof v1_relay, DP_PROTO_VERSION, again, sizeof again, &bytes, NULL), -1);
}

/* Nor does version 1 have a word for what trainers that are not ours say and hear: who speaks it is not told, and goes on. */
static void trainers_say_nothing_to_version_1(void **state)
{
    static struct dp_msg_expect expect = {.rank = 1, .step = 9, .n_layers = 2};
    static struct dp_msg_proposal proposal = {.number = 1, .n_workers = 2, .n_layers = 4, .cut = {0, 3, 4}};
    struct dp_msg_relay relay = {.job_id = 7, .rank = 1, .inner = again};
    struct dp_writer w;
    size_t bytes;

    (void)state;
    for (int is_up = 0; is_up < 2; is_up++) {
        relay.inner_type = is_up ? DP_MSG_EXPECT : DP_MSG_PROPOSAL;
        assert_int_equal(dp_msg_since(relay.inner_type), 3);
        dp_writer_init(&w, again, sizeof again);
        if (is_up)
            dp_msg_expect_encode(&w, &expect);
        else
            dp_msg_proposal_encode(&w, &proposal);
        relay.inner_len = (uint32_t)dp_writer_used(&w);
        assert_int_equal(dp_msg_recode(relay.inner_type, DP_PROTO_VERSION, again, relay.inner_len, 1, buf, sizeof buf, &bytes, NULL), 1);
        dp_writer_init(&w, buf, sizeof buf);
        dp_msg_relay_encode(&w, &relay);
        bytes = dp_writer_used(&w);
        assert_int_equal(dp_msg_recode(DP_MSG_RELAY, DP_PROTO_VERSION, buf, bytes, DP_PROTO_VERSION, other, sizeof other, &bytes, NULL), 0);
        assert_int_equal(dp_msg_recode(DP_MSG_RELAY, DP_PROTO_VERSION, buf, bytes, 1, other, sizeof other, &bytes, NULL), 1);
    }
}

/* A plugin of release 0.1.0 starts the tasks on an answer that it does not know. */
static void later_is_a_no_to_an_old_plugin(void **state)
{
    struct dp_msg_ack ack = {.verdict = DP_VERDICT_LATER};
    struct dp_writer w;

    (void)state;
    dp_writer_init(&w, buf, sizeof buf);
    dp_msg_ack_encode(&w, &ack);
    assert_int_equal(buf[0], DP_VERDICT_LATER);
    dp_writer_init(&w, buf, sizeof buf);
    w.version = 1;
    dp_msg_ack_encode(&w, &ack);
    assert_int_equal(buf[0], DP_VERDICT_FENCED);
}

static void the_lower_version_is_spoken(void **state)
{
    (void)state;
    assert_int_equal(dp_proto_agree(0), 0);
    assert_int_equal(dp_proto_agree(1), 1);
    assert_int_equal(dp_proto_agree(2), 0);
    assert_int_equal(dp_proto_agree(DP_PROTO_VERSION), DP_PROTO_VERSION);
    assert_int_equal(dp_proto_agree(200), DP_PROTO_VERSION);
    assert_int_equal(dp_proto_agree(UINT16_MAX), DP_PROTO_VERSION);
}

static void refuses_counts_past_the_array(void **state)
{
    struct dp_msg_hello *h = calloc(1, sizeof *h);
    struct dp_writer w;
    struct dp_reader r;
    struct dp_err err;

    (void)state;
    assert_non_null(h);
    fill_hello(h);
    dp_writer_init(&w, buf, sizeof buf);
    dp_msg_hello_encode(&w, h);
    memset(buf + 12, 0xff, 4); /* n_workers */
    dp_reader_init(&r, buf, dp_writer_used(&w));
    assert_int_equal(dp_msg_hello_decode(&r, h, &err), -1);
    memset(h, 0, sizeof *h);
    fill_hello(h);
    dp_writer_init(&w, buf, sizeof buf);
    dp_msg_hello_encode(&w, h);
    buf[dp_writer_used(&w) - 2 * 17 - 1] = DP_CHANGES_MAX + 1;
    dp_reader_init(&r, buf, sizeof buf);
    assert_int_equal(dp_msg_hello_decode(&r, h, &err), -1);
    assert_non_null(strstr(err.text, "65 changes"));
    free(h);
}

/* What a release without the list says of pruning is a word from the wire like any other. */
static void no_changes_come_of_nonsense(void **state)
{
    static const struct {
        uint64_t begin, end;
        double final;
        uint32_t n;
    } say[] = {{0, 0, 0.9, 0}, {9, 8, 0.9, 0}, {0, 9, 0.0, 0}, {0, 9, NAN, 0}, {0, 9, 1.0, 0}, {0, 9, -1.0, 0},
               {0, UINT64_MAX, 0.9, DP_CHANGES_MAX}, {8, 8, 0.9, 1}};
    struct dp_msg_hello *h = calloc(1, sizeof *h);
    struct dp_writer w;
    struct dp_reader r;

    (void)state;
    assert_non_null(h);
    for (size_t i = 0; i < sizeof say / sizeof say[0]; i++) {
        memset(h, 0, sizeof *h);
        fill_hello(h);
        h->prune_begin = say[i].begin;
        h->prune_end = say[i].end;
        h->final_sparsity = say[i].final;
        dp_writer_init(&w, buf, sizeof buf);
        w.version = 1;
        dp_msg_hello_encode(&w, h);
        dp_reader_init(&r, buf, dp_writer_used(&w));
        r.version = 1;
        assert_int_equal(dp_msg_hello_decode(&r, h, NULL), 0);
        assert_int_equal(h->n_changes, say[i].n);
        assert_int_equal(dp_changes_check(h->change, h->n_changes, h->n_layers, NULL), 0);
    }
    free(h);
}

/* What a peer counts is what he sends. */
static void a_roster_is_refused_that_does_not_add_up(void **state)
{
    struct dp_msg_roster m = {0}, back;
    struct dp_writer w;
    struct dp_reader r;
    struct dp_err err;

    (void)state;
    for (int i = 0; i < 5; i++) {
        fill_roster(&m);
        m.count += i == 0;              /* more cards than bytes */
        m.count -= i == 1;              /* bytes that no card has */
        m.first = i == 2 ? 3 : m.first; /* beyond the last rank */
        m.n_workers = i == 3 ? DP_MAX_WORKERS + 1 : m.n_workers;
        cards[0] = i == 4 ? 0xff : 0;   /* a card beyond the largest */
        dp_writer_init(&w, buf, sizeof buf);
        dp_msg_roster_encode(&w, &m);
        dp_reader_init(&r, buf, dp_writer_used(&w));
        assert_int_equal(dp_msg_roster_decode(&r, &back, &err), -1);
    }
    cards[0] = 0;
}

static void a_card_is_refused_that_is_too_large(void **state)
{
    static uint8_t big[DP_CARD_MAX + 1];
    struct dp_msg_card m = {.n_workers = 2, .card_len = DP_CARD_MAX, .card = big}, back;
    struct dp_writer w;
    struct dp_reader r;
    struct dp_err err;

    (void)state;
    for (int i = 0; i < 5; i++) {
        m.card_len = (uint16_t)(DP_CARD_MAX + (i == 1));
        m.rank = i == 2 ? 2 : 1;
        m.kind = i == 3 ? DP_CARD_AGAIN + 1 : DP_CARD_HERE;
        m.key_len = i == 4 ? 17 : 0;
        m.key = big;
        dp_writer_init(&w, buf, sizeof buf);
        dp_msg_card_encode(&w, &m);
        dp_reader_init(&r, buf, dp_writer_used(&w));
        assert_int_equal(dp_msg_card_decode(&r, &back, &err), i == 0 ? 0 : -1);
    }
}

static void header_is_checked(void **state)
{
    struct dp_header h = {.version = DP_PROTO_VERSION, .type = DP_MSG_VOTE, .body_len = 10, .seq = 7}, back;
    uint8_t bytes[DP_HEADER_BYTES];
    struct dp_err err;

    (void)state;
    dp_header_encode(bytes, &h);
    assert_memory_equal(bytes, "DYNP", 4);
    assert_int_equal(dp_header_decode(bytes, &back, &err), 0);
    assert_int_equal(back.seq, 7);
    h.body_len = dp_msg_max_body(DP_MSG_VOTE) + 1;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
    h.body_len = 0;
    h.type = 9;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
    h.type = 60000;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
    h.type = DP_MSG_VOTE;
    for (h.version = 0; h.version < 3; h.version += 2) {
        dp_header_encode(bytes, &h);
        assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
        assert_non_null(strstr(err.text, "version"));
    }
    h.version = 1;
    h.type = DP_MSG_LIMIT;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
    h.version = 200;
    h.body_len = dp_msg_max_body(DP_MSG_LIMIT) + DP_TAIL_MAX;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), 0);
    h.body_len++;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
    h.type = DP_MSG_RELAY;
    h.body_len = DP_BODY_MAX + 1;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
}

static void names_go_both_ways(void **state)
{
    (void)state;
    for (unsigned i = DP_MODE_OFF; i <= DP_MODE_RELEASE; i++)
        assert_int_equal(dp_mode_parse(dp_mode_name(i)), i);
    assert_int_equal(dp_mode_parse("relase"), -1);
    assert_string_equal(dp_reference_name(DP_REF_BEST), "best");
    assert_string_equal(dp_reference_name(DP_REF_FIXED), "fixed");
    assert_string_equal(dp_mode_name(99), "?");
}

#define TEST_OF(name, NAME, type, since, kind) cmocka_unit_test(round_trip_##name),
static const struct CMUnitTest tests[] = {
    DP_MESSAGES(TEST_OF)
    cmocka_unit_test(release_0_1_0_is_understood),
    cmocka_unit_test(a_relay_carries_its_version),
    cmocka_unit_test(trainers_say_nothing_to_version_1),
    cmocka_unit_test(later_is_a_no_to_an_old_plugin),
    cmocka_unit_test(the_lower_version_is_spoken),
    cmocka_unit_test(refuses_counts_past_the_array),
    cmocka_unit_test(no_changes_come_of_nonsense),
    cmocka_unit_test(a_roster_is_refused_that_does_not_add_up),
    cmocka_unit_test(a_card_is_refused_that_is_too_large),
    cmocka_unit_test(header_is_checked),
    cmocka_unit_test(names_go_both_ways),
};
TEST_MAIN("msg", tests)
