/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that goes back to Slurm (coord_world.h): as pruning frees it, in few steps, never so much that a node has
 * too little, whatever crashes; and not where a job could not come back with less. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

#define START_MB 4096u
#define REC_MEMORY ((enum dp_record)21) /* coord/internal.h */

/* Layers of 400 MiB, two on each node, that pruning makes a tenth of; all nodes stay, unless a test says otherwise. */
static struct world *begin_with_memory(uint64_t seed)
{
    struct world *w = begin(seed);

    w->limits.pack.min_devices = 4;
    w->limits.memory_margin = 25;
    w->layer_mb = 400;
    w->mem_mb = w->mem_durable_mb = START_MB;
    return w;
}

static json_int_t number(const struct world *w, const char *key)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    json_int_t v = json_integer_value(json_object_get(json_object_get(o, "memory"), key));

    json_decref(o);
    return v;
}

static void expect_text(const struct world *w, const char *part)
{
    json_t *o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    const char *text = json_string_value(json_object_get(json_object_get(o, "memory"), "text"));

    assert_non_null(text);
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    json_decref(o);
}

static void what_pruning_frees_goes_back(void **state)
{
    (void)state;
    struct world *w = begin_with_memory(1);
    uint32_t dense_mb;

    world_start(w);
    world_run(w, 6.0, false); /* until pruning begins */
    assert_int_equal(w->mem_mb, START_MB);
    world_run(w, 25.0, false);
    dense_mb = w->mem_mb;
    assert_true(dense_mb < START_MB / 10 * 9);
    world_run(w, 60.0, false);
    assert_true(w->mem_mb < 600);
    assert_true(w->mem_mb > 2 * 40 + 50); /* what is resident */
    assert_int_equal(number(w, "given_mb"), w->mem_mb);
    assert_int_equal(number(w, "now_mb"), w->mem_mb);
    assert_int_equal(number(w, "start_mb"), START_MB);
    assert_int_equal(number(w, "asked_mb"), 0);
    assert_true(number(w, "given_step") > 0);
    assert_true(w->n_memory >= 1 && w->n_memory <= 8);
    dense_mb = w->n_memory;
    world_run(w, 120.0, false); /* nothing more becomes free */
    assert_int_equal(w->n_memory, dense_mb);
    end(w);
}

/* Not asked for, or in a mode that gives nothing back: never. */
static void only_where_it_is_wanted(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world *w = begin_with_memory(2);

        if (i == 0)
            w->limits.memory_margin = 0;
        else if (i == 1)
            w->limits.mode = DP_MODE_BALANCE;
        else
            w->layer_mb = 0; /* workers of an older release */
        world_start(w);
        world_run(w, 60.0, false);
        assert_int_equal(w->n_memory, 0);
        if (i == 2)
            expect_text(w, "not every worker says what it needs");
        end(w);
    }
}

/* A restart knows what was given back, and asks again for what was not confirmed. */
static void a_restart_knows_it(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        struct world *w = begin_with_memory(3);
        uint32_t before;

        world_start(w);
        world_run(w, 20.0 + 1.7 * i, false);
        before = w->mem_mb;
        world_crash(w);
        world_run(w, 90.0, false);
        assert_true(w->mem_mb < 600 && w->mem_mb <= before);
        assert_int_equal(number(w, "given_mb"), w->mem_mb);
        assert_int_equal(number(w, "start_mb"), START_MB);
        assert_true(world_count(w, REC_MEMORY) >= 2);
        end(w);
    }
}

/* slurmctld dies before it wrote down what it had said: asked again. */
static void a_lost_answer_is_noticed(void **state)
{
    (void)state;
    struct world *w = begin_with_memory(4);
    uint32_t n;

    world_start(w);
    while (!w->n_memory)
        world_run(w, 1.0, false);
    world_run(w, 1.0, false);
    n = w->n_memory;
    w->mem_mb = w->mem_durable_mb;
    w->mem_done_at_ns = w->save_at_ns = 0;
    w->boot_s++;
    world_run(w, 60.0, false);
    assert_true(w->n_memory > n);
    assert_int_equal(number(w, "given_mb"), w->mem_mb);
    end(w);
}

