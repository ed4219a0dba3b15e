/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole runs whose layers move to the workers that have copies of them: nothing of them is sent but what proves that. Losses are those of
 * a worker alone, and whoever is lost at any moment of it costs no step as long as its layers have copies. */
#include <signal.h>

#include "common/clock.h"
#include "tests/unit/worker/run_world.h"

#define N 3

/* Each worker is followed by the next one, and the last by the first. */
static const uint32_t even[WORLD_SEATS + 1] = {0, 2, 4, 6, 6, 6, 6, 6, 6};
static const uint32_t followed[WORLD_SEATS + 1] = {0, 1, 3, 6, 6, 6, 6, 6, 6}; /* layer 1 goes to worker 1, and 3 to worker 2 */
static const char *const plain[] = {"handover.copies=1"};
static const char *const pruned[] = {"handover.copies=1", "prune.begin=10", "prune.end=30", "prune.every=10", "model.tied_head=true"};

static void hand_over(const uint32_t *cut)
{
    enum world_end end;

    world_await_copies();
    while ((end = world_hand_over(cut, WORLD_NOBODY)) == WORLD_ABORTED) /* it did not come in time: beside load */
        world_await_copies();
    assert_int_equal(end, WORLD_COMMITTED);
}

static uint32_t n_taken(void)
{
    return world_count(world.errors, "had copies of 1 layers that came", "did not get them again");
}

static void train_to(uint64_t step)
{
    WORLD_UNTIL(world.seat[world_leader()].step >= step || world_has_lost());
    assert_false(world_has_lost());
}

/* On the way back they go to workers that do not follow them, and are sent as ever. */
static void there_and_back(const char *name, const char *const *options, uint32_t n_options)
{
    const struct world_run run = {.name = name, .n_seats = N, .n_there = N, .options = options, .n_options = n_options};

    world_start(&run);
    for (uint32_t i = 1; i <= 3; i++) {
        hand_over(followed);
        hand_over(even);
        train_to(i * 15);
    }
    assert_int_equal(n_taken(), 6);
    world_stop();
    world_compare_alone();
}

static void layers_go_to_their_copies(void **state)
{
    (void)state;
    there_and_back("followed", plain, 1);
    there_and_back("pruned", pruned, 5);
}

/* What a copy was lent for comes to nothing: it is as good as before, and costs no step when its layer's worker is lost. */
static void an_aborted_one_spoils_no_copy(void **state)
{
    static const struct world_run run = {.name = "aborted", .n_seats = N, .n_there = N, .options = plain, .n_options = 1};
    static const uint32_t left[WORLD_SEATS + 1] = {0, 3, 3, 6, 6, 6, 6, 6, 6};

    (void)state;
    world_start(&run);
    world_await_copies();
    world_prepare(followed, WORLD_NOBODY);
    assert_int_equal(world_refuse(), WORLD_ABORTED);
    world_await_copies();
    assert_int_equal(n_taken(), 0);
    world_kill(1);
    world_regroup(left, NULL);
    assert_non_null(strstr(world.regrouped.text, "from copies: no step is lost"));
    world_stop();
    world_compare_alone();
}

/* As soon as it is asked to hand over, or when it has voted; copies of its layers are whole all the time. */
static void lose(const char *name, uint32_t victim, uint32_t voted)
{
    const struct world_run run = {.name = name, .n_seats = N, .n_there = N, .options = plain, .n_options = 1};
    uint32_t cut[WORLD_SEATS + 1];
    uint64_t seed = 1 + victim;

    world_start(&run);
    world_await_copies();
    world_prepare(followed, WORLD_NOBODY);
    WORLD_UNTIL(!voted || world.seat[victim].voted == world.migration || world.seat[victim].is_dead);
    world_kill(victim);
    assert_int_equal(world_decide(), WORLD_LOST);
    world_random_cut(&seed, WORLD_NOBODY, cut);
    world_regroup(cut, NULL);
    assert_non_null(strstr(world.regrouped.text, "no step is lost"));
    world_stop();
    world_compare_alone();
}

static void whoever_is_lost_meanwhile(void **state)
{
    static char name[N][2][32];

    (void)state;
    for (uint32_t victim = 0; victim < N; victim++)
        for (uint32_t voted = 0; voted < 2; voted++) {
            snprintf(name[victim][voted], sizeof name[victim][voted], "lost-%u-%u", victim, voted);
            lose(name[victim][voted], victim, voted);
        }
}

static uint32_t n_let_go(void)
{
    return world_count(world.errors, "copies of others' layers", "are let go of for layers that come");
}

static void move(const uint32_t *cut)
{
    enum world_end end;

    while ((end = world_hand_over(cut, WORLD_NOBODY)) == WORLD_ABORTED) /* it did not come in time: beside load */
        continue;
    assert_int_equal(end, WORLD_COMMITTED);
}

/* A worker has room for two layers and two copies, or for four layers: those of the one that nobody follows here. When they have left
 * again, all have copies again. */
static void copies_make_room(void **state)
{
    /* Of 5 MB: a block takes 1, embedding and head 0.3. Worker 1 has two blocks, two copies and buffers, 4.4, and would have 5.7; 3.9
     * without copies. */
    static const char *const options[] = {"handover.copies=1", "model.channels=72", "model.heads=4", "pipeline.memory_mb=5"};
    static const struct world_run run = {.name = "room", .n_seats = N, .n_there = N, .options = options, .n_options = 4};
    static const uint32_t full[WORLD_SEATS + 1] = {0, 2, 6, 6, 6, 6, 6, 6, 6};

    (void)state;
    world_start(&run);
    world_await_copies();
    for (uint32_t i = 1; i <= 2; i++) {
        move(full);
        move(even);
        world_await_copies();
        assert_true(n_let_go() >= i); /* once more for each attempt that was aborted */
    }
    world_stop();
    world_compare_alone();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_go_to_their_copies),
        cmocka_unit_test(an_aborted_one_spoils_no_copy),
        cmocka_unit_test(whoever_is_lost_meanwhile),
        cmocka_unit_test(copies_make_room),
    };

    return cmocka_run_group_tests_name("copied_moves", tests, world_set_up, world_tear_down);
}
