/* SPDX-License-Identifier: BSD-3-Clause */
/* What the shared object says to its daemon of what a trainer tells it, and what it says to a trainer who is wrong. */
#include <errno.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/lib/dynpipe_world.h"

static void hello_says_what_the_run_is(void **state)
{
    static const struct dynpipe_change change[2] = {{.step = 10, .value = 0.5, .kind = DYNPIPE_PRUNE},
                                                    {.step = 20, .value = 2, .kind = DYNPIPE_FREEZE}};
    struct dynpipe_run run = run_of(1, DYNPIPE_CAN_MOVE | DYNPIPE_EQUAL_COST);
    struct dp_msg_hello h;
    struct dynpipe *d;

    (void)state;
    run.step = 3;
    run.mem_limit_bytes = 1 << 20;
    run.boundary_bytes = 4096;
    run.change = change;
    run.n_changes = 2;
    run.device = "a GPU";
    run.checkpoint_dir = "/there";
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_STEP_ID", "2", 1);
    d = joined(&run, &h);
    assert_true(h.job_id == 77 && h.step_id == 2 && h.rank == 1 && h.n_workers == WORKERS && h.n_layers == LAYERS && h.epoch == 0);
    assert_true(h.step == 3 && h.steps_total == 1000 && h.microbatches == 4 && h.tokens_per_microbatch == 128 && h.schedule == 0);
    assert_true(h.mem_limit_bytes == 1 << 20 && h.stage_message_bytes == 4096 && h.cut[1] == 3 && h.cut[3] == 9);
    assert_true(!h.is_fixed && h.stays && !h.blocks_differ && !h.regroups && !h.joins);
    assert_true(h.n_changes == 2 && h.change[1].kind == DP_CHANGE_FREEZE && h.change[1].step == 20);
    assert_true(h.prune_end == 10 && h.final_sparsity == 0.5);
    assert_string_equal(h.device, "a GPU");
    assert_string_equal(h.trainer, "a test");
    assert_string_equal(h.checkpoint_dir, "/there");
    finish(d);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_STEP_ID");
    run = run_of(0, 0);
    run.schedule = DYNPIPE_GPIPE;
    d = joined(&run, &h);
    assert_true(h.job_id == 0 && h.is_fixed && h.stays && h.blocks_differ && h.schedule == 1);
    finish(d);
}

static void a_report_has_medians(void **state)
{
    struct dynpipe_run run = run_of(1, ALL);
    static struct dp_msg_report r;
    struct dp_msg_hello hello;
    struct dp_reader reader;
    uint64_t step = 1;
    struct dynpipe *d;

    (void)state;
    run.steps_total = UINT64_MAX; /* as many as fit between two reports */
    d = joined(&run, &hello);
    UNTIL(d, train(d, step++, 3) == 1);
    hear(d, DP_MSG_REPORT, &reader);
    assert_int_equal(dp_msg_report_decode(&reader, &r, NULL), 0);
    assert_true(r.rank == 1 && r.step == step - 1 && r.first_layer == 3 && r.n_layers == 3 && r.window_steps >= 1);
    assert_true(r.step_ns == 1000000 && r.wait_ns == 1000 && r.optimizer_ns == 500 && isnan(r.loss));
    assert_int_equal(r.busy_ns, 4 * (3 * 200 + 100 + 101 + 102) + 500); /* of all microbatches */
    assert_true(r.layer[2].fwd_ns == 102 && r.layer[0].act_bytes == 8);
    finish(d);
}

