/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that meet through two real daemons (daemon_world.h): who is taken, who is not, and what a restart in the middle
 * does. The workers here do what worker/net/wireup_daemon.c does. */
#include "tests/unit/daemon/daemon_check.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire.h"
#include "tests/unit/unit.h"

enum { MANY = 48, STEP = 5, PATIENCE_MS = 30000 };
#define SEC UINT64_C(1000000000)

struct wirer {
    struct dw_process *process;
    int fd;
    uint32_t step, rank, n, uid, n_cards, kind, speaker;
    bool has_all, has_go, has_failed, was_denied, is_quiet; /* quiet: does not say that it is ready */
    uint64_t try_at_ns;
    uint16_t card_bytes;
    uint8_t key[DP_KEY_BYTES];
    char text[1024], first_card[64], last_card[64];
    size_t n_in;
    uint8_t in[80000];
};

static struct wirer all[2 * MANY];
static uint32_t n_all;

/* ---- workers ---- */

static struct wirer *come(struct dw_process *p, uint32_t step, uint32_t rank, uint32_t n)
{
    struct wirer *w = &all[n_all++];

    memset(w, 0, sizeof *w);
    *w = (struct wirer){.process = p, .fd = -1, .step = step, .rank = rank, .n = n, .uid = DW_OWNER, .kind = DP_CARD_HERE};
    return w;
}

static void say(struct wirer *w)
{
    static uint8_t frame[DP_HEADER_BYTES + DP_BODY_MAX], card[DP_CARD_MAX];
    struct dp_msg_card m = {.job_id = DW_JOB, .step_id = w->step, .rank = w->rank, .n_workers = w->n,
                            .kind = (uint8_t)(w->has_all ? DP_CARD_READY : w->kind), .patience_ms = PATIENCE_MS};
    struct dp_header h = {DP_PROTO_VERSION, DP_MSG_CARD, 0, 1};
    struct dp_writer out;

    snprintf((char *)card, sizeof card, "card of %u", w->rank);
    m.card = card;
    m.card_len = w->card_bytes ? w->card_bytes : (uint16_t)strlen((char *)card);
    m.key = w->key;
    m.key_len = w->has_all ? DP_KEY_BYTES : 0;
    dp_writer_init(&out, frame + DP_HEADER_BYTES, DP_BODY_MAX);
    dp_msg_card_encode(&out, &m);
    h.body_len = (uint32_t)dp_writer_used(&out);
    dp_header_encode(frame, &h);
    (void)!send(w->fd, frame, DP_HEADER_BYTES + h.body_len, MSG_NOSIGNAL);
}

static void leave(struct wirer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->n_in = 0;
    w->try_at_ns = dw.now_ns + SEC / 2;
}

static void hear_roster(struct wirer *w, struct dp_reader *r)
{
    struct dp_msg_roster m;
    struct dp_reader cards;

    assert_int_equal(dp_msg_roster_decode(r, &m, NULL), 0);
    assert_int_equal(m.n_workers, w->n);
    if (m.first == 0)
        w->n_cards = 0;
    assert_int_equal(m.first, w->n_cards);
    dp_reader_init(&cards, m.cards, m.cards_len);
    for (uint32_t i = 0; i < m.count; i++) {
        uint16_t bytes = dp_rd_u16(&cards);
        static uint8_t card[DP_CARD_MAX + 1];

        dp_rd_bytes(&cards, card, bytes);
        card[bytes] = '\0';
        if (m.first + i == 0)
            snprintf(w->first_card, sizeof w->first_card, "%.60s", (char *)card);
        snprintf(w->last_card, sizeof w->last_card, "%.60s", (char *)card);
    }
    w->n_cards += m.count;
}

static void hear_state(struct wirer *w, struct dp_reader *r)
{
    struct dp_msg_wireup m;

    assert_int_equal(dp_msg_wireup_decode(r, &m, NULL), 0);
    memcpy(w->text, m.text, sizeof w->text);
    w->speaker = m.speaker;
    if (m.state == DP_WIREUP_WHOLE) {
        assert_int_equal(w->n_cards, w->n);
        assert_int_equal(m.key_len, DP_KEY_BYTES);
        memcpy(w->key, m.key, sizeof w->key);
        w->has_all = true;
        if (!w->is_quiet)
            say(w);
    } else if (m.state == DP_WIREUP_GO) {
        assert_true(w->has_all);
        w->has_go = true;
    } else if (m.state == DP_WIREUP_FAILED || m.state == DP_WIREUP_DENIED) {
        w->has_failed = true;
        w->was_denied = m.state == DP_WIREUP_DENIED;
    }
}

