/* SPDX-License-Identifier: BSD-3-Clause */
/* A member against a daemon whose decisions come late, twice, never, contradict each other or what was voted. Both ends are in this
 * process: sync() has the member read all that was sent before anything is looked at, so nothing here depends on time. */
#include <sched.h>

#include "common/clock.h"
#include "lib/member.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/fakedaemon.h"

#define RANK 1
#define EPOCH 7
#define STEP 40

static struct fake_daemon d;
static struct fake_peer peer;
static struct dp_control *control;
static struct dp_layout layout;
static struct dp_member member;
static char why[256];
static struct dp_err err;

/* What the member sent since clear(). */
static struct {
    uint32_t n_votes, n_acks;
    struct dp_msg_vote vote;
    struct dp_msg_decision_ack ack;
} said;

static time_t skipped_s; /* by which the clock of this process is ahead */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = __real_clock_gettime(id, t);

    if (id == CLOCK_MONOTONIC)
        t->tv_sec += skipped_s;
    return rc;
}

static void clear(void)
{
    memset(&said, 0, sizeof said);
}

static void hear(const struct dp_header *h, const uint8_t *body)
{
    struct dp_reader r;

    dp_reader_init(&r, body, h->body_len);
    if (h->type == DP_MSG_VOTE) {
        assert_int_equal(dp_msg_vote_decode(&r, &said.vote, &err), 0);
        said.n_votes++;
    } else if (h->type == DP_MSG_DECISION_ACK) {
        assert_int_equal(dp_msg_decision_ack_decode(&r, &said.ack, &err), 0);
        said.n_acks++;
    }
}

/* Until the member has read all that was sent to it, and all that it sent was heard. */
static void sync(void)
{
    static uint64_t number;
    struct dp_msg_ping ping = {.number = ++number};
    struct dp_msg_pong pong = {0};
    uint64_t end = dp_now_ns() + 20 * DP_SECOND_NS;
    struct dp_header h;
    const uint8_t *body;

    FAKE_SEND(&peer, ping, DP_MSG_PING, &ping);
    while (pong.number != number) {
        int rc;

        dp_control_wait(control, 1);
        while ((rc = fake_next(&peer, 0, &h, &body)) == 1) {
            struct dp_reader r;

            dp_reader_init(&r, body, h.body_len);
            if (h.type == DP_MSG_PONG)
                assert_int_equal(dp_msg_pong_decode(&r, &pong, &err), 0);
            hear(&h, body);
        }
        assert_int_equal(rc, 0);
        assert_true(dp_now_ns() < end);
    }
}

/* The member connects, by itself; its HELLO. */
static struct dp_msg_hello greet(void)
{
    uint64_t end = dp_now_ns() + 20 * DP_SECOND_NS;
    struct dp_msg_hello hello;
    struct dp_header h;
    struct dp_reader r;
    const uint8_t *body;

    while (fake_accept(&d, &peer, 0) < 0) {
        assert_true(dp_now_ns() < end);
        dp_control_wait(control, 5);
    }
    dp_control_poll(control);
    assert_int_equal(fake_next(&peer, 20000, &h, &body), 1);
    assert_int_equal(h.type, DP_MSG_HELLO);
    dp_reader_init(&r, body, h.body_len);
    assert_int_equal(dp_msg_hello_decode(&r, &hello, &err), 0);
    fake_welcome(&peer, DP_VERDICT_OK, "", "");
    sync();
    assert_true(dp_control_is_connected(control));
    return hello;
}

/* The connection breaks; with is_dead, nobody listens any more. */
static void hang_up(bool is_dead)
{
    uint64_t end = dp_now_ns() + 20 * DP_SECOND_NS;

    if (is_dead)
        fake_daemon_close(&d);
    fake_close(&peer);
    while (dp_control_is_connected(control)) {
        dp_control_wait(control, 5);
        assert_true(dp_now_ns() < end);
    }
    skipped_s += 5; /* the next try is due */
}

/* Three workers, eight layers, an epoch; rank 1 has layers 3 to 5. */
static void set_layout(void)
{
    layout = (struct dp_layout){.epoch = EPOCH, .n_workers = 3, .n_layers = 8, .cut = {0, 3, 6, 8}};
}