static void expected_costs_and_events_arrive(void **state)
{
    struct dynpipe_load load[2] = {{.fwd_ns = 7}, {.fwd_ns = 8}};
    struct dynpipe_run run = run_of(1, ALL);
    static struct dp_msg_expect x;
    struct dp_msg_hello hello;
    struct dp_msg_event e;
    struct dp_reader r;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    assert_int_equal(dynpipe_expect(d, 9, 4, load, 2), 0);
    hear(d, DP_MSG_EXPECT, &r);
    assert_int_equal(dp_msg_expect_decode(&r, &x, NULL), 0);
    assert_true(x.rank == 1 && x.step == 9 && x.first_layer == 4 && x.n_layers == 2 && x.layer[1].fwd_ns == 8);
    assert_int_equal(dynpipe_event(d, DYNPIPE_EV_EVAL, 8, 2.5, NULL), 0);
    hear(d, DP_MSG_EVENT, &r);
    assert_int_equal(dp_msg_event_decode(&r, &e, NULL), 0);
    assert_true(e.kind == DP_EV_EVAL && e.step == 8 && e.value == 2.5);
    assert_int_equal(dynpipe_event(d, 5, 8, 0, "x"), -1); /* REGROUPED is nobody's */
    assert_int_equal(dynpipe_event(d, 6, 8, 0, "x"), -1);
    assert_int_equal(dynpipe_event(d, -1, 8, 0, "x"), -1);
    assert_int_equal(dynpipe_event(d, DYNPIPE_EV_SAVED, 8, 0, NULL), -1);
    assert_int_equal(dynpipe_event(d, DYNPIPE_EV_EVAL, 8, NAN, NULL), -1);
    assert_int_equal(dynpipe_event(d, DYNPIPE_EV_PRUNED, 8, 1.5, NULL), -1);
    assert_int_equal(dynpipe_event(d, DYNPIPE_EV_FROZEN, 8, LAYERS + 1, NULL), -1);
    assert_non_null(strstr(dynpipe_why(d), "frozen layers"));
    assert_int_equal(dynpipe_expect(d, 9, 8, load, 2), -1);
    assert_int_equal(dynpipe_expect(d, 9, 0, load, LAYERS + 1), -1);
    assert_int_equal(dynpipe_expect(d, 9, 0, NULL, 1), -1);
    settle(d); /* nothing of that was said */
    finish(d);
}

static void a_proposal_is_given_on(void **state)
{
    struct dp_msg_proposal p = {.incarnation = 1, .number = 3, .now_ns = 4e6, .then_ns = 3e6, .n_workers = WORKERS,
                                .n_layers = LAYERS, .cut = {0, 5, 9, 9}, .gone = {0, 0, 1}};
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dynpipe_run run = run_of(0, 0);
    struct dp_msg_hello hello;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    assert_int_equal(dynpipe_proposal(d, &plan), 0);
    FAKE_SEND(&peer, proposal, DP_MSG_PROPOSAL, &p);
    settle(d);
    assert_int_equal(dynpipe_proposal(d, &plan), 1);
    assert_true(plan.migration == 3 && plan.now_ns == 4e6 && plan.then_ns == 3e6 && plan.cut[1] == 5 && plan.old_cut[1] == 3);
    assert_true(plan.gone[2] && plan.n_moves == 5);
    ask(5, 0, 4, 7, false); /* to a trainer that cannot */
    settle(d);
    assert_int_equal(dynpipe_pending(d), 0);
    finish(d);
}

static void what_the_daemon_wants_is_passed_on(void **state)
{
    struct dynpipe_run run = run_of(0, ALL);
    struct dp_msg_hello hello;
    struct dynpipe *d = joined(&run, &hello);

    (void)state;
    assert_true(isnan(dynpipe_time_left(d)));
    assert_int_equal(dynpipe_take_save(d), 0);
    FAKE_SEND(&peer, save, DP_MSG_SAVE, &(struct dp_msg_save){0});
    FAKE_SEND(&peer, limit, DP_MSG_LIMIT, &(struct dp_msg_limit){.left_ms = 5000000});
    settle(d);
    assert_int_equal(dynpipe_take_save(d), 1);
    assert_int_equal(dynpipe_take_save(d), 0);
    assert_true(dynpipe_time_left(d) > 4000 && dynpipe_time_left(d) <= 5000);
    FAKE_SEND(&peer, save, DP_MSG_SAVE, &(struct dp_msg_save){.stop = 1});
    FAKE_SEND(&peer, limit, DP_MSG_LIMIT, &(struct dp_msg_limit){.left_ms = DP_NO_TIME_LIMIT});
    settle(d);
    assert_int_equal(dynpipe_take_save(d), 2);
    assert_true(isinf(dynpipe_time_left(d)));
    finish(d);
}