static void hear(struct wirer *w)
{
    ssize_t n = recv(w->fd, w->in + w->n_in, sizeof w->in - w->n_in, MSG_DONTWAIT);
    struct dp_header h;
    struct dp_reader r;

    w->n_in += n > 0 ? (size_t)n : 0;
    while (w->n_in >= DP_HEADER_BYTES) {
        size_t total;

        assert_int_equal(dp_header_decode(w->in, &h, NULL), 0);
        total = DP_HEADER_BYTES + h.body_len;
        if (w->n_in < total)
            break;
        dp_reader_init(&r, w->in + DP_HEADER_BYTES, h.body_len);
        if (h.type == DP_MSG_ROSTER)
            hear_roster(w, &r);
        else if (h.type == DP_MSG_WIREUP)
            hear_state(w, &r);
        w->n_in -= total;
        memmove(w->in, w->in + total, w->n_in);
    }
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        leave(w);
    }
}

static void turn(struct wirer *w)
{
    if (!w->process->is_alive || w->has_go || w->has_failed) {
        if (w->fd >= 0)
            leave(w);
        return;
    }
    if (w->fd < 0 && dw.now_ns >= w->try_at_ns) {
        w->fd = dw.node[w->process->node].is_up ? dw_connect(w->process->node, w->process->pid, w->uid) : -1;
        if (w->fd >= 0)
            say(w);
        else
            w->try_at_ns = dw.now_ns + SEC / 2;
    }
    for (int i = 0; i < 3 && w->fd >= 0; i++)
        hear(w);
}

static void run(double seconds)
{
    for (uint64_t end = dw.now_ns + (uint64_t)(seconds * 1e9); dw.now_ns < end;) {
        for (uint32_t i = 0; i < n_all; i++)
            turn(&all[i]);
        dw_advance(DW_STEP_NS);
    }
}

/* The plugin tells of tasks of a step on a node. */
static void tell_tasks(uint32_t node, uint32_t step, uint32_t n_tasks, uint32_t first, uint32_t count, struct dw_process *p[])
{
    static struct dp_msg_tasks m;
    uint8_t body[DP_MAX_WORKERS * 8 + 64];
    struct dp_writer w;

    m = (struct dp_msg_tasks){.job_id = DW_JOB, .step_id = step, .n_tasks = n_tasks, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        m.rank[i] = first + i;
        m.pid[i] = p[i]->pid;
    }
    dp_writer_init(&w, body, sizeof body);
    dp_msg_tasks_encode(&w, &m);
    (void)dw_say(node, 0, DP_MSG_TASKS, body, dp_writer_used(&w));
}

static struct dw_process *task[MANY];

/* n tasks of a step, the first half on n0; all told. */
static void start_tasks(uint32_t step, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        task[i] = dw_fork(i < n / 2 ? 0 : 1, DW_WORKERS);
    tell_tasks(0, step, n, 0, n / 2, task);
    tell_tasks(1, step, n, n / 2, n - n / 2, task + n / 2);
}

static void begin(void)
{
    n_all = 0;
    dw_start(1, NULL, 0);
    dw.is_lost = true; /* nobody trains: a step before this one is over */
    for (uint32_t i = 0; i < DW_WORKERS; i++)
        dw_exit(dw.worker[i].process);
    dw_run(3, false);
}

static void end(void)
{
    char broken[sizeof dw.broken];

    for (uint32_t i = 0; i < n_all; i++)
        leave(&all[i]);
    dw_stop();
    memcpy(broken, dw.broken, sizeof broken);
    assert_string_equal(broken, "");
}

/* A step of n, of whom so many come. */
static void start_and_come(uint32_t n, uint32_t n_come)
{
    start_tasks(STEP, n);
    for (uint32_t i = 0; i < n_come; i++)
        come(task[i], STEP, i, n);
}

static void all_have_met(uint32_t from, uint32_t n)
{
    static const uint8_t none[DP_KEY_BYTES];

    for (uint32_t i = from; i < from + n; i++) {
        char last[64];

        snprintf(last, sizeof last, "card of %u", all[i].n - 1);
        assert_string_equal(all[i].text, "");
        assert_true(all[i].has_go);
        assert_string_equal(all[i].first_card, "card of 0");
        assert_string_equal(all[i].last_card, last);
        assert_memory_equal(all[i].key, all[from].key, DP_KEY_BYTES);
        assert_memory_not_equal(all[i].key, none, DP_KEY_BYTES);
    }
}

/* ---- tests ---- */

static void workers_of_two_nodes_meet(void **state)
{
    (void)state;
    begin();
    start_and_come(4, 3);
    run(2);
    assert_false(all[0].has_all);
    come(task[3], STEP, 3, 4);
    run(3);
    all_have_met(0, 4);
    end();
}

