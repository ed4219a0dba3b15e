/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-overs of a trainer that has the shared object only: committed, aborted, refused, in doubt, and with a daemon that dies. */
#include "tests/unit/lib/dynpipe_world.h"

#define MS 20000 /* where an answer has to come */

/* Prepared: worker 1 of three gets plan m of epoch `epoch`. */
static void prepared(struct dynpipe *d, uint64_t m, uint64_t epoch, struct dynpipe_plan *plan)
{
    plan->size = sizeof *plan;
    ask(m, epoch, 4, 7, false);
    assert_int_equal(dynpipe_prepare(d, m, plan, MS), 1);
}

static void a_commit_changes_the_layout(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dp_msg_decision_ack ack;
    struct dp_msg_hello hello;
    uint32_t cut[WORKERS + 1];
    struct dp_msg_vote vote;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    assert_int_equal(train(d, 7, 3), 0);
    assert_int_equal(dynpipe_state(d), DYNPIPE_IDLE);
    prepared(d, 5, 0, &plan);
    assert_true(plan.migration == 5 && plan.n_workers == WORKERS && plan.n_layers == LAYERS && plan.n_moves == 2);
    assert_true(plan.old_cut[1] == 3 && plan.cut[1] == 4 && plan.cut[2] == 7 && !plan.gone[2]);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_AGAIN);
    hear_vote(d, &vote);
    assert_true(vote.migration == 5 && vote.yes == 1 && vote.rank == 1 && vote.boundary == 7);
    dynpipe_layout(d, cut);
    assert_int_equal(cut[1], 3);
    tell(5, true, 1, "");
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_COMMIT);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_COMMIT);
    assert_int_equal(dynpipe_layout(d, cut), WORKERS);
    assert_int_equal(cut[1], 4);
    dynpipe_done(d, 5, 800, 300);
    hear_ack(d, &ack);
    assert_true(ack.migration == 5 && ack.epoch == 1 && ack.pause_ns == 800 && ack.transfer_ns == 300);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_COMMIT);
    assert_int_equal(dynpipe_state(d), DYNPIPE_KEEPING);
    tell_finished(5);
    UNTIL(d, dynpipe_state(d) == DYNPIPE_IDLE);
    assert_int_equal(train(d, 8, 3), 0);
    finish(d);
}

static void an_abort_changes_nothing(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dp_msg_decision_ack ack;
    struct dp_msg_hello hello;
    struct dynpipe_plan plan;
    uint32_t cut[WORKERS + 1];
    struct dp_msg_vote vote;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    prepared(d, 5, 0, &plan);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_AGAIN);
    hear_vote(d, &vote);
    tell(5, false, 0, "worker 2: no");
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_ABORT);
    assert_string_equal(dynpipe_why(d), "worker 2: no");
    dynpipe_done(d, 5, 1, 1);
    hear_ack(d, &ack);
    assert_true(ack.migration == 5 && ack.epoch == 0);
    dynpipe_layout(d, cut);
    assert_int_equal(cut[1], 3);
    assert_int_equal(dynpipe_state(d), DYNPIPE_IDLE);
    prepared(d, 6, 0, &plan); /* the next one begins from the same layout */
    finish(d);
}

static void a_no_closes_the_handover(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dp_msg_hello hello;
    struct dynpipe_plan plan;
    struct dp_msg_vote vote;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    prepared(d, 5, 0, &plan);
    assert_int_equal(dynpipe_decide(d, 5, 0, NULL, "a shadow is broken", MS), DYNPIPE_ABORT);
    hear_vote(d, &vote);
    assert_true(vote.migration == 5 && !vote.yes);
    assert_string_equal(vote.text, "a shadow is broken");
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_ABORT); /* decide once */
    dynpipe_done(d, 5, 1, 0);
    assert_int_equal(dynpipe_prepare(d, 5, &plan, 50), 0);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_ABORT);
    settle(d);
    finish(d);
}

static void what_was_not_asked_for_is_refused_when_it_comes(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dp_msg_hello hello;
    struct dp_msg_vote vote;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    assert_int_equal(dynpipe_prepare(d, 5, &plan, 30), 0);
    assert_non_null(strstr(dynpipe_why(d), "no PREPARE"));
    assert_int_equal(dynpipe_decide(d, 5, 0, NULL, NULL, MS), DYNPIPE_ABORT);
    ask(5, 0, 4, 7, false);
    settle(d);
    assert_int_equal(dynpipe_state(d), DYNPIPE_IDLE);
    hear_vote(d, &vote);
    assert_true(vote.migration == 5 && !vote.yes);
    finish(d);
}

static void a_yes_that_may_not_be_said_is_a_no(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dp_msg_hello hello;
    struct dynpipe_plan plan;
    struct dp_msg_vote vote;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    assert_int_equal(dynpipe_decide(d, 4, 1, a_digest, NULL, MS), DYNPIPE_ABORT); /* never prepared */
    prepared(d, 5, 0, &plan);
    assert_int_equal(dynpipe_decide(d, 5, 1, NULL, NULL, MS), DYNPIPE_ABORT); /* no digest */
    hear_vote(d, &vote);
    assert_true(vote.migration == 5 && !vote.yes);
    finish(d);
}