static void without_a_daemon_everything_goes_on(void **state)
{
    struct dynpipe_plan plan = {.size = sizeof plan};
    struct dynpipe_run run = run_of(0, ALL);
    struct dynpipe_load load = {.fwd_ns = 1};
    uint32_t cut[WORKERS + 1];
    char why[64] = "x";
    struct dynpipe *d;

    (void)state;
    unsetenv("DYNPIPE_SOCKET");
    for (int i = 0; i < 2; i++) {
        run.socket = i ? "/nonexistent/dynpiped.sock" : NULL;
        errno = 0;
        d = dynpipe_join(&run, 20, why, sizeof why);
        assert_non_null(d);
        assert_string_equal(why, "");
        assert_int_equal(errno, 0);
        assert_int_equal(dynpipe_is_connected(d), 0);
        assert_int_equal(strstr(dynpipe_why(d), "/nonexistent") != NULL, i);
        assert_int_equal(dynpipe_fd(d), -1);
        assert_int_equal(train(d, 1, 3), 0);
        assert_int_equal(dynpipe_expect(d, 9, 0, &load, 1), 0);
        assert_int_equal(dynpipe_event(d, DYNPIPE_EV_SAVED, 1, 0, "/there"), 0);
        assert_int_equal(dynpipe_leads(d), 1);
        assert_int_equal(dynpipe_pending(d), 0);
        assert_int_equal(dynpipe_proposal(d, &plan), 0);
        assert_int_equal(dynpipe_prepare(d, 1, &plan, 20), 0);
        assert_int_equal(dynpipe_decide(d, 1, 0, NULL, NULL, 20), DYNPIPE_ABORT);
        dynpipe_done(d, 1, 1, 1);
        assert_int_equal(dynpipe_state(d), DYNPIPE_IDLE);
        assert_int_equal(dynpipe_layout(d, cut), WORKERS);
        assert_int_equal(cut[2], 6);
        assert_int_equal(dynpipe_take_save(d), 0);
        dynpipe_forget(d);
        dynpipe_wait(d, 1);
        dynpipe_leave(d, DYNPIPE_FAILED, "enough");
    }
    dynpipe_leave(NULL, DYNPIPE_COMPLETED, NULL);
}

static void a_refused_worker_hears_why(void **state)
{
    struct dynpipe_run run;
    char why[256];
    pid_t pid;
    int status;

    (void)state;
    fake_daemon_start(&the_daemon);
    run = run_of(0, ALL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const uint8_t *body;
        struct dp_header h;

        if (fake_accept(&the_daemon, &peer, 20000) < 0 || fake_next(&peer, 20000, &h, &body) != 1)
            _exit(1);
        fake_welcome(&peer, DP_VERDICT_FENCED, "", "slot node3 was released");
        _exit(0);
    }
    assert_null(dynpipe_join(&run, 20000, why, sizeof why));
    assert_int_equal(errno, EACCES);
    assert_non_null(strstr(why, "slot node3 was released"));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fake_daemon_stop(&the_daemon);
}

/* The run with one thing wrong. */
static void is_refused(const struct dynpipe_run *run, const char *what)
{
    char why[256] = "";

    errno = 0;
    assert_null(dynpipe_join(run, 0, why, sizeof why));
    assert_int_equal(errno, EINVAL);
    if (!strstr(why, what))
        fail_msg("'%s' does not tell of '%s'", why, what);
    assert_null(dynpipe_join(run, 0, NULL, 0));
}

