/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is of a group of slices, and with which rank. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "daemon/run/slices/group.h"

#define SEC DP_SECOND_NS

/* What Slurm says: two slices on each of two nodes, one on a third. 14 began first. */
static const struct dp_slice slices[] = {
    {.job_id = 11, .start_s = 103, .is_running = true, .node = "n1"}, {.job_id = 12, .start_s = 102, .is_running = true, .node = "n1"},
    {.job_id = 13, .start_s = 103, .is_running = true, .node = "n2"}, {.job_id = 14, .start_s = 101, .is_running = true, .node = "n2"},
    {.job_id = 15, .start_s = 104, .is_running = true, .restart_count = 2, .node = "n0"},
};
#define N (sizeof slices / sizeof slices[0])

static struct dp_group *group(uint32_t wanted, uint32_t least)
{
    struct dp_group *g = malloc(sizeof *g);

    dp_group_init(g, 14, wanted, least, wanted, 60 * SEC);
    return g;
}

static struct dp_group_member member(uint32_t job_id)
{
    struct dp_group_member m = {.job_id = job_id, .step_id = 0, .pid = 1000 + job_id};

    m.restart_count = slices[job_id - 11].restart_count;
    snprintf(m.node, sizeof m.node, "%s", slices[job_id - 11].node);
    return m;
}

static void join(struct dp_group *g, uint32_t job_id, uint64_t now_ns)
{
    const struct dp_group_member m = member(job_id);
    struct dp_err err = {0};

    if (dp_group_join(g, slices, N, &m, now_ns, &err) < 0)
        fail_msg("%s", err.text);
}

static void is_refused(struct dp_group *g, const struct dp_group_member *m, enum dp_errcode code, const char *why)
{
    struct dp_err err = {0};

    assert_int_equal(dp_group_join(g, slices, N, m, SEC, &err), -1);
    assert_int_equal(err.code, code);
    assert_string_equal(err.text, why);
}

static void home_began_first(void **state)
{
    struct dp_slice s[N];

    (void)state;
    assert_int_equal(dp_group_home(slices, N, 110), 3);
    assert_int_equal(dp_group_home(slices, N, 101), -1); /* another one may begin in this second */
    assert_int_equal(dp_group_home(slices, N, 102), 3);
    assert_int_equal(dp_group_home(slices, 0, 110), -1);
    memcpy(s, slices, sizeof s);
    s[0].start_s = 101; /* both in that second: the lower id */
    assert_int_equal(dp_group_home(s, N, 110), 0);
    s[0].task = 7; /* the last one of the array, which Slurm started last and gave the array's id */
    s[3].task = 4;
    assert_int_equal(dp_group_home(s, N, 110), 3);
    s[3].start_s = 102;
    assert_int_equal(dp_group_home(s, N, 110), 0);
    s[3].start_s = 101;
    s[0].task = s[3].task = 0;
    s[0].is_running = false;
    assert_int_equal(dp_group_home(s, N, 110), 3);
    for (size_t i = 0; i < N; i++)
        s[i].is_running = false;
    assert_int_equal(dp_group_home(s, N, 110), -1);
}

/* Home is rank 0, its node's others follow, then node by node; whoever came when. */
static void all_have_joined(void **state)
{
    static const uint32_t came[] = {15, 12, 13, 14, 11}, rank_of[] = {14, 13, 15, 11, 12};
    struct dp_group *g = group(5, 2);

    (void)state;
    assert_false(dp_group_tick(g, 500 * SEC));
    for (uint32_t i = 0; i < 5; i++) {
        assert_false(dp_group_tick(g, SEC));
        assert_int_equal(dp_group_rank(g, came[i]), -1);
        join(g, came[i], SEC);
        join(g, came[i], SEC);
    }
    assert_true(dp_group_tick(g, SEC));
    assert_false(dp_group_tick(g, SEC));
    assert_int_equal(g->state, DP_GROUP_CLOSED);
    for (uint32_t r = 0; r < 5; r++)
        assert_int_equal(dp_group_rank(g, rank_of[r]), r);
    assert_int_equal(dp_group_rank(g, 16), -1);
    free(g);
}

/* Ranks are dense without those who did not come in time; who comes later, or in another life, has no seat until it is given one. */
static void it_begins_with_those_who_came(void **state)
{
    struct dp_group *g = group(5, 3);
    struct dp_group_member late = member(13), other = member(12);
    struct dp_slice now[N];
    struct dp_err err = {0};

    (void)state;
    join(g, 12, SEC);
    join(g, 15, 20 * SEC);
    join(g, 14, 30 * SEC);
    assert_false(dp_group_tick(g, 60 * SEC));
    assert_true(dp_group_tick(g, 61 * SEC));
    assert_int_equal(dp_group_rank(g, 14), 0);
    assert_int_equal(dp_group_rank(g, 15), 1);
    assert_int_equal(dp_group_rank(g, 12), 2);
    assert_int_equal(g->n_there, 3);
    assert_int_equal(g->n, 5);
    assert_int_equal(dp_group_join(g, slices, N, &late, SEC, &err), 1);
    assert_int_equal(dp_group_rank(g, 13), -1);
    dp_group_seat(g, 4, &late);
    assert_int_equal(dp_group_rank(g, 13), 4);
    assert_int_equal(dp_group_join(g, slices, N, &late, SEC, &err), 0);
    other.pid++;
    is_refused(g, &other, DP_EAUTH, "job 12 has another worker in the run");
    other = member(12);
    assert_int_equal(dp_group_join(g, slices, N, &other, SEC, &err), 0); /* it asks again */
    dp_group_leave(g, 12, 1012);
    dp_group_keep(g, slices, 1, false);
    assert_int_equal(dp_group_rank(g, 12), 2); /* for the coordinator to see */
    memcpy(now, slices, sizeof now);
    now[1].restart_count = 1;
    other.restart_count = 1;
    assert_int_equal(dp_group_join(g, now, N, &other, SEC, &err), 1);
    free(g);
}

