/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in a simulated world (coord_world.h): slices that come when the run trains already, or again. */
#include "tests/unit/unit.h"

#include "tests/unit/daemon/coord_check.h"

#define SEAT 24 /* record, coord/internal.h */

/* Two of four train, and nobody moves them. */
static struct world *begin_few(uint64_t seed)
{
    struct world *w = begin(seed);

    world_slice_few(w, 2);
    w->limits.mode = DP_MODE_BALANCE;
    train_unmoved(w);
    return w;
}

static uint32_t n_in(const struct world *w)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < W_MAX; r++)
        n += w->worker[r].is_alive && !w->worker[r].layout.gone[r] && !w->worker[r].is_newcomer;
    return n;
}

static void all_train(struct world *w)
{
    uint64_t step[W_MAX];

    for (uint32_t r = 0; r < W_MAX; r++)
        step[r] = w->worker[r].step;
    world_run(w, 2.0, false);
    for (uint32_t r = 0; r < W_MAX; r++) {
        assert_int_equal(w->worker[r].layout.epoch, w->worker[0].layout.epoch);
        assert_memory_equal(w->worker[r].layout.cut, w->worker[0].layout.cut, sizeof w->worker[0].layout.cut);
        assert_true(w->worker[r].step > step[r]);
        assert_true(w->worker[r].layout.cut[r + 1] > w->worker[r].layout.cut[r]);
        assert_int_equal(w->worker[r].n_regroups, 0);
    }
}

/* Those that come within a second are taken in by one hand-over, which moves layers to them; nothing is made again. */
static void two_come(void **state)
{
    struct world *w = begin_few(51);
    json_t *o;

    (void)state;
    assert_int_equal(n_in(w), 2);
    world_come(w, "n1", 301, 0);
    world_run(w, 0.4, false);
    world_come(w, "n1", 302, 0);
    world_run(w, 6.0, false);
    assert_int_equal(n_in(w), 4);
    assert_int_equal(world_count(w, DP_REC_COMMIT), 1);
    assert_int_equal(world_count(w, (enum dp_record)SEAT), 4); /* told, and with its process */
    all_train(w);
    o = dp_coord_json(w->c, w->now_ns, DP_QUERY_STATUS);
    assert_int_equal(json_array_size(json_object_get(o, "slots")), 4);
    assert_int_equal(int_of(json_array_get(json_object_get(o, "slots"), 3), "job"), w->job.slice[3]);
    json_decref(o);
    end(w);
}

/* A seat that a slice has left, and that Slurm has back, is the next one's; and that is its own again in another life. What the run
 * held is told of all of them. */
static void a_seat_is_had_by_several(void **state)
{
    struct world *w = begin(52);
    double held;
    json_t *o;

    (void)state;
    world_slice(w);
    train_unmoved(w);
    for (uint32_t life = 0; life < 3; life++) {
        uint32_t i;

        world_take(w, 2);
        world_run(w, 20.0, false);
        assert_int_equal(n_in(w), 3);
        i = world_come(w, "n2", 301, life);
        world_run(w, 10.0, false);
        assert_true(w->comer[i].is_seated);
        assert_int_equal(w->comer[i].rank, 2);
        assert_int_equal(n_in(w), 4);
        all_train(w);
    }
    o = report_of(w);
    held = json_number_value(json_object_get(o, "slot_seconds_held"));
    assert_true(held > 3.5 * 100.0 && held < 4.0 * 100.0);
    assert_int_equal(json_array_size(json_object_get(o, "slots_held_over_time")), 7);
    json_decref(o);
    world_crash(w); /* and a restart knows all that */
    world_run(w, 8.0, false);
    all_train(w);
    o = report_of(w);
    assert_int_equal(json_array_size(json_object_get(o, "slots_held_over_time")), 7);
    json_decref(o);
    end(w);
}