static int begin(void **state)
{
    struct dp_msg_hello hello = {.job_id = 7, .rank = RANK, .n_workers = 3, .n_layers = 8, .epoch = EPOCH, .cut = {0, 3, 6, 8}};
    const struct dp_member_times times = {.doubt_ns = 600 * DP_SECOND_NS, .leave_ns = 60 * DP_SECOND_NS};

    (void)state;
    fake_daemon_start(&d);
    set_layout();
    control = dp_control_create(d.path, &hello, 0, &err);
    assert_non_null(control);
    dp_control_hush(control);
    dp_member_init(&member, control, RANK, &layout, &times);
    greet();
    clear();
    return 0;
}

static int finish(void **state)
{
    (void)state;
    fake_close(&peer);
    dp_control_destroy(control);
    fake_daemon_stop(&d);
    return 0;
}

/* To another layout of the same workers, in which this one keeps layers 4 and 5. */
static struct dp_msg_prepare prepare_of(uint64_t migration)
{
    return (struct dp_msg_prepare){.incarnation = 1, .migration = migration, .epoch = EPOCH, .n_workers = 3, .n_layers = 8,
                                   .cut = {0, 4, 6, 8}};
}

static void send_prepare(struct dp_msg_prepare m)
{
    FAKE_SEND(&peer, prepare, DP_MSG_PREPARE, &m);
    sync();
}

static void send_decision(uint32_t incarnation, uint64_t migration, uint64_t epoch, bool commit)
{
    struct dp_msg_decision m = {.incarnation = incarnation, .migration = migration, .epoch = epoch, .commit = commit};

    snprintf(m.text, sizeof m.text, "%s", commit ? "" : "worker 2 died");
    FAKE_SEND(&peer, decision, DP_MSG_DECISION, &m);
    sync();
}

static void send_finish(uint64_t migration)
{
    struct dp_msg_finish m = {.migration = migration};

    FAKE_SEND(&peer, finish, DP_MSG_FINISH, &m);
    sync();
}

static int vote_yes(void)
{
    struct dp_msg_vote v = {.boundary = STEP, .sent_bytes = 10, .received_bytes = 20, .digest = {1, 2, 3}};
    int rc = dp_member_vote_yes(&member, &v, &err);

    sync();
    return rc;
}

static bool vote_no(void)
{
    struct dp_msg_vote v = {.boundary = STEP, .text = "no memory"};
    bool rc = dp_member_vote_no(&member, &v);

    sync();
    return rc;
}

static void done(void)
{
    dp_member_done(&member, STEP, 3000, 2000, 1000);
    sync();
}

static int poll_member(void)
{
    int state = dp_member_poll(&member, &err);

    sync();
    return state;
}

static enum dp_member_answer decision(void)
{
    return dp_member_decision(&member, why, sizeof why, &err);
}

static void assert_old_layout(void)
{
    assert_int_equal(layout.epoch, EPOCH);
    assert_int_equal(layout.cut[1], 3);
    assert_int_equal(layout.cut[2], 6);
}

/* Up to the yes. */
static void into_doubt(struct dp_msg_prepare m)
{
    send_prepare(m);
    dp_member_begin(&member, m.migration, 10 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), 1);
    assert_int_equal(vote_yes(), 1);
    assert_int_equal(decision(), DP_MEMBER_WAITS);
}

static void a_hand_over_is_committed(void **state)
{
    (void)state;
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), 0); /* not yet */
    send_prepare(prepare_of(1));
    assert_int_equal(dp_member_prepare(&member, &err), 1);
    assert_int_equal(member.next.epoch, EPOCH + 1);
    assert_int_equal(member.next.cut[1], 4);
    assert_int_equal(vote_yes(), 1);
    assert_int_equal(said.n_votes, 1);
    assert_int_equal(said.vote.yes, 1);
    assert_int_equal(said.vote.rank, RANK);
    assert_int_equal(said.vote.migration, 1);
    assert_int_equal(said.vote.incarnation, 1);
    assert_int_equal(said.vote.boundary, STEP);
    assert_int_equal(said.vote.sent_bytes, 10);
    assert_int_equal(said.vote.received_bytes, 20);
    assert_int_equal(said.vote.digest[2], 3);
    assert_int_equal(decision(), DP_MEMBER_WAITS);
    assert_old_layout();
    send_decision(1, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    assert_old_layout();
    dp_member_commit(&member);
    assert_int_equal(layout.epoch, EPOCH + 1);
    assert_int_equal(layout.cut[1], 4);
    done();
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(said.ack.migration, 1);
    assert_int_equal(said.ack.epoch, EPOCH + 1);
    assert_int_equal(said.ack.rank, RANK);
    assert_int_equal(said.ack.pause_ns, 3000);
    assert_int_equal(said.ack.transfer_ns, 2000);
    assert_int_equal(said.ack.copying_ns, 1000);
    assert_int_equal(poll_member(), DP_MEMBER_KEEPING); /* layer 3 was given away */
    send_finish(1);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_votes, 1);
    assert_int_equal(said.n_acks, 1);
}