/* A task that begins when the others are over is not kept waiting. */
static void too_few_can_come(void **state)
{
    struct dp_slice now[N];
    struct dp_group *g = group(5, 3);

    (void)state;
    memcpy(now, slices, sizeof now);
    for (uint32_t i = 2; i < N; i++)
        now[i].is_running = false;
    join(g, 11, SEC);
    dp_group_keep(g, now, N, true);
    assert_false(dp_group_tick(g, 2 * SEC));
    dp_group_keep(g, now, N, false);
    assert_true(dp_group_tick(g, 3 * SEC));
    assert_int_equal(g->state, DP_GROUP_FAILED);
    assert_string_equal(g->text, "no more than 2 of the 3 slices that the run needs are there, and no task of the array waits");
    free(g);
    g = group(5, 3);
    join(g, 11, SEC);
    now[2].is_running = true;
    dp_group_keep(g, now, N, false);
    assert_false(dp_group_tick(g, 3 * SEC)); /* the third runs, and has not asked yet */
    free(g);
}

static void too_few_came(void **state)
{
    struct dp_group *g = group(5, 3);

    (void)state;
    join(g, 14, SEC);
    join(g, 12, SEC);
    assert_true(dp_group_tick(g, 61 * SEC));
    assert_int_equal(g->state, DP_GROUP_FAILED);
    assert_string_equal(g->text, "2 of 5 slices have joined in 60 s, and the run needs more");
    assert_false(dp_group_tick(g, 62 * SEC));
    free(g);
    g = group(3, 2);
    for (uint32_t job = 11; job <= 13; job++)
        join(g, job, SEC);
    assert_false(dp_group_tick(g, 60 * SEC)); /* without home nobody coordinates */
    assert_true(dp_group_tick(g, 61 * SEC));
    assert_string_equal(g->text, "3 of 3 slices have joined in 60 s, and that which began first is not one of them");
    free(g);
}

/* Who Slurm does not show so has no part, whatever his daemon says. */
static void slurm_says_who_is_there(void **state)
{
    struct dp_group *g = group(5, 1);
    struct dp_group_member m = member(12);
    struct dp_slice over = slices[1];
    struct dp_err err = {0};

    (void)state;
    snprintf(m.node, sizeof m.node, "n2");
    is_refused(g, &m, DP_EGONE, "Slurm does not show job 12 running on 'n2' as a task of this array");
    m = member(12);
    m.job_id = 99; /* somebody else's */
    is_refused(g, &m, DP_EGONE, "Slurm does not show job 99 running on 'n1' as a task of this array");
    m = member(15);
    m.restart_count = 1; /* its life before */
    is_refused(g, &m, DP_EGONE, "Slurm does not show job 15 running on 'n0' as a task of this array");
    m = member(12);
    over.is_running = false;
    assert_int_equal(dp_group_join(g, &over, 1, &m, SEC, &err), -1);
    assert_int_equal(g->n, 0);
    assert_int_equal(g->began_ns, 0);
    free(g);
}

/* Before it is closed they come and go. */
static void who_leaves_is_not_counted(void **state)
{
    struct dp_group *g = group(3, 1);
    struct dp_group_member again = member(12);
    struct dp_slice now[N];
    struct dp_err err = {0};

    (void)state;
    join(g, 11, SEC);
    join(g, 12, SEC);
    dp_group_leave(g, 11, 1);
    assert_int_equal(g->n, 2);
    dp_group_leave(g, 11, 1011);
    assert_int_equal(g->n, 1);
    again.pid = 77;
    assert_int_equal(dp_group_join(g, slices, N, &again, SEC, &err), 0);
    assert_int_equal(g->n, 1);
    assert_int_equal(g->member[0].pid, 77);
    join(g, 13, SEC);
    join(g, 15, SEC);
    memcpy(now, slices, sizeof now);
    now[1].is_running = false;
    now[4].restart_count++;
    dp_group_keep(g, now, N, true);
    assert_int_equal(g->n, 1);
    assert_int_equal(g->member[0].job_id, 13);
    free(g);
}