static void wrong_runs_are_refused(void **state)
{
    static const uint32_t falling[] = {0, 6, 3, 9}, short_of_one[] = {0, 3, 6, 8};
    static const struct dynpipe_change backwards[2] = {{.step = 9, .value = 1, .kind = 2}, {.step = 9, .value = 2, .kind = 2}},
                                       unknown = {.step = 1, .value = 0.5, .kind = 257};
    static char longest[2000];
    const struct dynpipe_run good = run_of(0, ALL);
    struct dynpipe_run run;

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
#define WRONG(field, value, what) (run = good, run.field = (value), is_refused(&run, (what)))
    WRONG(size, 0, "size");
    WRONG(size, 3, "size");
    WRONG(size, offsetof(struct dynpipe_run, cut) + 3, "size"); /* three bytes of a pointer */
    WRONG(size, 1u << 20, "size");
    WRONG(traits, 8, "traits");
    WRONG(rank, WORKERS, "rank");
    WRONG(n_workers, 0, "n_workers");
    WRONG(n_workers, 513, "n_workers");
    WRONG(n_layers, 0, "n_layers");
    WRONG(n_layers, 1025, "n_layers");
    WRONG(schedule, 2, "schedule");
    WRONG(microbatches, 0, "microbatches");
    WRONG(tokens_per_microbatch, 0, "tokens");
    WRONG(steps_total, 0, "steps");
    WRONG(step, 1001, "steps");
    WRONG(cut, NULL, "cut");
    WRONG(cut, falling, "worker");
    WRONG(cut, short_of_one, "ends at layer 8 of 9");
    WRONG(n_changes, 1, "change");
    WRONG(n_changes, 65, "change");
    WRONG(zero, 1, "zero");
    WRONG(doubt_s, 86401, "doubt_s");
    WRONG(leave_s, 86401, "leave_s");
    WRONG(socket, longest, "socket");
    WRONG(checkpoint_dir, longest, "checkpoint_dir");
    run = good;
    run.n_changes = 2;
    run.change = backwards;
    is_refused(&run, "step");
    run.n_changes = 1;
    run.change = &unknown;
    is_refused(&run, "kind");
    is_refused(NULL, "NULL");
}

static void structs_of_other_releases_are_understood(void **state)
{
    struct {
        struct dynpipe_run run;
        uint64_t later;
    } longer = {.run = run_of(0, ALL)};
    struct {
        struct dynpipe_plan plan;
        uint64_t later;
    } plan = {.later = 7};
    struct dynpipe_plan shorter = {.size = offsetof(struct dynpipe_plan, gone), .gone = (const uint8_t *)"kept"};
    struct dynpipe_step step = {.size = offsetof(struct dynpipe_step, wait_ns), .step = 2, .wall_ns = 5};
    static struct dynpipe_load load[3];
    struct dp_msg_hello hello;
    struct dynpipe *d;
    char why[128];

    (void)state;
    longer.run.size = sizeof longer;
    longer.run.trainer = NULL;
    longer.later = 1;
    assert_null(dynpipe_join(&longer.run, 0, why, sizeof why));
    assert_non_null(strstr(why, "later release"));
    longer.later = 0;
    fake_daemon_start(&the_daemon);
    longer.run.socket = the_daemon.path;
    d = dynpipe_join(&longer.run, 0, why, sizeof why);
    assert_non_null(d);
    greet(d, &hello);
    assert_int_equal(dynpipe_report(d, &step, load, 3), 0);
    step.step = 3;
    step.size = 0;
    assert_int_equal(dynpipe_report(d, &step, load, 3), -1);
    ask(5, 0, 4, 7, false);
    assert_int_equal(dynpipe_prepare(d, 5, &plan.plan, 20000), 0);
    assert_non_null(strstr(dynpipe_why(d), "size"));
    plan.plan.size = sizeof plan;
    assert_int_equal(dynpipe_prepare(d, 5, &plan.plan, 20000), 1);
    assert_true(plan.later == 0 && plan.plan.size == sizeof plan && plan.plan.cut[1] == 4);
    assert_int_equal(dynpipe_prepare(d, 5, &shorter, 20000), 1);
    assert_true(shorter.cut[1] == 4 && shorter.size == offsetof(struct dynpipe_plan, gone));
    assert_string_equal((const char *)shorter.gone, "kept");
    assert_int_equal(dynpipe_prepare(d, 5, NULL, 20000), 0);
    finish(d);
}