/* Layers that come, and a worker that has nothing to do with it: nothing has to be kept. */
static void who_gave_nothing_keeps_nothing(void **state)
{
    struct dp_msg_prepare m = prepare_of(1);

    (void)state;
    m.cut[1] = 2;
    into_doubt(m);
    send_decision(1, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    dp_member_commit(&member);
    done();
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    m.migration = 2;
    m.epoch = EPOCH + 1;
    m.cut[1] = 2;
    into_doubt(m);
    send_decision(1, 2, EPOCH + 2, true);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    dp_member_commit(&member);
    done();
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
}

static void an_abort_leaves_everything_as_it_was(void **state)
{
    (void)state;
    into_doubt(prepare_of(1));
    send_decision(1, 1, EPOCH, false);
    assert_int_equal(decision(), DP_MEMBER_ABORT);
    assert_string_equal(why, "worker 2 died");
    done();
    assert_old_layout();
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(said.ack.epoch, EPOCH);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_acks, 1);
    dp_member_begin(&member, 1, 0, false); /* closed for good */
    assert_int_equal(dp_member_prepare(&member, &err), -1);
    assert_non_null(strstr(err.text, "closed"));
}

/* The daemon dies in doubt; another one, with another coordinator, knows from its journal what was decided. */
static void doubt_outlives_the_daemon(void **state)
{
    struct dp_msg_hello hello;

    (void)state;
    into_doubt(prepare_of(1));
    hang_up(true);
    skipped_s += 300; /* half of T_doubt */
    dp_control_poll(control);
    assert_int_equal(decision(), DP_MEMBER_WAITS);
    fake_daemon_relisten(&d);
    skipped_s += 5; /* the next try is due */
    clear();
    hello = greet();
    assert_int_equal(hello.doubt, 1);
    assert_int_equal(hello.step, STEP);
    assert_int_equal(hello.epoch, EPOCH);
    assert_int_equal(said.n_votes, 1); /* again */
    assert_int_equal(said.vote.migration, 1);
    assert_int_equal(said.vote.yes, 1);
    assert_int_equal(decision(), DP_MEMBER_WAITS);
    send_decision(2, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    dp_member_commit(&member);
    done();
    clear();
    hang_up(false);
    hello = greet(); /* who did not hear the acknowledgement hears it again */
    assert_int_equal(hello.doubt, 0);
    assert_int_equal(hello.epoch, EPOCH + 1);
    assert_int_equal(said.n_votes, 0);
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(said.ack.migration, 1);
}

static void doubt_ends_at_last(void **state)
{
    (void)state;
    into_doubt(prepare_of(1));
    skipped_s += 590;
    sync();
    assert_int_equal(decision(), DP_MEMBER_WAITS);
    skipped_s += 20;
    assert_int_equal(decision(), DP_MEMBER_END);
    assert_int_equal(err.code, DP_ETIMEOUT);
    assert_old_layout();
    send_decision(1, 1, EPOCH + 1, true); /* a decision is worth more than the clock */
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
}

static void what_is_decided_stays_decided(void **state)
{
    struct dp_msg_prepare m = prepare_of(2);

    (void)state;
    into_doubt(prepare_of(1));
    send_decision(1, 1, EPOCH, false);
    send_decision(1, 1, EPOCH + 1, true);
    send_decision(2, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_ABORT);
    done();
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_old_layout();
    m.incarnation = 2;
    into_doubt(m);
    send_decision(2, 2, EPOCH + 1, true);
    send_decision(2, 2, EPOCH, false);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    dp_member_commit(&member);
    done();
    clear();
    send_decision(2, 2, EPOCH + 1, true); /* twice: it missed the acknowledgement */
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(poll_member(), DP_MEMBER_KEEPING);
    assert_int_equal(layout.epoch, EPOCH + 1);
}

static void who_was_replaced_decides_nothing(void **state)
{
    struct dp_msg_prepare m = prepare_of(1);

    (void)state;
    m.incarnation = 3;
    into_doubt(m);
    send_decision(2, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_WAITS);
    send_decision(3, 1, EPOCH, false);
    assert_int_equal(decision(), DP_MEMBER_ABORT);
}

/* What comes to it is said to each worker alone: they agree all the same. */
static void what_is_said_to_one_alone_is_not_agreed_on(void **state)
{
    struct dp_msg_prepare m = prepare_of(1);
    uint8_t one[DP_DIGEST_BYTES], other[DP_DIGEST_BYTES];

    (void)state;
    m.coming_bytes = 1 << 20;
    into_doubt(m);
    assert_int_equal(member.prepare.coming_bytes, 1 << 20);
    dp_member_digest(&member, NULL, one);
    member.prepare.coming_bytes = 0;
    dp_member_digest(&member, NULL, other);
    assert_memory_equal(one, other, sizeof one);
    member.prepare.epoch++;
    dp_member_digest(&member, NULL, other);
    assert_memory_not_equal(one, other, sizeof one);
}

static void a_commit_as_another_epoch_ends_the_worker(void **state)
{
    (void)state;
    into_doubt(prepare_of(1));
    send_decision(1, 1, EPOCH + 2, true);
    assert_int_equal(decision(), DP_MEMBER_END);
    assert_int_equal(err.code, DP_EPROTO);
    assert_old_layout();
}

static void a_commit_without_this_workers_yes_ends_it(void **state)
{
    (void)state;
    send_decision(1, 1, EPOCH + 1, true); /* of what was never prepared */
    assert_int_equal(poll_member(), -1);
    assert_int_equal(err.code, DP_EPROTO);
    assert_int_equal(said.n_acks, 0);
    assert_old_layout();
}

static void a_commit_of_what_was_refused_ends_it(void **state)
{
    (void)state;
    send_prepare(prepare_of(1));
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), 1);
    assert_true(vote_no());
    done();
    assert_int_equal(said.n_votes, 1);
    assert_int_equal(said.vote.yes, 0);
    assert_string_equal(said.vote.text, "no memory");
    assert_int_equal(said.n_acks, 0); /* not decided */
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    send_decision(1, 1, EPOCH + 1, true);
    assert_int_equal(poll_member(), -1);
    assert_int_equal(err.code, DP_EPROTO);
    assert_old_layout();
}

