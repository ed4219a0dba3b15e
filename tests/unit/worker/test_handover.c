/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-overs that are committed (handover_world.h): layers move, workers are emptied and leave, many in a row. */
#include "tests/unit/worker/handover_world.h"

static void script_commit(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    decide_all(1, true);
    all_acknowledge(EPOCH + 1);
    all_checked();
    finish_all();
}

static void commit_moves_layers(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    run();
}

/* Every layer but the first moves, some over three workers, against the pipeline's direction too. */
static void long_shifts_do_not_deadlock(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    sc.n_workers = 4;
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 6, 7, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 1, 2, 3, 8}, sizeof sc.new_cut);
    run();
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 1, 2, 3, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 6, 7, 8}, sizeof sc.new_cut);
    run();
}

/* Layers of several chunks each. */
static void big_layers_move(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    sc.channels = 256;
    run();
}

/* Without gradients and moments: also where the first one that learns is, with layers in front of it and behind it. */
static void frozen_layers_move(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    sc.frozen = 4; /* layers 2 and 3 go from 0 to 1 */
    run();
    sc.frozen = 7;
    sc.n_workers = 4;
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 6, 7, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 1, 2, 3, 8}, sizeof sc.new_cut);
    run();
}

/* Devices that work as late as they may, in three orders. */
static void late_devices_hand_over(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 3; seed++) {
        begin(script_commit, COMMITTED);
        on_late_devices();
        setenv("DYNPIPE_LATE_SEED", (char[]){(char)('0' + seed), '\0'}, 1);
        sc.channels = seed == 2 ? 256 : 0;
        run();
    }
}

static void a_worker_is_emptied_and_leaves(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    memcpy(sc.new_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 8, 8}, sizeof sc.new_cut);
    sc.gone[2] = 1;
    run();
}

static void an_empty_worker_leaves(void **state)
{
    (void)state;
    begin(script_commit, COMMITTED);
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 5, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, sc.old_cut, sizeof sc.new_cut);
    sc.gone[1] = 1;
    run();
}

/* The daemons die for good right after the commit: a leaver does not stay for ever. */
static void script_commit_and_die(void)
{
    accept_all(0);
    prepare_all();
    all_vote_yes();
    decide_all(1, true);
    all_acknowledge(EPOCH + 1);
    all_checked();
    all_die();
}

static void a_leaver_leaves_without_daemons(void **state)
{
    (void)state;
    begin(script_commit_and_die, COMMITTED);
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 5, 5, 8}, sizeof sc.old_cut);
    memcpy(sc.new_cut, sc.old_cut, sizeof sc.new_cut);
    sc.gone[1] = 1;
    sc.times.member.leave_ns = 200 * MS;
    run();
}

/* Many hand-overs in a row between random layouts, some of them aborted: nothing of one is left over
 * for the next, whether at the same boundary or a later one. */
#define MANY 24

static bool is_aborted(uint64_t m)
{
    return mix(m) % 4 == 0;
}

static void random_cuts(uint64_t m, uint32_t *cut)
{
    cut[0] = 0;
    for (uint32_t i = 1; i < sc.n_workers; i++) {
        uint32_t at = (uint32_t)(mix(m * 8 + i) % 9), k = i;

        for (; k > 1 && cut[k - 1] > at; k--)
            cut[k] = cut[k - 1];
        cut[k] = at;
    }
    cut[sc.n_workers] = 8;
}

static int one_of_many(struct worker_state *w, uint64_t m)
{
    struct dp_handover_args args = {
        .transport = w->t, .rank = w->rank, .layout = &w->layout, .stage = &w->stage,
        .config = &config, .backend = w->be, .tune = &tune, .step = 40 + m / 3,
    };
    struct dp_handover_outcome out;
    struct dp_err err = {0};
    uint64_t before = w->layout.epoch;

    if (dp_handover_run(w->h, &args, m, &out, &err) < 0)
        fprintf(stderr, "# worker %u: hand-over %llu: %s\n", w->rank, (unsigned long long)m, err.text);
    CHECK(err.code == DP_OK);
    CHECK(out.is_committed == !is_aborted(m));
    CHECK(w->layout.epoch == before + out.is_committed);
    CHECK(check_stage(w) == 0);
    CHECK(poll_until(w, DP_MEMBER_IDLE, &err) == DP_MEMBER_IDLE);
    CHECK(dp_handover_retired_bytes(w->h) == 0);
    return 0;
}

static int worker_of_many(struct dp_transport *t, uint32_t rank)
{
    struct worker_state *w = &(struct worker_state){.t = t, .rank = rank};
    int rc = set_up(w);

    for (uint64_t m = 1; rc == 0 && m <= MANY; m++)
        rc = one_of_many(w, m);
    meet(t, rank);
    tear_down(w);
    return rc;
}

static void script_many(void)
{
    accept_all(0);
    for (migration = 1; migration <= MANY; migration++) {
        bool commits = !is_aborted(migration);

        random_cuts(migration, sc.new_cut);
        prepare_all();
        for (uint32_t i = 0; i < sc.n_workers; i++)
            MUST(vote_of(i).yes);
        decide_all(1, commits);
        epoch += commits;
        all_acknowledge(epoch);
        if (commits)
            finish_all();
    }
}

static void many_handovers_in_a_row(void **state)
{
    (void)state;
    begin(script_many, COMMITTED);
    sc.n_workers = 4;
    memcpy(sc.old_cut, (uint32_t[MAX_PROCS + 1]){0, 2, 4, 6, 8}, sizeof sc.old_cut);
    sc.body = worker_of_many;
    run();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(commit_moves_layers),
    cmocka_unit_test(long_shifts_do_not_deadlock),
    cmocka_unit_test(big_layers_move),
    cmocka_unit_test(frozen_layers_move),
    cmocka_unit_test(late_devices_hand_over),
    cmocka_unit_test(a_worker_is_emptied_and_leaves),
    cmocka_unit_test(an_empty_worker_leaves),
    cmocka_unit_test(a_leaver_leaves_without_daemons),
    cmocka_unit_test(many_handovers_in_a_row),
};
TEST_MAIN("handover", tests)