/* Who is not needed is refused: there are as many as the user asked for, or the run has given one back by itself. */
static void who_is_not_needed(void **state)
{
    struct world *w = begin(53);
    uint32_t i;

    (void)state;
    world_slice(w);
    world_start(w);
    world_run(w, 4.0, false);
    i = world_come(w, "n2", 301, 0);
    world_run(w, 2.0, false);
    assert_true(w->comer[i].is_refused);
    assert_string_equal(w->comer[i].text, "the run has the 4 slices that it needs");
    while (world_count(w, DP_REC_RELEASED) < 3 && w->now_ns < 400000000000u && !w->broken[0])
        world_run(w, 0.5, false);
    for (int crash = 0; crash < 2; crash++) {
        i = world_come(w, "n2", 302, 0);
        world_run(w, 4.0, false);
        assert_true(w->comer[i].is_refused);
        assert_string_equal(w->comer[i].text, "the run has the 1 slice that it needs");
        world_crash(w);
        world_run(w, 4.0, false);
    }
    end(w);
}

static void modes_without_moves(void **state)
{
    struct world *w = begin(54);
    uint32_t i;

    (void)state;
    world_slice_few(w, 2);
    w->limits.mode = DP_MODE_OBSERVE;
    world_start(w);
    world_run(w, 4.0, false);
    i = world_come(w, "n2", 301, 0);
    world_run(w, 2.0, false);
    assert_true(w->comer[i].is_refused);
    assert_non_null(strstr(w->comer[i].text, "layers may not move in mode observe"));
    end(w);
}

/* One that dies, before or after it was in the layout's hand-over, keeps nobody; its seat is free when its job is over. */
static void one_that_dies(void **state)
{
    (void)state;
    for (uint32_t tenths = 2; tenths < 40; tenths += 3) {
        struct world *w = begin_few(55 + tenths);
        uint32_t i = world_come(w, "n1", 301, 0);

        world_run(w, tenths / 10.0, false);
        assert_true(w->comer[i].is_seated);
        world_kill(w, w->comer[i].rank);
        world_run(w, 20.0, false);
        assert_int_equal(n_in(w), 2);
        assert_true(world_slot_has(w, w->comer[i].rank, DP_REC_RELEASED));
        i = world_come(w, "n1", 302, 0);
        world_run(w, 8.0, false);
        assert_true(w->comer[i].is_seated);
        assert_int_equal(n_in(w), 3);
        end(w);
    }
}

/* The leader is lost while a newcomer of a lower rank than the next leader's waits: who joins never leads, so it is sent away. */
static void one_that_would_lead(void **state)
{
    struct world *w = begin(60);
    uint32_t i;

    (void)state;
    world_slice(w);
    train_unmoved(w);
    world_take(w, 1);
    world_run(w, 20.0, false);
    w->is_unknown = true;
    i = world_come(w, "n2", 301, 0);
    world_run(w, 6.0, false);
    assert_true(w->comer[i].is_seated);
    assert_int_equal(w->comer[i].rank, 1);
    world_kill(w, 0);
    world_run(w, 6.0, false);
    assert_int_equal(w->worker[2].n_regroups, 1);
    w->is_unknown = false;
    world_run(w, 20.0, false);
    assert_false(w->worker[1].is_alive);
    assert_int_equal(n_in(w), 2);
    i = world_come(w, "n2", 302, 0); /* and no seat below the leader's is given */
    world_run(w, 5.0, false);
    assert_false(w->comer[i].is_seated);
    assert_string_equal(w->comer[i].text, "no seat in the run is free yet");
    end(w);
}

