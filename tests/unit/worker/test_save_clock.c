/* SPDX-License-Identifier: BSD-3-Clause */
/* When the clock asks for a checkpoint, and when the job's time is as good as over. */
#include "worker/train/save_clock.h"

#include <stdlib.h>

#include "tests/unit/unit.h"
#include "worker/step/step_sync.h"

#define S 1000000000ull

static struct dp_train_config config_of(double every_s, double before_limit_s)
{
    struct dp_train_config c = {.train.steps = 1000000,
                                .checkpoint = {.dir = "x", .every_s = every_s, .before_limit_s = before_limit_s}};

    return c;
}

/* Steps of step_s from *now on until a request comes; a save takes save_s. returns: the request, 0 after until_s. */
static uint32_t run(struct dp_save_clock *c, uint64_t *now, double step_s, double save_s, double until_s)
{
    for (;;) {
        uint32_t request;

        *now += (uint64_t)(step_s * 1e9);
        if ((double)*now / 1e9 > until_s)
            return 0;
        request = dp_save_clock_requests(c, *now, 1);
        *now += request ? (uint64_t)(save_s * 1e9) : 0;
        dp_save_clock_boundary(c, *now, &(struct dp_save_clock_took){.save_ns = request ? (uint64_t)(save_s * 1e9) : 0});
        if (request)
            return request;
    }
}

static void every_so_often(void **state)
{
    struct dp_train_config config = config_of(100, 60);
    struct dp_save_clock c;
    uint64_t now = 5 * S;

    (void)state;
    dp_save_clock_start(&c, &config, now);
    for (int i = 1; i <= 3; i++) { /* a save of 20 s does not eat into the time between two */
        assert_int_equal(run(&c, &now, 1, 20, 1000), DP_REQUEST_SAVE);
        assert_int_equal(now / S, 5 + 120 * i);
    }
    config.checkpoint.every_s = 0;
    assert_int_equal(run(&c, &now, 1, 20, 10000), 0);
}

static void without_a_folder_there_is_nothing_to_do(void **state)
{
    struct dp_train_config config = config_of(1, 60);
    struct dp_save_clock c;
    uint64_t now = S;

    (void)state;
    config.checkpoint.dir[0] = '\0';
    dp_save_clock_start(&c, &config, now);
    dp_save_clock_end_at(&c, 100 * S);
    assert_int_equal(run(&c, &now, 1, 1, 200), 0);
}

/* returns: the second at which a run stops whose job ends after end_s. */
static uint64_t stops_at(double reserve_s, double step_s, double save_s, uint64_t end_s)
{
    struct dp_train_config config = config_of(1000, reserve_s);
    struct dp_save_clock c;
    uint64_t now = 0;
    uint32_t request;

    dp_save_clock_start(&c, &config, now);
    dp_save_clock_end_at(&c, end_s * S);
    do
        request = run(&c, &now, step_s, save_s, 1e6);
    while (request == DP_REQUEST_SAVE);
    assert_int_equal(request, DP_REQUEST_END);
    return now / S - (uint64_t)save_s;
}

static void before_the_time_is_over(void **state)
{
    (void)state;
    assert_in_range(stops_at(60, 1, 10, 3600), 3600 - 60 - 2 * 11, 3600 - 60 - 2 * 10);
    assert_in_range(stops_at(60, 120, 10, 3600), 3600 - 60 - 2 * 130, 3600 - 60 - 2 * 130 + 120); /* long steps */
    assert_in_range(stops_at(60, 1, 10, 60), 60 - 6 - 3, 60 - 6); /* a job of a minute: a tenth of it */
    assert_in_range(stops_at(1e6, 1, 1, 100), 100 - 10 - 3, 100 - 10);
    assert_int_equal(stops_at(60, 100, 10, 50), 100); /* too late, with the first step */
}