/* Cards as large as they may be: the table takes several pieces. */
static void many_workers_with_large_cards_meet(void **state)
{
    (void)state;
    begin();
    start_tasks(STEP, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        come(task[i], STEP, i, MANY)->card_bytes = DP_CARD_MAX;
    run(8);
    all_have_met(0, MANY);
    end();
}

static void two_steps_meet_at_the_same_time(void **state)
{
    (void)state;
    begin();
    start_and_come(4, 4);
    start_tasks(STEP + 1, 2);
    for (uint32_t i = 0; i < 2; i++)
        come(task[i], STEP + 1, i, 2);
    run(4);
    all_have_met(0, 4);
    all_have_met(4, 2);
    assert_memory_not_equal(all[0].key, all[4].key, DP_KEY_BYTES);
    end();
}

static void a_rank_that_is_missing_is_named_with_its_node(void **state)
{
    (void)state;
    begin();
    start_and_come(4, 3);
    run(PATIENCE_MS / 1e3 - 2);
    assert_false(all[0].has_failed);
    run(5);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(all[i].has_failed && !all[i].was_denied);
        assert_int_equal(all[i].speaker, 0);
        assert_non_null(strstr(all[i].text, "nothing heard from worker 3 on n1 in 30 s: the run cannot begin"));
    }
    end();
}

/* Its node could not tell the batch host of it while it lived. */
static void a_task_that_ended_at_once_is_named_with_its_node(void **state)
{
    const struct dp_msg_step_end ended = {.job_id = DW_JOB, .step_id = STEP};
    uint8_t body[64];
    struct dp_writer w;

    (void)state;
    begin();
    for (uint32_t i = 0; i < 2; i++)
        task[i] = dw_fork(i, DW_WORKERS);
    dw_kill_daemon(0, 3.0);
    run(1);
    tell_tasks(1, STEP, 2, 1, 1, task + 1);
    dw_exit(task[1]);
    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_end_encode(&w, &ended);
    (void)dw_say(1, 0, DP_MSG_STEP_END, body, dp_writer_used(&w));
    run(6);
    tell_tasks(0, STEP, 2, 0, 1, task);
    come(task[0], STEP, 0, 2);
    run(PATIENCE_MS / 1e3 + 3);
    assert_true(all[0].has_failed);
    assert_non_null(strstr(all[0].text, "nothing heard from worker 1 on n1 in 30 s: the run cannot begin"));
    end();
}

static void a_refusal_reaches_all(void **state)
{
    (void)state;
    begin();
    start_tasks(STEP, 4);
    for (uint32_t i = 0; i < 4; i++)
        come(task[i], STEP, i, 4)->kind = i == 2 ? DP_CARD_REFUSED : DP_CARD_HERE;
    run(3);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(all[i].has_failed);
        assert_int_equal(all[i].speaker, 0);
        assert_string_equal(all[i].text, "worker 2 refuses to start: card of 2");
    }
    end();
}

static void a_worker_that_dies_is_not_waited_for(void **state)
{
    (void)state;
    begin();
    start_and_come(4, 3);
    run(2);
    dw_exit(task[2]);
    run(3);
    assert_true(all[0].has_failed && all[1].has_failed);
    assert_non_null(strstr(all[0].text, "worker 2 on n1 ended before all workers had met"));
    end();
}

/* What a process says of itself does not count. */
static void nobody_takes_a_rank_that_is_not_his(void **state)
{
    struct dw_process *other;
    struct wirer *w[5];

    (void)state;
    begin();
    start_tasks(STEP, 4);
    other = dw_fork(0, DW_WORKERS);
    for (uint32_t i = 0; i < 3; i++)
        come(task[i], STEP, i, 4);
    run(1);
    w[0] = come(task[0], STEP, 3, 4);     /* of another task, on another node */
    w[1] = come(task[1], STEP, 0, 4);     /* of another task here */
    w[2] = come(other, STEP, 3, 4);       /* of no task */
    w[3] = come(other, STEP, 3, 4);       /* of nobody's */
    w[3]->uid = DW_STRANGER;
    w[4] = come(task[3], STEP, 3, 5);     /* of a step that is larger */
    run(2);
    for (int i = 0; i < 5; i++)
        assert_true(w[i]->was_denied); /* which is no reason to end the step */
    assert_non_null(strstr(w[0]->text, "is of task 0 of step 5, not of task 3"));
    assert_non_null(strstr(w[1]->text, "another process has this rank"));
    assert_non_null(strstr(w[2]->text, "was not started by any task of step 5 here"));
    assert_non_null(strstr(w[3]->text, "another user"));
    assert_non_null(strstr(w[4]->text, "step 5 has 4 tasks, not 5"));
    assert_false(all[0].has_failed || all[1].has_failed || all[2].has_failed);
    w[4] = come(task[3], STEP, 3, 4);
    run(4);
    assert_true(w[4]->has_go && all[0].has_go && all[1].has_go && all[2].has_go);
    end();
}

