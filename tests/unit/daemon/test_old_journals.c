/* SPDX-License-Identifier: BSD-3-Clause */
/* Journals of the release before, as an upgraded daemon finds them: whole, and with an end that was cut off. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file/journal.h"
#include "daemon/coord/coordinator.h"
#include "daemon/run/state/node_journal.h"
#include "tests/unit/daemon/journals_v1.h"
#include "tests/unit/unit.h"

static char path[] = "/tmp/dpoldXXXXXX";

static const struct dp_job_info job = {.job_id = 1, .is_running = true, .n_nodes = 4, .node = {"n1", "n2", "n3", "n4"},
                                       .batch_host = "n1", .start_s = 1, .boot_s = 1000, .shrinks_allowed = 1};
static const struct dp_run_limits limits = {.mode = DP_MODE_RELEASE, .pack.min_devices = 1, .pack.max_slowdown = 50.0, .policy = "time",
                                            .cooldown_s = 1.0, .warmup_reports = 2, .vote_timeout_s = 5.0,
                                            .gone_timeout_s = 8.0, .grace_s = 2.0, .confirm_s = 6.0, .link_bytes_per_s = 1e9};

static enum dp_journal_fate no_journal(void *arg, enum dp_record type, const void *payload, size_t bytes, struct dp_err *err)
{
    (void)arg, (void)type, (void)payload, (void)bytes, (void)err;
    return DP_JOURNAL_DURABLE;
}

static int no_doubt(void *arg, struct dp_err *err)
{
    (void)arg, (void)err;
    return 0;
}

static int no_room(void *arg, size_t bytes, struct dp_err *err)
{
    (void)arg, (void)bytes, (void)err;
    return 0;
}

static void no_worker(void *arg, uint32_t rank, enum dp_msg_type type, const void *body, size_t bytes)
{
    (void)arg, (void)rank, (void)type, (void)body, (void)bytes;
}

static void no_stop(void *arg, uint32_t slot, uint32_t grace_ms)
{
    (void)arg, (void)slot, (void)grace_ms;
}

static void no_shrink(void *arg, const uint8_t keep[DP_MAX_SLOTS])
{
    (void)arg, (void)keep;
}

static void no_requeue(void *arg, bool may_requeue)
{
    (void)arg, (void)may_requeue;
}

static void no_read(void *arg)
{
    (void)arg;
}

static int no_child(void *arg, double deadline_s, struct dp_err *err)
{
    (void)arg, (void)deadline_s;
    return dp_err_set(err, DP_ENOMEM, "no child");
}

static const struct dp_coord_ops ops = {
    .journal = no_journal,
    .settle = no_doubt,
    .reserve = no_room,
    .to_worker = no_worker,
    .stop_slot = no_stop,
    .shrink = no_shrink,
    .requeue = no_requeue,
    .read_job = no_read,
    .plan = no_child,
};

static int replay(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return dp_coord_replay(arg, (enum dp_record)type, payload, bytes, err);
}

static void put_file(const uint8_t *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

/* What a coordinator makes of the first so many bytes. */
static struct dp_coord *coordinator(size_t bytes)
{
    struct dp_err err = {0};
    struct dp_coord *c = dp_coord_create(&job, &limits, &ops, NULL, &err);
    struct dp_journal *j;

    assert_non_null(c);
    put_file(v1_job_journal, bytes);
    j = dp_journal_open(path, replay, NULL, c, &err);
    if (!j)
        fail_msg("%zu bytes: %s", bytes, err.text);
    dp_journal_destroy(j);
    if (dp_coord_begin(c, 1000000000, &err) < 0)
        fail_msg("%zu bytes: %s", bytes, err.text);
    return c;
}

static void a_coordinators_is_read(void **state)
{
    struct dp_coord *c = coordinator(sizeof v1_job_journal);
    json_t *o = dp_coord_json(c, 2000000000, DP_QUERY_STATUS), *slots = json_object_get(o, "slots");

    (void)state;
    assert_int_equal(dp_coord_incarnation(c), 2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "layout"), "epoch")), 1);
    assert_int_equal(json_array_size(json_object_get(o, "workers")), 4);
    assert_string_equal(json_string_value(json_object_get(json_array_get(slots, 1), "state")), "active");
    assert_string_equal(json_string_value(json_object_get(json_array_get(slots, 2), "state")), "drained");
    assert_string_equal(json_string_value(json_object_get(json_array_get(slots, 3), "state")), "drained");
    json_decref(o);
    dp_coord_destroy(c);
}

/* The daemon of 0.1.0 was killed at any of its writes. */
static void so_is_any_beginning_of_it(void **state)
{
    (void)state;
    for (size_t bytes = DP_JOURNAL_MAGIC_BYTES; bytes < sizeof v1_job_journal; bytes++)
        dp_coord_destroy(coordinator(bytes));
}

static int replay_node(void *arg, uint8_t type, const void *payload, size_t bytes, struct dp_err *err)
{
    return dp_node_journal_replay(arg, type, payload, bytes, err);
}

static struct dp_node_journal *node_log(const uint8_t *data, size_t bytes)
{
    struct dp_err err = {0};
    struct dp_node_journal *log = dp_node_journal_create(&err);
    struct dp_journal *j;

    assert_non_null(log);
    put_file(data, bytes);
    j = dp_journal_open(path, replay_node, NULL, log, &err);
    if (!j)
        fail_msg("%zu bytes: %s", bytes, err.text);
    dp_journal_destroy(j);
    return log;
}

static void a_nodes_is_read(void **state)
{
    struct dp_node_journal *log = node_log(v1_host_journal, sizeof v1_host_journal);
    const struct dp_node_job *known = dp_node_journal_find(log, 1);

    (void)state;
    assert_non_null(known);
    assert_false(known->is_fenced);
    assert_int_equal(known->start.mode, DP_MODE_RELEASE);
    assert_string_equal(known->start.node, "n1");
    dp_node_journal_destroy(log);
    log = node_log(v1_node_journal, sizeof v1_node_journal);
    known = dp_node_journal_find(log, 1);
    assert_non_null(known);
    assert_true(known->is_fenced && known->fence_restart == 0 && known->fence_incarnation == 1);
    dp_node_journal_destroy(log);
    for (size_t bytes = DP_JOURNAL_MAGIC_BYTES; bytes < sizeof v1_node_journal; bytes++)
        dp_node_journal_destroy(node_log(v1_node_journal, bytes));
}

static int prepare(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static int tidy(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_coordinators_is_read, prepare, NULL),
    cmocka_unit_test(so_is_any_beginning_of_it),
    cmocka_unit_test_teardown(a_nodes_is_read, tidy),
};
TEST_MAIN("old_journals", tests)