/* One that is frozen makes nobody stand still: no hand-over begins for it; for another one it does. */
static void one_that_hangs(void **state)
{
    struct world *w = begin_few(61);
    uint32_t i = world_come(w, "n1", 301, 0), k;

    (void)state;
    while (!w->comer[i].is_seated)
        world_run(w, 0.2, false);
    w->worker[w->comer[i].rank].hangs = true;
    world_run(w, 20.0, false);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    k = world_come(w, "n1", 302, 0);
    world_run(w, 8.0, false);
    assert_int_equal(n_in(w), 3);
    assert_true(!w->worker[w->comer[k].rank].is_newcomer && w->worker[w->comer[i].rank].is_newcomer);
    w->worker[w->comer[i].rank].hangs = false;
    world_run(w, 8.0, false);
    assert_int_equal(n_in(w), 4);
    end(w);
}

/* While people have paused the run nobody is taken in. */
static void a_paused_run_waits(void **state)
{
    struct world *w = begin_few(56);
    struct dp_err err = {0};

    (void)state;
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_PAUSE, "", &err), 0);
    world_come(w, "n1", 301, 0);
    world_run(w, 10.0, false);
    assert_int_equal(n_in(w), 2);
    assert_int_equal(world_count(w, DP_REC_INTENT), 0);
    assert_int_equal(dp_coord_command(w->c, w->now_ns, DP_VERB_RESUME, "", &err), 0);
    world_run(w, 5.0, false);
    assert_int_equal(n_in(w), 3);
    end(w);
}

/* It is tried five times; then it is told, and leaves. So it is where its address never comes, but as long as that may come. */
static void one_that_cannot_be_taken_in(void **state)
{
    struct world *w = begin_few(57);
    uint32_t i;

    (void)state;
    w->no_percent = 100;
    i = world_come(w, "n1", 301, 0);
    world_run(w, 120.0, false);
    assert_int_equal(n_in(w), 2);
    assert_int_equal(world_count(w, DP_REC_ABORT), 5);
    assert_false(w->worker[w->comer[i].rank].is_alive);
    assert_true(world_slot_has(w, w->comer[i].rank, DP_REC_RELEASED));
    w->no_percent = 0;
    w->is_unknown = true;
    i = world_come(w, "n1", 302, 0);
    world_run(w, 20.0, false);
    assert_true(w->worker[w->comer[i].rank].is_alive);
    assert_int_equal(n_in(w), 2);
    w->is_unknown = false;
    world_run(w, 5.0, false);
    assert_int_equal(n_in(w), 3);
    end(w);
}

/* Crashes at each record on the way in. */
static void crashes_at_every_record(void **state)
{
    uint32_t n = 0;

    (void)state;
    for (uint32_t k = 0; k < 24; k++) {
        struct world *w = begin(58);

        world_slice_few(w, 2);
        w->limits.mode = DP_MODE_BALANCE;
        w->crash_at = k;
        w->crash_before = k % 2;
        snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
        world_start(w);
        world_run(w, 6.0, false);
        world_come(w, "n1", 301, 0);
        world_come(w, "n1", 302, 0);
        world_run(w, 40.0, false);
        n += w->n_crashes;
        if (!w->broken[0] && n_in(w) != 4)
            snprintf(w->broken, sizeof w->broken, "%u are in after a crash at record %u", n_in(w), k);
        end(w);
    }
    assert_true(n >= 10);
}

