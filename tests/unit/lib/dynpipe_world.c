/* SPDX-License-Identifier: BSD-3-Clause */
/* See dynpipe_world.h. */
#include "tests/unit/lib/dynpipe_world.h"

#include <math.h>

struct fake_daemon the_daemon;
struct fake_peer peer;
uint32_t the_cut[WORKERS + 1] = {0, 3, 6, 9};
const uint8_t a_digest[32] = {1, 2, 3};

struct dynpipe_run run_of(uint32_t rank, uint32_t traits)
{
    return (struct dynpipe_run){
        .size = sizeof(struct dynpipe_run), .traits = traits, .rank = rank, .n_workers = WORKERS, .n_layers = LAYERS,
        .schedule = DYNPIPE_1F1B, .microbatches = 4, .tokens_per_microbatch = 128, .steps_total = 1000, .cut = the_cut,
        .socket = the_daemon.path, .trainer = "a test",
    };
}

void greet(struct dynpipe *d, struct dp_msg_hello *hello)
{
    const uint8_t *body;
    struct dp_header h;
    struct dp_reader r;

    UNTIL(d, fake_accept(&the_daemon, &peer, 0) == 0);
    UNTIL(d, fake_next(&peer, 0, &h, &body) == 1);
    assert_int_equal(h.type, DP_MSG_HELLO);
    dp_reader_init(&r, body, h.body_len);
    assert_int_equal(dp_msg_hello_decode(&r, hello, NULL), 0);
    fake_welcome(&peer, DP_VERDICT_OK, "", "");
    UNTIL(d, dynpipe_is_connected(d));
}

struct dynpipe *joined(const struct dynpipe_run *run, struct dp_msg_hello *hello)
{
    struct dynpipe_run own = *run;
    struct dynpipe *d;
    char why[256];

    fake_daemon_start(&the_daemon);
    own.socket = the_daemon.path;
    d = dynpipe_join(&own, 0, why, sizeof why);
    assert_non_null(d);
    greet(d, hello);
    return d;
}

void kill_daemon(void)
{
    fake_daemon_close(&the_daemon);
    fake_close(&peer);
}

void revive_daemon(void)
{
    fake_daemon_relisten(&the_daemon);
}

void finish(struct dynpipe *d)
{
    dynpipe_leave(d, DYNPIPE_COMPLETED, NULL);
    fake_close(&peer);
    fake_daemon_stop(&the_daemon);
}

static uint16_t hear_any(struct dynpipe *d, struct dp_reader *r)
{
    const uint8_t *body;
    struct dp_header h;

    UNTIL(d, fake_next(&peer, 0, &h, &body) == 1);
    dp_reader_init(r, body, h.body_len);
    return h.type;
}

void hear(struct dynpipe *d, uint16_t type, struct dp_reader *r)
{
    uint16_t heard;

    do
        heard = hear_any(d, r);
    while (heard == DP_MSG_PONG && type != DP_MSG_PONG);
    assert_string_equal(dp_msg_name(heard), dp_msg_name(type));
}

void hear_vote(struct dynpipe *d, struct dp_msg_vote *m)
{
    struct dp_reader r;

    hear(d, DP_MSG_VOTE, &r);
    assert_int_equal(dp_msg_vote_decode(&r, m, NULL), 0);
}

void hear_ack(struct dynpipe *d, struct dp_msg_decision_ack *m)
{
    struct dp_reader r;

    hear(d, DP_MSG_DECISION_ACK, &r);
    assert_int_equal(dp_msg_decision_ack_decode(&r, m, NULL), 0);
}

void settle(struct dynpipe *d)
{
    struct dp_reader r;

    FAKE_SEND(&peer, ping, DP_MSG_PING, &(struct dp_msg_ping){.number = 1});
    hear(d, DP_MSG_PONG, &r);
}

void ask(uint64_t m, uint64_t epoch, uint32_t cut1, uint32_t cut2, bool gone)
{
    struct dp_msg_prepare p = {.incarnation = 1, .migration = m, .epoch = epoch, .n_workers = WORKERS, .n_layers = LAYERS,
                               .cut = {0, cut1, cut2, LAYERS}, .gone = {0, 0, gone}};

    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &p);
}

void tell(uint64_t m, bool commit, uint64_t epoch, const char *text)
{
    struct dp_msg_decision p = {.incarnation = 1, .migration = m, .commit = commit, .epoch = epoch};

    snprintf(p.text, sizeof p.text, "%s", text);
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &p);
}

void tell_finished(uint64_t m)
{
    FAKE_SEND(&peer, finish, DP_MSG_FINISH, &(struct dp_msg_finish){.migration = m});
}

int train(struct dynpipe *d, uint64_t step, uint32_t n)
{
    struct dynpipe_step s = {.size = sizeof s, .step = step, .wall_ns = 1000000, .wait_ns = 1000, .optimizer_ns = 500,
                             .loss = NAN, .grad_norm = NAN};
    struct dynpipe_load load[LAYERS];

    for (uint32_t i = 0; i < LAYERS; i++)
        load[i] = (struct dynpipe_load){.fwd_ns = 100 + i, .bwd_input_ns = 200, .state_bytes = 64, .act_bytes = 8, .params = 4, .nnz = 4};
    return dynpipe_report(d, &s, load, n);
}