static void impossible_plans_are_refused(void **state)
{
    static const struct {
        uint32_t traits, epoch, cut1, cut2;
        bool gone;
        const char *why;
    } bad[] = {
        {ALL, 3, 4, 7, false, "epoch"},
        {ALL, 0, 7, 4, false, "PREPARE"},
        {ALL, 0, 4, 7, true, "PREPARE"},                     /* worker 2 leaves with layers */
        {0, 0, 4, 7, false, "CAN_MOVE"},
        {DYNPIPE_CAN_MOVE, 0, 4, 9, true, "CAN_LEAVE"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct dynpipe_run run = run_of(2, bad[i].traits);
        struct dynpipe_plan plan = {.size = sizeof plan};
        struct dp_msg_hello hello;
        struct dp_msg_vote vote;
        struct dynpipe *d = joined(&run, &hello);

        ask(5, bad[i].epoch, bad[i].cut1, bad[i].cut2, bad[i].gone);
        assert_int_equal(dynpipe_prepare(d, 5, &plan, MS), 0);
        assert_non_null(strstr(dynpipe_why(d), bad[i].why));
        assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_ABORT);
        hear_vote(d, &vote);
        assert_true(vote.migration == 5 && !vote.yes);
        finish(d);
    }
}

static void the_vote_s_digest(uint32_t cut1, const uint8_t digest[32], uint8_t out[32])
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dp_msg_hello hello;
    struct dp_msg_vote vote;
    struct dynpipe *d = joined(&run, &hello);

    ask(5, 0, cut1, 7, false);
    assert_int_equal(dynpipe_prepare(d, 5, &plan, MS), 1);
    assert_int_equal(dynpipe_decide(d, 5, 1, digest, NULL, 0), DYNPIPE_AGAIN);
    hear_vote(d, &vote);
    memcpy(out, vote.digest, 32);
    finish(d);
}

static void votes_differ_where_plans_or_layers_do(void **state)
{
    static const uint8_t other[32] = {9};
    uint8_t a[32], b[32];

    (void)state;
    the_vote_s_digest(4, a_digest, a);
    the_vote_s_digest(4, a_digest, b);
    assert_memory_equal(a, b, 32);
    the_vote_s_digest(5, a_digest, b);
    assert_memory_not_equal(a, b, 32);
    the_vote_s_digest(4, other, b);
    assert_memory_not_equal(a, b, 32);
}

static void who_leaves_stays_until_it_may_go(void **state)
{
    struct dynpipe_run run = run_of(2, ALL);
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dp_msg_goodbye bye;
    struct dp_msg_hello hello;
    struct dp_msg_decision_ack ack;
    struct dp_msg_vote vote;
    struct dp_reader r;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    ask(5, 0, 4, 9, true);
    assert_int_equal(dynpipe_prepare(d, 5, &plan, MS), 1);
    assert_int_equal(plan.gone[2], 1);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_AGAIN);
    hear_vote(d, &vote);
    tell(5, true, 1, "");
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_COMMIT);
    dynpipe_done(d, 5, 1, 1);
    hear_ack(d, &ack);
    settle(d);
    assert_int_equal(dynpipe_state(d), DYNPIPE_LEAVING);
    assert_int_equal(dynpipe_leads(d), 0);
    tell_finished(5);
    UNTIL(d, dynpipe_state(d) == DYNPIPE_LEAVE);
    dynpipe_leave(d, DYNPIPE_DRAINED, NULL);
    assert_int_equal(fake_next(&peer, MS, &(struct dp_header){0}, &(const uint8_t *){NULL}), 1);
    dp_reader_init(&r, peer.rx + DP_HEADER_BYTES, peer.frame - DP_HEADER_BYTES);
    assert_int_equal(dp_msg_goodbye_decode(&r, &bye, NULL), 0);
    assert_int_equal(bye.how, DP_BYE_DRAINED);
    fake_close(&peer);
    fake_daemon_stop(&the_daemon);
}

static void a_leaver_without_a_daemon_goes_after_a_while(void **state)
{
    struct dynpipe_run run = run_of(2, ALL);
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dp_msg_hello hello;
    struct dp_msg_vote vote;
    struct dynpipe *d;

    (void)state;
    run.leave_s = 1;
    d = joined(&run, &hello);
    ask(5, 0, 4, 9, true);
    assert_int_equal(dynpipe_prepare(d, 5, &plan, MS), 1);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_AGAIN);
    hear_vote(d, &vote);
    tell(5, true, 1, "");
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_COMMIT);
    kill_daemon();
    UNTIL(d, !dynpipe_is_connected(d));
    assert_int_equal(dynpipe_state(d), DYNPIPE_LEAVING);
    UNTIL(d, dynpipe_state(d) == DYNPIPE_LEAVE);
    finish(d);
}