/* They come, are taken, die, and come again, while daemons die, messages are lost and the disk fails. */
static void under_faults(void **state)
{
    uint32_t n_joined = 0, n_regroups = 0, n_crashes = 0, n_renewals = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct world *w = begin(seed);

        if (seed % 2)
            world_slice_few(w, 1 + (uint32_t)(seed / 2 % 3));
        else
            world_slice(w);
        w->loss_percent = seed % 3 ? 15 : 5;
        w->fault_percent = 1 + seed % 5;
        w->crash_percent = seed % 4 ? 6 : 0;
        w->full_percent = seed % 5 ? 0 : 10;
        w->renew_percent = seed % 3 == 1 ? 10 : 0;
        w->no_percent = seed % 2 ? 3 : 0;
        w->limits.mode = seed % 3 ? DP_MODE_RELEASE : DP_MODE_BALANCE;
        if (seed % 4 != 3)
            snprintf(w->limits.policy, sizeof w->limits.policy, "keep");
        world_start(w);
        world_run(w, 5.0, true);
        for (uint32_t k = 0; k < 6 && !w->broken[0]; k++) {
            uint32_t r = 1 + world_draw(w, W_MAX - 1);

            world_come(w, world_draw(w, 2) ? "n1" : "n2", 301 + world_draw(w, 4), k);
            world_run(w, 2.0 + world_draw(w, 8), true);
            if (w->worker[r].is_alive && !w->worker[r].is_newcomer && world_draw(w, 2))
                world_take(w, r);
            else if (w->worker[r].is_alive && n_in(w) > 1 && world_draw(w, 3) == 0)
                world_kill(w, r);
            world_run(w, 2.0 + world_draw(w, 12), true);
        }
        world_settle(w);
        for (uint32_t r = 0; r < W_MAX && !w->broken[0]; r++)
            if (w->worker[r].is_alive && w->worker[r].is_newcomer && seed % 4 == 3)
                snprintf(w->broken, sizeof w->broken, "seed %llu: worker %u still waits", (unsigned long long)seed, r);
        for (size_t i = 0; i < sizeof w->comer / sizeof w->comer[0]; i++)
            n_joined += w->comer[i].is_seated;
        n_regroups += w->worker[0].n_regroups;
        n_crashes += w->n_crashes;
        n_renewals += w->n_renewals;
        if (w->broken[0])
            print_message("# seed %llu\n", (unsigned long long)seed);
        end(w);
    }
    print_message("# %u had a seat, %u regroups, %u crashes, %u journals written anew\n", n_joined, n_regroups, n_crashes, n_renewals);
    assert_true(n_joined > 300 && n_regroups > 20 && n_crashes > 200 && n_renewals > 0);
}

/* What is written anew says the same of seats, of who waits and of what was held. */
static void a_journal_written_anew_has_them(void **state)
{
    struct world *w = begin_few(59);
    struct world_record *r;
    uint32_t n = 0;
    json_t *before, *after;

    (void)state;
    world_come(w, "n1", 301, 3);
    world_run(w, 6.0, false);
    assert_int_equal(n_in(w), 3);
    w->is_unknown = true;
    world_come(w, "n2", 302, 0); /* waits */
    world_run(w, 6.0, false);
    before = report_of(w);
    r = world_snapshot(w->c, &n);
    assert_non_null(r);
    memcpy(w->record, r, n * sizeof *r);
    w->n_records = n;
    free(r);
    world_crash(w);
    world_run(w, 6.0, false);
    after = report_of(w);
    assert_true(json_equal(json_object_get(before, "slots_held_over_time"), json_object_get(after, "slots_held_over_time")));
    assert_int_equal(n_in(w), 3);
    json_decref(before);
    json_decref(after);
    w->is_unknown = false;
    world_run(w, 6.0, false);
    assert_int_equal(n_in(w), 4);
    for (uint32_t k = 0; k < W_MAX; k++)
        assert_int_equal(dp_coord_job(w->c)->slice_restarts[k], w->job.slice_restarts[k]);
    end(w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_come),
    cmocka_unit_test(a_seat_is_had_by_several),
    cmocka_unit_test(who_is_not_needed),
    cmocka_unit_test(modes_without_moves),
    cmocka_unit_test(one_that_dies),
    cmocka_unit_test(one_that_would_lead),
    cmocka_unit_test(one_that_hangs),
    cmocka_unit_test(a_paused_run_waits),
    cmocka_unit_test(one_that_cannot_be_taken_in),
    cmocka_unit_test(crashes_at_every_record),
    cmocka_unit_test(a_journal_written_anew_has_them),
    cmocka_unit_test(under_faults),
};
TEST_MAIN("coord_join", tests)