static void an_abort_of_what_never_began_is_acknowledged(void **state)
{
    (void)state;
    send_decision(1, 5, EPOCH, false);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(said.ack.migration, 5);
    assert_int_equal(said.ack.epoch, EPOCH);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_acks, 1); /* once */
    dp_member_begin(&member, 4, 10 * DP_SECOND_NS, false); /* and nothing older is begun */
    assert_int_equal(dp_member_prepare(&member, &err), -1);
}

/* The trainer looks after its state in doubt, between two calls that wait for the decision. */
static void a_poll_in_doubt_leaves_the_decision_alone(void **state)
{
    (void)state;
    into_doubt(prepare_of(1));
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    send_decision(1, 1, EPOCH + 1, true);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_acks, 0);
    assert_old_layout();
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    dp_member_commit(&member);
    done();
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(said.ack.pause_ns, 3000);
}

/* The daemon speaks of a later hand-over: an honest one does not before all have answered. */
static void a_later_decision_decides_nothing(void **state)
{
    (void)state;
    into_doubt(prepare_of(1));
    send_decision(1, 3, EPOCH, false);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(said.ack.migration, 3);
    assert_int_equal(decision(), DP_MEMBER_WAITS);
    skipped_s += 610;
    assert_int_equal(decision(), DP_MEMBER_END);
    assert_int_equal(err.code, DP_ETIMEOUT);
}