static void a_daemon_that_dies_before_it_asks_is_an_abort(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dp_msg_hello hello;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    kill_daemon();
    UNTIL(d, !dynpipe_is_connected(d));
    assert_int_equal(dynpipe_prepare(d, 5, &plan, MS), 0); /* long before the time is over */
    assert_int_equal(dynpipe_decide(d, 5, 0, NULL, NULL, MS), DYNPIPE_ABORT);
    assert_int_equal(dynpipe_state(d), DYNPIPE_IDLE);
    assert_int_equal(train(d, 1, 3), 0);
    finish(d);
}

static void a_daemon_that_dies_after_the_vote_is_waited_for(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dp_msg_hello hello;
    struct dynpipe_plan plan;
    struct dp_msg_vote vote;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    prepared(d, 5, 0, &plan);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_AGAIN);
    hear_vote(d, &vote);
    kill_daemon();
    UNTIL(d, !dynpipe_is_connected(d));
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 10), DYNPIPE_AGAIN);
    assert_int_equal(dynpipe_decide(d, 5, 0, NULL, "another mind", 10), DYNPIPE_AGAIN); /* a yes is not taken back */
    assert_int_equal(dynpipe_pending(d), 0);
    assert_int_equal(dynpipe_prepare(d, 6, &plan, 10), 0);
    revive_daemon();
    greet(d, &hello);
    assert_true(hello.doubt == 5 && hello.epoch == 0);
    hear_vote(d, &vote);
    assert_true(vote.migration == 5 && vote.yes);
    tell(5, true, 1, "");
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_COMMIT);
    dynpipe_done(d, 5, 1, 1);
    finish(d);
}

static void doubt_has_an_end(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dp_msg_hello hello;
    struct dynpipe_plan plan;
    uint32_t cut[WORKERS + 1];
    struct dynpipe *d;

    (void)state;
    run.doubt_s = 1;
    d = joined(&run, &hello);
    prepared(d, 5, 0, &plan);
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, MS), DYNPIPE_END);
    assert_non_null(strstr(dynpipe_why(d), "in doubt about hand-over 5"));
    assert_int_equal(dynpipe_decide(d, 5, 1, a_digest, NULL, 0), DYNPIPE_END);
    assert_int_equal(dynpipe_state(d), DYNPIPE_END);
    assert_int_equal(dynpipe_prepare(d, 6, &plan, 0), 0);
    assert_non_null(strstr(dynpipe_why(d), "in doubt about hand-over 5"));
    dynpipe_layout(d, cut);
    assert_int_equal(cut[1], 3);
    finish(d);
}

static void a_commit_of_what_was_refused_is_the_end(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    struct dp_msg_hello hello;
    struct dynpipe_plan plan;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    prepared(d, 5, 0, &plan);
    assert_int_equal(dynpipe_decide(d, 5, 0, NULL, NULL, MS), DYNPIPE_ABORT);
    dynpipe_done(d, 5, 1, 1);
    tell(5, true, 1, "");
    UNTIL(d, dynpipe_state(d) == DYNPIPE_END);
    assert_non_null(strstr(dynpipe_why(d), "without the vote"));
    finish(d);
}

static void only_the_leader_hears_what_is_pending(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct dynpipe_run run = run_of(rank, ALL);
        struct dp_msg_hello hello;
        struct dynpipe *d = joined(&run, &hello);

        assert_int_equal(dynpipe_leads(d), rank == 0);
        assert_int_equal(dynpipe_pending(d), 0);
        ask(5, 0, 4, 7, false);
        settle(d);
        assert_int_equal(dynpipe_pending(d), rank == 0 ? 5 : 0);
        finish(d);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_commit_changes_the_layout),
    cmocka_unit_test(an_abort_changes_nothing),
    cmocka_unit_test(a_no_closes_the_handover),
    cmocka_unit_test(what_was_not_asked_for_is_refused_when_it_comes),
    cmocka_unit_test(a_yes_that_may_not_be_said_is_a_no),
    cmocka_unit_test(impossible_plans_are_refused),
    cmocka_unit_test(votes_differ_where_plans_or_layers_do),
    cmocka_unit_test(who_leaves_stays_until_it_may_go),
    cmocka_unit_test(a_leaver_without_a_daemon_goes_after_a_while),
    cmocka_unit_test(a_daemon_that_dies_before_it_asks_is_an_abort),
    cmocka_unit_test(a_daemon_that_dies_after_the_vote_is_waited_for),
    cmocka_unit_test(doubt_has_an_end),
    cmocka_unit_test(a_commit_of_what_was_refused_is_the_end),
    cmocka_unit_test(only_the_leader_hears_what_is_pending),
};

TEST_MAIN("dynpipe_handover", tests)