/* Steps of a second, an evaluation of eval_s after each tenth, the job ends after 3600 s. returns: the last step. */
static uint64_t stops_at_step(double eval_s, uint64_t *now_ns)
{
    struct dp_train_config config = config_of(0, 60);
    struct dp_save_clock c;
    uint64_t step = 0;

    config.data.eval_every = 10;
    *now_ns = 0;
    dp_save_clock_start(&c, &config, 0);
    dp_save_clock_end_at(&c, 3600 * S);
    for (;;) {
        struct dp_save_clock_took took = {0};

        *now_ns += S;
        if (dp_save_clock_requests(&c, *now_ns, ++step) == DP_REQUEST_END)
            return step;
        took.eval_ns = step % 10 == 0 ? (uint64_t)(eval_s * 1e9) : 0;
        *now_ns += took.eval_ns;
        dp_save_clock_boundary(&c, *now_ns, &took);
        assert_true(*now_ns < 3600 * S);
    }
}

/* An evaluation of minutes is not begun when it cannot end in time, and costs nothing where none is due. */
static void an_evaluation_must_fit_too(void **state)
{
    uint64_t now_ns, step = stops_at_step(300, &now_ns);

    (void)state;
    assert_int_equal(step, 109); /* ten of them, 3109 s; the eleventh would end at 3410 s, not twice that late */
    assert_int_equal(now_ns / S, 3109);
    step = stops_at_step(0.1, &now_ns);
    assert_in_range(now_ns / S, 3600 - 60 - 3, 3600 - 60);
}

static void the_end_may_move(void **state)
{
    struct dp_train_config config = config_of(0, 60);
    struct dp_save_clock c;
    uint64_t now = 0;

    (void)state;
    dp_save_clock_start(&c, &config, now);
    assert_int_equal(run(&c, &now, 1, 1, 5000), 0); /* not known */
    dp_save_clock_end_at(&c, 10000 * S);
    assert_int_equal(run(&c, &now, 1, 1, 9000), 0);
    dp_save_clock_end_at(&c, 20000 * S); /* scontrol update TimeLimit */
    assert_int_equal(run(&c, &now, 1, 1, 19000), 0);
    dp_save_clock_end_at(&c, 0); /* for ever */
    assert_int_equal(run(&c, &now, 1, 1, 30000), 0);
    dp_save_clock_end_at(&c, 30100 * S);
    assert_int_equal(run(&c, &now, 1, 1, 40000), DP_REQUEST_END);
    config.checkpoint.before_limit_s = 0; /* only the signal counts */
    assert_int_equal(run(&c, &now, 1, 1, 40000), 0);
}

static void a_stall_is_forgotten(void **state)
{
    struct dp_train_config config = config_of(0, 60);
    struct dp_save_clock c;
    uint64_t now = 0;

    (void)state;
    dp_save_clock_start(&c, &config, now);
    dp_save_clock_end_at(&c, 20000 * S);
    assert_int_equal(run(&c, &now, 1, 1, 1000), 0);
    assert_int_equal(run(&c, &now, 3000, 1, 5000), 0); /* one step of 50 minutes */
    assert_int_equal(run(&c, &now, 1, 1, 19900), 0);
    assert_int_equal(run(&c, &now, 1, 1, 20000), DP_REQUEST_END);
}

static void newer_slurms_say_it_at_the_start(void **state)
{
    static const char *const no[] = {"", "0", "-1", "999", "1000", "99999999999999999999", "soon"};

    (void)state;
    unsetenv("SLURM_JOB_END_TIME");
    assert_int_equal(dp_save_clock_env_end(7 * S, 1000 * S), 0);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        setenv("SLURM_JOB_END_TIME", no[i], 1);
        assert_int_equal(dp_save_clock_env_end(7 * S, 1000 * S), 0);
    }
    setenv("SLURM_JOB_END_TIME", "1060", 1);
    assert_int_equal(dp_save_clock_env_end(7 * S, 1000 * S), 67 * S);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_so_often),
    cmocka_unit_test(without_a_folder_there_is_nothing_to_do),
    cmocka_unit_test(before_the_time_is_over),
    cmocka_unit_test(an_evaluation_must_fit_too),
    cmocka_unit_test(the_end_may_move),
    cmocka_unit_test(a_stall_is_forgotten),
    cmocka_unit_test(newer_slurms_say_it_at_the_start),
};
TEST_MAIN("save_clock", tests)