static void wrong_steps_are_not_taken(void **state)
{
    struct dynpipe_step s = {.size = sizeof s, .step = 1, .wall_ns = 5, .loss = 1, .grad_norm = 1}, bad;
    static struct dynpipe_load load[LAYERS];
    struct dynpipe_run run = run_of(0, ALL);
    struct dp_msg_hello hello;
    struct dynpipe *d;

    (void)state;
    run.step = 1;
    d = joined(&run, &hello);
    assert_int_equal(dynpipe_report(d, &s, load, 3), -1); /* it has been completed */
    s.step = 1001;
    assert_int_equal(dynpipe_report(d, &s, load, 3), -1);
    s.step = 2;
    assert_int_equal(dynpipe_report(d, &s, load, 2), -1);
    assert_int_equal(dynpipe_report(d, &s, load, 4), -1);
    assert_int_equal(dynpipe_report(d, &s, NULL, 3), -1);
    assert_int_equal(dynpipe_report(d, NULL, load, 3), -1);
    bad = s;
    bad.wall_ns = 0;
    assert_int_equal(dynpipe_report(d, &bad, load, 3), -1);
    bad = s;
    bad.zero = 1;
    assert_int_equal(dynpipe_report(d, &bad, load, 3), -1);
    errno = 42;
    assert_true(dynpipe_report(d, &s, load, 3) >= 0);
    assert_int_equal(errno, 42);
    assert_string_equal(dynpipe_why(d), "");
    finish(d);
}

static char told[256];
static int told_level, told_by;

static void tell_me(void *arg, int level, const char *line)
{
    *(int *)arg += 1;
    told_level = level;
    snprintf(told, sizeof told, "%s", line);
}

/* Runs with the streams in a pipe, which nothing may be in afterwards. */
static void lines_go_to_who_asked_and_to_no_stream(void **state)
{
    struct dynpipe_run run = run_of(0, ALL);
    int ends[2], out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    struct dp_msg_hello hello;
    struct dynpipe *d;
    char byte;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_true(out >= 0 && err >= 0);
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    dynpipe_on_log(tell_me, &told_by);
    d = joined(&run, &hello);
    kill_daemon();
    UNTIL(d, !dynpipe_is_connected(d));
    dynpipe_on_log(NULL, NULL);
    run.socket = "/nonexistent/dynpiped.sock";
    dynpipe_leave(dynpipe_join(&run, 0, NULL, 0), DYNPIPE_COMPLETED, NULL); /* told to nobody */
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_true(told_by > 0);
    assert_int_equal(told_level, 1);
    assert_non_null(strstr(told, "daemon lost"));
    close(ends[0]);
    close(out);
    close(err);
    finish(d);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(hello_says_what_the_run_is),
    cmocka_unit_test(a_report_has_medians),
    cmocka_unit_test(expected_costs_and_events_arrive),
    cmocka_unit_test(a_proposal_is_given_on),
    cmocka_unit_test(what_the_daemon_wants_is_passed_on),
    cmocka_unit_test(without_a_daemon_everything_goes_on),
    cmocka_unit_test(a_refused_worker_hears_why),
    cmocka_unit_test(wrong_runs_are_refused),
    cmocka_unit_test(structs_of_other_releases_are_understood),
    cmocka_unit_test(wrong_steps_are_not_taken),
    cmocka_unit_test(lines_go_to_who_asked_and_to_no_stream),
};

TEST_MAIN("dynpipe_calls", tests)