/* A daemon that was not there when the step began believes the owner's processes, and the first one has the rank. */
static void a_step_that_nobody_told_of(void **state)
{
    struct wirer *second;

    (void)state;
    begin();
    for (uint32_t i = 0; i < 4; i++)
        task[i] = dw_fork(i / 2, DW_WORKERS);
    for (uint32_t i = 0; i < 3; i++)
        come(task[i], STEP, i, 4);
    run(2);
    second = come(dw_fork(1, DW_WORKERS), STEP, 2, 4);
    run(2);
    assert_true(second->has_failed);
    assert_non_null(strstr(second->text, "another process has this rank"));
    second = come(task[3], STEP, 3, 4);
    run(3);
    assert_true(second->has_go && all[0].has_go && all[1].has_go && all[2].has_go);
    end();
}

static void restart(uint32_t node)
{
    begin();
    start_and_come(4, 3);
    run(2);
    dw_kill_daemon(node, 1.0);
    run(2);
    come(task[3], STEP, 3, 4);
    run(15);
    all_have_met(0, 4);
    end();
}

static void a_nodes_daemon_is_restarted_while_they_meet(void **state)
{
    (void)state;
    restart(1);
}

static void the_coordinators_daemon_is_restarted_while_they_meet(void **state)
{
    (void)state;
    restart(0);
}

/* Some have the table and the key, others were about to get it: the key stays. */
static void the_key_outlives_the_coordinators_daemon(void **state)
{
    uint8_t key[DP_KEY_BYTES];

    (void)state;
    begin();
    start_tasks(STEP, 4);
    for (uint32_t i = 0; i < 4; i++)
        come(task[i], STEP, i, 4)->is_quiet = i == 3;
    run(2);
    assert_true(all[0].has_all && !all[0].has_go);
    memcpy(key, all[0].key, sizeof key);
    for (uint32_t i = 1; i < 4; i++) { /* as if they had not got it */
        all[i].has_all = all[i].is_quiet = false;
        leave(&all[i]);
    }
    dw_kill_daemon(0, 1.0);
    dw_kill_daemon(1, 1.0);
    run(15);
    all_have_met(0, 4);
    assert_memory_equal(all[0].key, key, DP_KEY_BYTES);
    end();
}

/* Whoever starts again after a wire-up that failed begins a new one. */
static void a_new_round_after_a_failure(void **state)
{
    (void)state;
    begin();
    start_tasks(STEP, 2);
    come(task[0], STEP, 0, 2);
    come(task[1], STEP, 1, 2)->kind = DP_CARD_REFUSED;
    run(3);
    assert_true(all[0].has_failed && all[1].has_failed);
    dw_exit(task[0]);
    dw_exit(task[1]);
    start_tasks(STEP, 2);
    come(task[0], STEP, 0, 2);
    come(task[1], STEP, 1, 2);
    run(5);
    all_have_met(2, 2);
    end();
}

/* The job is requeued: its next life has the same step ids and ranks, and other processes. */
static void a_requeued_job_meets_anew(void **state)
{
    (void)state;
    begin();
    start_and_come(4, 3);
    run(2);
    for (uint32_t i = 0; i < 4; i++)
        dw_exit(task[i]);
    dw.slurm.restart_count++;
    dw_step_start(0);
    dw_step_start(1);
    start_and_come(4, 4);
    run(12);
    all_have_met(3, 4);
    end();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(workers_of_two_nodes_meet),
    cmocka_unit_test(many_workers_with_large_cards_meet),
    cmocka_unit_test(two_steps_meet_at_the_same_time),
    cmocka_unit_test(a_rank_that_is_missing_is_named_with_its_node),
    cmocka_unit_test(a_task_that_ended_at_once_is_named_with_its_node),
    cmocka_unit_test(a_refusal_reaches_all),
    cmocka_unit_test(a_worker_that_dies_is_not_waited_for),
    cmocka_unit_test(nobody_takes_a_rank_that_is_not_his),
    cmocka_unit_test(a_step_that_nobody_told_of),
    cmocka_unit_test(a_nodes_daemon_is_restarted_while_they_meet),
    cmocka_unit_test(the_coordinators_daemon_is_restarted_while_they_meet),
    cmocka_unit_test(the_key_outlives_the_coordinators_daemon),
    cmocka_unit_test(a_new_round_after_a_failure),
    cmocka_unit_test(a_requeued_job_meets_anew),
};

int main(void)
{
    return cmocka_run_group_tests_name("wireup", tests, open_world, close_world);
}