static void a_refusal_is_said_once(void **state)
{
    (void)state;
    struct world *w = begin_with_memory(5);

    w->mem_is_refused = true;
    world_start(w);
    world_run(w, 120.0, false);
    assert_int_equal(w->n_memory, 1);
    assert_int_equal(number(w, "given_mb"), 0);
    assert_int_equal(number(w, "asked_mb"), 0);
    expect_text(w, "not with this job");
    end(w);

    w = begin_with_memory(6); /* known before anything is asked */
    snprintf(w->job.mem_why, sizeof w->job.mem_why, "this Slurm cannot take memory back from a running job");
    world_start(w);
    world_run(w, 60.0, false);
    assert_int_equal(w->n_memory, 0);
    expect_text(w, "this Slurm cannot take memory back");
    end(w);
}

/* A node that cannot do it: Slurm says yes and takes it back. */
static void a_node_that_fails_is_not_asked_for_ever(void **state)
{
    (void)state;
    struct world *w = begin_with_memory(7);

    w->mem_node_fails = true;
    world_start(w);
    world_run(w, 600.0, false);
    assert_true(w->n_memory >= 2 && w->n_memory <= 20);
    assert_int_equal(number(w, "given_mb"), 0);
    expect_text(w, "a node refuses");
    end(w);
}

/* Such a job keeps the lower number when it begins anew. */
static void a_job_that_may_be_requeued_needs_a_checkpoint(void **state)
{
    (void)state;
    struct world *w = begin_with_memory(8);
    struct dp_msg_event saved = {.kind = DP_EV_SAVED, .step = 10, .text = "/ckpt/10"};
    uint32_t first;

    w->job.may_requeue = true;
    world_start(w);
    world_run(w, 60.0, false);
    assert_int_equal(w->n_memory, 0);
    expect_text(w, "set checkpoint.dir, or use sbatch --no-requeue");
    end(w);

    w = begin_with_memory(9);
    w->job.may_requeue = w->has_checkpoints = true;
    world_start(w);
    world_run(w, 15.0, false); /* in the middle of pruning */
    expect_text(w, "a checkpoint comes first");
    dp_coord_event(w->c, w->now_ns, 0, &saved);
    world_run(w, 60.0, false);
    first = w->mem_mb;
    assert_true(first < START_MB && first > 700); /* what it needed then */
    dp_coord_event(w->c, w->now_ns, 0, &saved);
    world_run(w, 40.0, false);
    assert_true(w->mem_mb < 600);
    end(w);
}

/* Where nodes may leave, their layers find room on the others, and no layout takes more than is left. */
static void packing_finds_room(void **state)
{
    (void)state;
    struct world *w = begin_with_memory(10);

    w->limits.pack.min_devices = 1;
    w->limits.pack.max_slowdown = 80.0;
    w->limits.pack.reference = DP_REF_START;
    world_start(w);
    world_run(w, 200.0, false);
    assert_true(w->n_released >= 1);
    assert_true(w->mem_mb < START_MB);
    end(w);
}

static void nothing_is_ended_whatever_crashes(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 60; seed++) {
        struct world *w = begin_with_memory(100 + seed);

        w->limits.pack.min_devices = 1 + seed % 4;
        w->limits.pack.max_slowdown = 80.0;
        w->crash_percent = seed % 3;
        w->loss_percent = seed % 2 ? 10 : 0;
        w->fault_percent = 2;
        w->renew_percent = seed % 5;
        world_start(w);
        world_run(w, 80.0, true);
        end(w);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_pruning_frees_goes_back),
    cmocka_unit_test(only_where_it_is_wanted),
    cmocka_unit_test(a_restart_knows_it),
    cmocka_unit_test(a_lost_answer_is_noticed),
    cmocka_unit_test(a_refusal_is_said_once),
    cmocka_unit_test(a_node_that_fails_is_not_asked_for_ever),
    cmocka_unit_test(a_job_that_may_be_requeued_needs_a_checkpoint),
    cmocka_unit_test(packing_finds_room),
    cmocka_unit_test(nothing_is_ended_whatever_crashes),
};
TEST_MAIN("coord_memory", tests)
