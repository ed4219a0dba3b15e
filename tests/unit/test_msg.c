/* Every message: round trip, every truncation refused, trailing bytes refused, fixed sizes kept. */
#include "common/msg.h"
#include "tests/unit/unit.h"

static uint8_t buf[DP_BODY_MAX + 64], again[DP_BODY_MAX + 64];

/* A message whose every byte is in play: counts are set to what the arrays need. */
static uint8_t inner[5] = {1, 2, 3, 4, 5};

static void fill_hello(struct dp_msg_hello *m)
{
    m->rank = 1;
    m->n_workers = 3;
    m->n_layers = 9;
    m->cut[1] = 4;
    m->cut[2] = 4;
    m->cut[3] = 9;
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

static void fill_relay(struct dp_msg_relay *m)
{
    m->inner_type = DP_MSG_REPORT;
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
fill_plain(step_start) fill_plain(step_end) fill_plain(ack) fill_plain(welcome) fill_plain(vote)
fill_plain(decision) fill_plain(decision_ack) fill_plain(finish) fill_plain(goodbye) fill_plain(save)
fill_plain(event) fill_plain(ping) fill_plain(pong) fill_plain(limit) fill_plain(worker_lost) fill_plain(stop_slot) fill_plain(slot_gone)
fill_plain(join) fill_plain(query) fill_plain(command) fill_plain(check) fill_plain(challenge) fill_plain(auth)
fill_plain(auth_ok)

#define REPORT_TAIL 16 /* bytes */
#define ROUND_TRIP(name, type)                                                                     \
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
            if ((type) == DP_MSG_REPORT && cut == n - REPORT_TAIL)                                 \
                continue;                                                                          \
            dp_reader_init(&r, buf, cut);                                                          \
            assert_int_equal(dp_msg_##name##_decode(&r, back, &err), -1);                          \
        }                                                                                          \
        buf[n] = 0;                                                                                \
        dp_reader_init(&r, buf, n + 1);                                                            \
        assert_int_equal(dp_msg_##name##_decode(&r, back, &err), -1);                              \
        free(m);                                                                                   \
        free(back);                                                                                \
    }
DP_MESSAGES(ROUND_TRIP)

/* Workers of before ahead_ns and held_ns end their reports sooner. */
static void a_report_may_end_before_its_tail(void **state)
{
    struct dp_msg_report *m = calloc(1, sizeof *m);
    struct dp_writer w;
    struct dp_reader r;
    struct dp_err err;

    (void)state;
    assert_non_null(m);
    fill_report(m);
    m->ahead_ns = 5;
    m->held_ns = 3;
    dp_writer_init(&w, buf, sizeof buf);
    dp_msg_report_encode(&w, m);
    dp_reader_init(&r, buf, dp_writer_used(&w));
    assert_int_equal(dp_msg_report_decode(&r, m, &err), 0);
    assert_true(m->ahead_ns == 5 && m->held_ns == 3);
    dp_reader_init(&r, buf, dp_writer_used(&w) - REPORT_TAIL);
    assert_int_equal(dp_msg_report_decode(&r, m, &err), 0);
    assert_true(m->layer[1].nnz == 77 && !m->ahead_ns && !m->held_ns);
    free(m);
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
        m.kind = i == 3 ? DP_CARD_LOST + 1 : DP_CARD_HERE;
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
    h.version = DP_PROTO_VERSION + 1;
    dp_header_encode(bytes, &h);
    assert_int_equal(dp_header_decode(bytes, &back, &err), -1);
    assert_non_null(strstr(err.text, "version"));
}

static void names_go_both_ways(void **state)
{
    (void)state;
    for (unsigned i = DP_MODE_OFF; i <= DP_MODE_RELEASE; i++)
        assert_int_equal(dp_mode_parse(dp_mode_name(i)), i);
    assert_int_equal(dp_mode_parse("relase"), -1);
    assert_string_equal(dp_reference_name(DP_REF_BEST), "best");
    assert_string_equal(dp_reference_name(DP_REF_FIXED), "fixed");
    assert_int_equal(dp_schedule_parse("gpipe"), DP_SCHED_GPIPE);
    assert_string_equal(dp_mode_name(99), "?");
}

#define TEST_OF(name, type) cmocka_unit_test(round_trip_##name),
static const struct CMUnitTest tests[] = {
    DP_MESSAGES(TEST_OF)
    cmocka_unit_test(a_report_may_end_before_its_tail),
    cmocka_unit_test(refuses_counts_past_the_array),
    cmocka_unit_test(a_roster_is_refused_that_does_not_add_up),
    cmocka_unit_test(a_card_is_refused_that_is_too_large),
    cmocka_unit_test(header_is_checked),
    cmocka_unit_test(names_go_both_ways),
};
TEST_MAIN("msg", tests)