/* A run may have as many slices as slots, and its job says where they are. */
static void the_job_of_its_run(void **state)
{
    static struct dp_job_info home = {.job_id = 14, .uid = 5, .n_nodes = 1, .node = {"n2"}, .batch_host = "n2", .gpus_per_node = 1,
                                      .is_running = true, .n_tasks = 1, .shrinks_allowed = 1, .end_s = 99}, out;
    static const uint32_t by_rank[] = {14, 13, 15, 11, 12}, left[] = {14, 13, 11};
    static const char *const node_of[] = {"n2", "n2", "n0", "n1", "n1"};
    struct dp_group *g = group(5, 1);
    struct dp_slice now[N];
    uint32_t n_seen = 0;

    (void)state;
    for (uint32_t job = 11; job <= 15; job++)
        join(g, job, SEC);
    assert_true(dp_group_tick(g, SEC));
    dp_group_job(g, &home, &out);
    assert_int_equal(out.job_id, 14);
    assert_int_equal(out.end_s, 99);
    assert_int_equal(out.n_nodes, 5);
    assert_int_equal(out.n_tasks, 5);
    assert_true(out.shrinks_allowed > DP_MAX_SLOTS && out.mem_why[0]);
    for (uint32_t r = 0; r < 5; r++) {
        assert_int_equal(out.slice[r], by_rank[r]);
        assert_string_equal(out.node[r], node_of[r]);
    }
    memcpy(now, slices, sizeof now);
    now[2].is_running = false;  /* 13: Slurm waits for its epilog */
    now[4].restart_count++;     /* 15: requeued; over, for what runs is another life */
    now[1] = now[0];            /* 12: over, and forgotten */
    dp_group_job_now(g, &home, now, N, &out);
    assert_int_equal(out.n_nodes, 3);
    for (uint32_t s = 0; s < 3; s++)
        assert_int_equal(out.slice[s], left[s]);
    now[4].is_running = false;  /* while Slurm waits for what is left of it, it is not */
    dp_group_job_now(g, &home, now, N, &out);
    assert_int_equal(out.n_nodes, 4);
    for (uint32_t s = 0; s < 4; s++)
        n_seen += out.slice[s] == 15;
    assert_int_equal(n_seen, 1);
    snprintf(now[4].node, sizeof now[4].node, "n7"); /* but what is left of a later life is none of it: elsewhere, or of the one after */
    dp_group_job_now(g, &home, now, N, &out);
    assert_int_equal(out.n_nodes, 3);
    now[4] = slices[4];
    now[4].is_running = false;
    now[4].restart_count += 2;
    dp_group_job_now(g, &home, now, N, &out);
    assert_int_equal(out.n_nodes, 3);
    free(g);
}

static void as_many_as_there_are_slots(void **state)
{
    static struct dp_slice many[DP_MAX_SLOTS + 1];
    struct dp_group *g = malloc(sizeof *g);
    struct dp_err err = {0};

    (void)state;
    dp_group_init(g, 1000, DP_MAX_SLOTS, 1, DP_MAX_SLOTS, SEC);
    for (uint32_t i = 0; i <= DP_MAX_SLOTS; i++) {
        struct dp_group_member m = {.job_id = 1000 + i, .pid = 1 + i, .node = "n1"};

        many[i] = (struct dp_slice){.job_id = 1000 + i, .start_s = 1, .is_running = true, .node = "n1"};
        assert_int_equal(dp_group_join(g, many, i + 1, &m, SEC, &err), i < DP_MAX_SLOTS ? 0 : -1);
    }
    assert_string_equal(err.text, "a run has at most 512 slices");
    assert_true(dp_group_tick(g, SEC));
    for (uint32_t i = 0; i < DP_MAX_SLOTS; i++)
        assert_int_equal(dp_group_rank(g, 1000 + i), i);
    free(g);
}

/* A run that may grow begins with as many as it asked for, and has seats for those that it may ask for. */
static void seats_for_more(void **state)
{
    static struct dp_job_info home, job;
    struct dp_group *g = malloc(sizeof *g);

    (void)state;
    dp_group_init(g, 14, 2, 1, 6, 60 * SEC);
    join(g, 14, SEC);
    assert_false(dp_group_tick(g, SEC));
    join(g, 15, SEC);
    assert_true(dp_group_tick(g, SEC));
    assert_int_equal(g->n, 6);
    assert_int_equal(g->n_there, 2);
    assert_int_equal(dp_group_rank(g, 0), 2); /* the first empty one */
    dp_group_job(g, &home, &job);
    assert_int_equal(job.n_nodes, 2);
    assert_int_equal(job.n_seats, 6);
    free(g);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(seats_for_more),
    cmocka_unit_test(home_began_first),
    cmocka_unit_test(all_have_joined),
    cmocka_unit_test(it_begins_with_those_who_came),
    cmocka_unit_test(too_few_can_come),
    cmocka_unit_test(too_few_came),
    cmocka_unit_test(slurm_says_who_is_there),
    cmocka_unit_test(who_leaves_is_not_counted),
    cmocka_unit_test(the_job_of_its_run),
    cmocka_unit_test(as_many_as_there_are_slots),
};
TEST_MAIN("group", tests)
