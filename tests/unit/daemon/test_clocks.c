/* SPDX-License-Identifier: BSD-3-Clause */
/* Times that must be right whatever the node's time of day is set to: what a job has left, since when it runs, and how old
 * files are. */
#include "config.h"

#include "tests/unit/unit.h"

#include "common/clock.h"
#include "daemon/child/job_time.h"
#include "daemon/run/state/keep_clock.h"

#define S DP_SECOND_NS
#define HOUR_MS UINT64_C(3600000) /* milliseconds */

/* It began at 1000000 by the controller's clock, has an hour, and was read after 1000 s, when this node was up for 5000 s. */
static struct dp_job_info job_of_an_hour(void)
{
    return (struct dp_job_info){.start_s = 1000000, .end_s = 1003600, .now_s = 1001000, .read_ns = 5000 * S};
}

static void what_is_left_does_not_hang_on_the_time_of_day(void **state)
{
    static const uint64_t wall_s[] = {0, 1001000, 1001000 + 86400, 1001000 - 86400, 4000000000};
    struct dp_job_info job = job_of_an_hour();

    (void)state;
    for (size_t i = 0; i < sizeof wall_s / sizeof wall_s[0]; i++) {
        assert_int_equal(dp_job_left_ms(&job, 5000 * S, wall_s[i] * S), 2599000);
        assert_int_equal(dp_job_left_ms(&job, 5600 * S, wall_s[i] * S), 1999000);
        assert_int_equal(dp_job_left_ms(&job, 9999 * S, wall_s[i] * S), 0);
        assert_int_equal(dp_job_left_ms(&job, 4999 * S, wall_s[i] * S), 2599000);
    }
    job.end_s = 0;
    assert_true(dp_job_left_ms(&job, 5000 * S, 0) == UINT64_MAX);
}

static void the_time_of_day_counts_where_slurm_says_none(void **state)
{
    struct dp_job_info job = job_of_an_hour();

    (void)state;
    job.now_s = 0;
    assert_int_equal(dp_job_left_ms(&job, 9999 * S, 1003000 * S), 600000);
    assert_int_equal(dp_job_left_ms(&job, 9999 * S, 1003601 * S), 0);
}

static void when_it_began_is_a_span_before_the_answer(void **state)
{
    struct dp_job_info job = job_of_an_hour();

    (void)state;
    assert_true(dp_job_began_ns(&job, 5000 * S) == (4000 - DP_JOB_BEGAN_MARGIN_S) * S);
    assert_int_equal(dp_job_began_ns(&job, 1000 * S), 0); /* before this boot */
    job.now_s = job.start_s - 1;
    assert_int_equal(dp_job_began_ns(&job, 5000 * S), 0);
    job.now_s = 0;
    assert_int_equal(dp_job_began_ns(&job, 5000 * S), 0);
}

#define KEEP_MS (72 * HOUR_MS) /* the default of history_hours */

/* Set forward by a year while the daemon runs: nothing is older for it until files have been kept for as long as they are to
 * be. */
static void a_clock_that_is_set_forward_makes_no_file_older(void **state)
{
    const uint64_t at = 1000 * HOUR_MS, year = 8760 * HOUR_MS, hour_ns = 3600 * S;
    struct dp_keep_clock c = {0};

    (void)state;
    dp_keep_clock_start(&c, 0, at, S);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, at + 100 * HOUR_MS, S + 100 * hour_ns), at + 100 * HOUR_MS);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, at + 101 * HOUR_MS + year, S + 101 * hour_ns), at + 101 * HOUR_MS);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, at + 172 * HOUR_MS + year, S + 172 * hour_ns), at + 172 * HOUR_MS);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, at + 173 * HOUR_MS + year, S + 173 * hour_ns), at + 173 * HOUR_MS + year);
}

/* Or between two of its lives. */
static void a_daemon_that_starts_goes_on_from_the_newest_file(void **state)
{
    const uint64_t newest = 1000 * HOUR_MS, year = 8760 * HOUR_MS, hour_ns = 3600 * S;
    struct dp_keep_clock c = {0};

    (void)state;
    dp_keep_clock_start(&c, newest, newest + year, S);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, newest + year, S), newest);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, newest + year + HOUR_MS, S + hour_ns), newest + HOUR_MS);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, newest + year + 72 * HOUR_MS, S + 72 * hour_ns), newest + year + 72 * HOUR_MS);
}

/* Set back, it is never ahead; a file of the future is not older than it is. */
static void it_is_never_ahead_of_the_time_of_day(void **state)
{
    const uint64_t at = 1000 * HOUR_MS, hour_ns = 3600 * S;
    struct dp_keep_clock c = {0};

    (void)state;
    dp_keep_clock_start(&c, at, at + 1, S);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, at - 500 * HOUR_MS, S + hour_ns), at - 500 * HOUR_MS);
    dp_keep_clock_start(&c, at, at - 500 * HOUR_MS, S);
    assert_int_equal(dp_keep_clock_ms(&c, KEEP_MS, at - 499 * HOUR_MS, S + hour_ns), at - 499 * HOUR_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_does_not_hang_on_the_time_of_day),
        cmocka_unit_test(the_time_of_day_counts_where_slurm_says_none),
        cmocka_unit_test(when_it_began_is_a_span_before_the_answer),
        cmocka_unit_test(a_clock_that_is_set_forward_makes_no_file_older),
        cmocka_unit_test(a_daemon_that_starts_goes_on_from_the_newest_file),
        cmocka_unit_test(it_is_never_ahead_of_the_time_of_day),
    };

    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