static void a_yes_is_said_once_and_kept(void **state)
{
    (void)state;
    into_doubt(prepare_of(1));
    assert_int_equal(vote_yes(), 1);
    assert_false(vote_no());
    assert_int_equal(said.n_votes, 1);
    assert_int_equal(said.vote.yes, 1);
    send_decision(1, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
}

static void no_yes_without_a_prepare_or_after_a_no(void **state)
{
    (void)state;
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, false);
    assert_int_equal(vote_yes(), -1);
    assert_int_equal(err.code, DP_EINVAL);
    send_prepare(prepare_of(1));
    assert_int_equal(dp_member_prepare(&member, &err), 1);
    assert_true(vote_no());
    assert_int_equal(vote_yes(), -1);
    assert_int_equal(said.n_votes, 1);
    assert_int_equal(said.vote.yes, 0);
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), -1);
    assert_int_equal(vote_yes(), -1);
    assert_int_equal(said.n_votes, 1);
}

static void what_was_aborted_before_the_yes_gets_none(void **state)
{
    (void)state;
    send_prepare(prepare_of(1));
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), 1);
    assert_false(dp_member_is_aborted(&member));
    send_decision(1, 1, EPOCH, false);
    assert_true(dp_member_is_aborted(&member));
    assert_int_equal(vote_yes(), 0);
    done();
    assert_int_equal(said.n_votes, 0);
    assert_int_equal(said.n_acks, 1);
    send_prepare(prepare_of(2)); /* and where the coordinator has gone on to a later one */
    dp_member_begin(&member, 2, 10 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), 1);
    send_decision(1, 3, EPOCH, false);
    assert_int_equal(vote_yes(), 0);
    assert_true(vote_no());
    assert_int_equal(said.n_votes, 0);
}

static void waiting_for_prepare_ends(void **state)
{
    (void)state;
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, false);
    skipped_s += 8;
    assert_int_equal(dp_member_prepare(&member, &err), 0);
    skipped_s += 3;
    assert_int_equal(dp_member_prepare(&member, &err), -1);
    assert_int_equal(err.code, DP_ETIMEOUT);
    assert_true(vote_no());
    assert_int_equal(said.n_votes, 0); /* there is nothing yet that could be refused */
    done();
    send_prepare(prepare_of(1)); /* now there is */
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_votes, 1);
    assert_int_equal(said.vote.yes, 0);
    assert_int_equal(said.vote.migration, 1);
    assert_non_null(strstr(said.vote.text, "too late"));
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(said.n_votes, 1);
}

static void without_a_daemon_prepare_is_not_waited_for(void **state)
{
    (void)state;
    hang_up(true);
    dp_member_begin(&member, 1, 100 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), 0);
    skipped_s += 2;
    assert_int_equal(dp_member_prepare(&member, &err), -1);
    assert_non_null(strstr(err.text, "the connection is down"));
}

/* PREPAREs of which none can be obeyed: each is answered with a no. */
static void wrong_prepares_are_refused(void **state)
{
    static const struct {
        const char *part; /* of the reason */
        struct dp_msg_prepare m;
    } wrong[] = {
        {"for epoch 6", {.epoch = EPOCH - 1, .n_workers = 3, .n_layers = 8, .cut = {0, 4, 6, 8}}},
        {"for epoch 8", {.epoch = EPOCH + 1, .n_workers = 3, .n_layers = 8, .cut = {0, 4, 6, 8}}},
        {"for 2 workers", {.epoch = EPOCH, .n_workers = 2, .n_layers = 8, .cut = {0, 4, 8}}},
        {"for 4 workers", {.epoch = EPOCH, .n_workers = 4, .n_layers = 8, .cut = {0, 4, 6, 8, 8}}},
        {"and 9 layers", {.epoch = EPOCH, .n_workers = 3, .n_layers = 9, .cut = {0, 4, 6, 9}}},
        {"starts at layer 1", {.epoch = EPOCH, .n_workers = 3, .n_layers = 8, .cut = {1, 4, 6, 8}}},
        {"before it starts", {.epoch = EPOCH, .n_workers = 3, .n_layers = 8, .cut = {0, 6, 4, 8}}},
        {"ends at layer 7", {.epoch = EPOCH, .n_workers = 3, .n_layers = 8, .cut = {0, 4, 6, 7}}},
        {"which left the run", {.epoch = EPOCH, .n_workers = 3, .n_layers = 8, .cut = {0, 4, 6, 8}, .gone = {0, 1, 0}}},
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct dp_msg_prepare m = wrong[i].m;

        clear();
        m.incarnation = 1;
        m.migration = i + 1;
        send_prepare(m);
        dp_member_begin(&member, i + 1, 10 * DP_SECOND_NS, false);
        assert_int_equal(dp_member_prepare(&member, &err), -1);
        if (!strstr(err.text, wrong[i].part))
            print_message("# \"%s\" does not say \"%s\"\n", err.text, wrong[i].part);
        assert_non_null(strstr(err.text, wrong[i].part));
        assert_true(vote_no());
        assert_int_equal(said.n_votes, 1);
        assert_int_equal(said.vote.yes, 0);
        assert_int_equal(vote_yes(), -1);
        assert_int_equal(said.n_votes, 1);
        done();
        assert_old_layout();
    }
}

