/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of a node, as a daemon finds it that has just been upgraded. */
#include "daemon/run/state/node_journal.h"

#include "tests/unit/unit.h"

enum { REC_ADOPT = 1 }; /* node_journal.c */

/* A job is registered, by a record that lacks the last cut_bytes of what is written today. */
static int adopt(struct dp_node_journal *log, size_t cut_bytes, struct dp_err *err)
{
    const struct dp_msg_step_start m = {.job_id = 7, .step_id = 1, .uid = 1000, .mode = DP_MODE_RELEASE,
                                        .stall_end_s = 600, .memory = 25, .slices = 4, .max_gpus = 6, .copies = 1,
                                        .policy = "time", .node = "n1"};
    uint8_t body[1024];
    struct dp_writer w;

    dp_writer_init(&w, body, sizeof body);
    dp_msg_step_start_encode(&w, &m);
    return dp_node_journal_replay(log, REC_ADOPT, body, dp_writer_used(&w) - cut_bytes, err);
}

static void journals_of_the_first_version_are_read(void **state)
{
    static const size_t cuts[] = {0, 4 * sizeof(uint32_t) + 1}; /* the second lacks stall_end_s, memory, slices, max_gpus and copies */

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dp_err err = {0};
        struct dp_node_journal *log = dp_node_journal_create(&err);
        const struct dp_node_job *job;

        assert_non_null(log);
        if (adopt(log, cuts[i], &err) < 0)
            fail_msg("%s", err.text);
        job = dp_node_journal_find(log, 7);
        assert_non_null(job);
        assert_int_equal(job->start.uid, 1000);
        assert_string_equal(job->start.node, "n1");
        assert_int_equal(job->start.stall_end_s, i ? 0 : 600);
        assert_int_equal(job->start.memory, i ? 0 : 25);
        assert_int_equal(job->start.slices, i ? 0 : 4);
        assert_int_equal(job->start.max_gpus, i ? 0 : 6);
        assert_int_equal(job->start.copies, i ? 0 : 1);
        dp_node_journal_destroy(log);
    }
}

static void others_are_refused(void **state)
{
    static const size_t cuts[] = {1, 3, 5, 8, 12, 20};

    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct dp_err err = {0};
        struct dp_node_journal *log = dp_node_journal_create(&err);

        assert_non_null(log);
        assert_int_equal(adopt(log, cuts[i], &err), -1);
        dp_node_journal_destroy(log);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(journals_of_the_first_version_are_read),
    cmocka_unit_test(others_are_refused),
};
TEST_MAIN("node_log", tests)