static void newcomers_come_only_where_they_may(void **state)
{
    (void)state;
    layout.cut[2] = 8;
    layout.gone[2] = 1;
    send_prepare(prepare_of(1));
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, false);
    assert_int_equal(dp_member_prepare(&member, &err), -1);
    assert_non_null(strstr(err.text, "brings worker 2"));
    dp_member_begin(&member, 1, 10 * DP_SECOND_NS, true);
    assert_int_equal(dp_member_prepare(&member, &err), 1);
}

/* This worker gives all its layers away and leaves. */
static void commit_leaving(void)
{
    struct dp_msg_prepare m = prepare_of(1);

    m.cut[1] = m.cut[2] = 6;
    m.gone[RANK] = 1;
    into_doubt(m);
    send_decision(1, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    dp_member_commit(&member);
    assert_true(member.is_leaving);
    done();
    assert_int_equal(poll_member(), DP_MEMBER_LEAVING);
}

static void a_leaver_waits_for_finish(void **state)
{
    (void)state;
    commit_leaving();
    skipped_s += 590;
    assert_int_equal(poll_member(), DP_MEMBER_LEAVING);
    send_finish(1);
    assert_int_equal(poll_member(), DP_MEMBER_LEAVE);
}

static void a_leaver_that_nobody_lets_go_goes_at_last(void **state)
{
    (void)state;
    commit_leaving();
    skipped_s += 590; /* a daemon that is there is asked for T_doubt */
    assert_int_equal(poll_member(), DP_MEMBER_LEAVING);
    skipped_s += 20;
    assert_int_equal(poll_member(), DP_MEMBER_LEAVE);
}

static void a_leaver_without_a_daemon_goes_sooner(void **state)
{
    (void)state;
    commit_leaving();
    hang_up(true);
    assert_int_equal(dp_member_poll(&member, &err), DP_MEMBER_LEAVING);
    skipped_s += 50;
    assert_int_equal(dp_member_poll(&member, &err), DP_MEMBER_LEAVING);
    fake_daemon_relisten(&d); /* it comes back: the wait begins again */
    greet();
    assert_int_equal(poll_member(), DP_MEMBER_LEAVING);
    hang_up(true);
    assert_int_equal(dp_member_poll(&member, &err), DP_MEMBER_LEAVING);
    skipped_s += 50;
    assert_int_equal(dp_member_poll(&member, &err), DP_MEMBER_LEAVING);
    skipped_s += 20;
    assert_int_equal(dp_member_poll(&member, &err), DP_MEMBER_LEAVE);
}

static void a_regroup_ends_doubt(void **state)
{
    struct dp_msg_regroup m = {.incarnation = 2, .migration = 2, .epoch = EPOCH + 2, .go = 1, .n_workers = 3, .n_layers = 8,
                               .cut = {0, 5, 8, 8}, .gone = {0, 0, 1}};

    (void)state;
    into_doubt(prepare_of(1));
    FAKE_SEND(&peer, regroup, DP_MSG_REGROUP, &m);
    sync();
    assert_int_equal(decision(), DP_MEMBER_END);
    assert_int_equal(err.code, DP_EGONE);
    assert_old_layout();
    layout.epoch = m.epoch;
    memcpy(layout.cut, m.cut, sizeof m.cut);
    memcpy(layout.gone, m.gone, sizeof m.gone);
    dp_control_state(control, STEP, 0, &layout);
    dp_member_regrouped(&member, m.migration, 5000);
    sync();
    assert_int_equal(said.n_acks, 1);
    assert_int_equal(said.ack.migration, 2);
    assert_int_equal(said.ack.epoch, EPOCH + 2);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
    assert_int_equal(vote_yes(), -1); /* closed with it */
}

static void a_regroup_lets_go_of_what_was_kept(void **state)
{
    (void)state;
    into_doubt(prepare_of(1));
    send_decision(1, 1, EPOCH + 1, true);
    assert_int_equal(decision(), DP_MEMBER_COMMIT);
    dp_member_commit(&member);
    done();
    assert_int_equal(poll_member(), DP_MEMBER_KEEPING);
    layout.epoch = EPOCH + 2;
    dp_member_regrouped(&member, 2, 5000);
    assert_int_equal(poll_member(), DP_MEMBER_IDLE);
}

/* ---- a daemon that says anything at any time ---- */

#define MIGRATIONS 64
#define EPOCHS 64

static struct {
    uint64_t seed;
    bool is_prepared[MIGRATIONS][EPOCHS]; /* by a PREPARE that can be obeyed in that epoch */
    bool is_commit[MIGRATIONS][EPOCHS];   /* decided so, as that epoch */
    bool is_refused[MIGRATIONS];
    uint64_t yes; /* the newest that this worker said yes to */
    uint32_t n_commits, n_ends;
} game;

static uint32_t below(uint32_t n)
{
    return random_below(&game.seed, n);
}

/* Near what is under way, so that some of it makes sense. */
static uint64_t some_migration(void)
{
    uint64_t base = member.migration > 2 ? member.migration - 2 : 0;

    return (base + below(5)) % MIGRATIONS;
}

static void say_prepare(void)
{
    struct dp_msg_prepare m = prepare_of(some_migration());
    struct dp_layout next;

    m.incarnation = 1 + below(8) / 7;
    m.epoch = layout.epoch + (below(6) == 0);
    m.n_workers = below(8) ? 3 : 1 + below(5);
    m.cut[1] = below(9);
    m.cut[2] = below(4) ? m.cut[1] + below(9 - m.cut[1]) : below(9);
    m.cut[m.n_workers] = 8;
    next = (struct dp_layout){.n_workers = m.n_workers, .n_layers = 8};
    memcpy(next.cut, m.cut, sizeof next.cut);
    if (m.n_workers == 3 && dp_layout_check(&next, &err) == 0)
        game.is_prepared[m.migration][m.epoch] = true;
    send_prepare(m);
}

static void say_decision(uint64_t migration, uint64_t epoch)
{
    bool commit = below(2);

    if (commit)
        game.is_commit[migration][epoch] = true;
    send_decision(1 + below(8) / 7, migration, epoch, commit);
}

static void daemon_says_something(void)
{
    switch (below(14)) {
    case 0:
        say_prepare();
        break;
    case 1:
        say_decision(some_migration(), layout.epoch + (below(8) ? 1 : below(3)));
        break;
    case 2:
        send_finish(some_migration());
        break;
    case 3:
        hang_up(false);
        greet();
        break;
    default: /* the one that is asked for, as it should be */
        send_prepare((struct dp_msg_prepare){.incarnation = 2, .migration = member.migration, .epoch = layout.epoch, .n_workers = 3,
                                             .n_layers = 8, .cut = {0, 1 + below(3), 5, 8}});
        game.is_prepared[member.migration][layout.epoch] = true;
        break;
    }
}

/* Nothing but dp_member_commit() changes the layout. */
static void some_talk(const struct dp_layout *before)
{
    for (uint32_t n = below(4); n > 0; n--)
        daemon_says_something();
    assert_memory_equal(&layout, before, sizeof layout);
}

/* returns: false: this worker ends. */
static bool decide(const struct dp_layout *before)
{
    for (uint32_t turn = 0; turn < 200; turn++) {
        enum dp_member_answer got = decision();

        if (got == DP_MEMBER_END)
            return false;
        if (got == DP_MEMBER_ABORT)
            return true;
        if (got == DP_MEMBER_COMMIT) {
            assert_int_equal(game.yes, member.migration);
            assert_true(game.is_commit[member.migration][before->epoch + 1]);
            dp_member_commit(&member);
            assert_int_equal(layout.epoch, before->epoch + 1);
            game.n_commits++;
            return true;
        }
        some_talk(before);
        if (below(3) == 0 && poll_member() < 0)
            return false;
        if (below(3) == 0)
            say_decision(member.migration, layout.epoch + 1);
        assert_memory_equal(&layout, before, sizeof layout);
    }
    return false; /* overtaken by a later decision: a real worker ends after T_doubt */
}

/* returns: false: this worker ends. */
static bool one_hand_over(void)
{
    struct dp_layout before = layout;
    int rc;

    some_talk(&before);
    if (poll_member() < 0)
        return false;
    dp_member_begin(&member, member.migration + 1, 0, false);
    some_talk(&before);
    rc = dp_member_prepare(&member, &err);
    some_talk(&before);
    if (rc > 0 && below(4)) {
        rc = vote_yes();
        if (rc > 0) {
            assert_true(game.is_prepared[member.migration][before.epoch]);
            assert_false(game.is_refused[member.migration]);
            game.yes = member.migration;
            if (!decide(&before))
                return false;
        }
    } else {
        assert_true(vote_no());
        for (uint64_t m = 0; m <= member.migration; m++)
            game.is_refused[m] = true;
        assert_int_equal(vote_yes() > 0, 0);
    }
    done();
    return poll_member() >= 0;
}

static void a_daemon_that_lies_commits_nothing(void **state)
{
    uint32_t n_games = DP_INSTANCES(120);

    game.seed = 1;
    game.n_commits = game.n_ends = 0;
    for (uint32_t i = 0; i < n_games; i++) {
        memset(game.is_prepared, 0, sizeof game.is_prepared);
        memset(game.is_commit, 0, sizeof game.is_commit);
        memset(game.is_refused, 0, sizeof game.is_refused);
        begin(state);
        while (member.migration < MIGRATIONS - 4 && one_hand_over())
            ;
        game.n_ends += member.migration < MIGRATIONS - 4;
        finish(state);
    }
    print_message("# %u games, %u commits, %u workers ended early\n", n_games, game.n_commits, game.n_ends);
    assert_true(game.n_commits > n_games / 4);
    assert_true(game.n_ends > n_games / 4);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, finish)

static const struct CMUnitTest tests[] = {
    T(a_hand_over_is_committed),
    T(who_gave_nothing_keeps_nothing),
    T(an_abort_leaves_everything_as_it_was),
    T(doubt_outlives_the_daemon),
    T(doubt_ends_at_last),
    T(what_is_decided_stays_decided),
    T(who_was_replaced_decides_nothing),
    T(what_is_said_to_one_alone_is_not_agreed_on),
    T(a_commit_as_another_epoch_ends_the_worker),
    T(a_commit_without_this_workers_yes_ends_it),
    T(a_commit_of_what_was_refused_ends_it),
    T(an_abort_of_what_never_began_is_acknowledged),
    T(a_poll_in_doubt_leaves_the_decision_alone),
    T(a_later_decision_decides_nothing),
    T(a_yes_is_said_once_and_kept),
    T(no_yes_without_a_prepare_or_after_a_no),
    T(what_was_aborted_before_the_yes_gets_none),
    T(waiting_for_prepare_ends),
    T(without_a_daemon_prepare_is_not_waited_for),
    T(wrong_prepares_are_refused),
    T(newcomers_come_only_where_they_may),
    T(a_leaver_waits_for_finish),
    T(a_leaver_that_nobody_lets_go_goes_at_last),
    T(a_leaver_without_a_daemon_goes_sooner),
    T(a_regroup_ends_doubt),
    T(a_regroup_lets_go_of_what_was_kept),
    cmocka_unit_test(a_daemon_that_lies_commits_nothing),
};
TEST_MAIN("member", tests)
