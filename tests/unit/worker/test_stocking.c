/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is made ready for layers before they come (worker/handover/stocking.h): by a thread beside whoever takes it, and in whole
 * runs, in which layers move, hand-overs are aborted and workers are lost. */
#include "common/log.h"
#include "kernels/backend.h"
#include "tests/unit/worker/failing_device.h"
#include "tests/unit/worker/run_world.h"
#include "worker/handover/stocking.h"

#define N 3
#define STOCK ((uint64_t)64 << 20)
#define ARRAY ((size_t)3 << 20) /* bytes */

/* ---- the thread ---- */

static bool has_stock(void)
{
#ifdef __SANITIZE_ADDRESS__
    return false; /* all arrays are the heap's */
#else
    return true;
#endif
}

static void take(struct dp_backend *be, uint32_t n, void **p)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(be->ops->alloc(be, ARRAY, &p[i], NULL), 0);
}

static void give(struct dp_backend *be, uint32_t n, void **p)
{
    for (uint32_t i = 0; i < n; i++)
        be->ops->free(be, p[i]);
}

/* From stock while there is some; what comes first there is up to the machine. */
static void arrays_are_taken_meanwhile(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    struct dp_stocking *s = dp_stocking_begin(be, STOCK, NULL);
    void *p[16];

    (void)state;
    assert_non_null(s);
    take(be, 8, p);
    give(be, 4, p);
    take(be, 4, p);
    dp_stocking_finish(s);
    assert_true(!has_stock() || dp_stocking_left(s) > 0); /* at most 8 + 4 arrays of 3 MiB */
    take(be, 8, p + 8);
    for (uint32_t i = 0; i < 16; i++)
        memset(p[i], (int)i, ARRAY);
    dp_stocking_destroy(s);
    for (uint32_t i = 0; i < 16; i++)
        assert_true(*(char *)p[i] == (char)i && !memcmp(p[i], (char *)p[i] + 1, ARRAY - 1));
    give(be, 16, p);
    dp_backend_destroy(be);
}

static void it_ends_at_any_moment(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct dp_stocking *s = dp_stocking_begin(be, STOCK, NULL);
        void *p;

        assert_non_null(s);
        take(be, 1, &p);
        if (i % 2)
            dp_stocking_stop(s);
        assert_true(dp_stocking_left(s) <= STOCK + (2 << 20));
        dp_stocking_destroy(s);
        assert_int_equal(be->ops->stock->left(be), 0);
        give(be, 1, &p);
    }
    dp_stocking_destroy(NULL);
    assert_int_equal(dp_stocking_left(NULL), 0);
    dp_backend_destroy(be);
}

static void who_has_none_says_so(void **state)
{
    struct dp_backend *be = failing_device_create(dp_backend_create("cpu", 0, 1, NULL)), *cpu = dp_backend_create("cpu", 0, 1, NULL);
    struct dp_err err = {0};

    (void)state;
    assert_null(dp_stocking_begin(be, STOCK, &err));
    assert_int_equal(err.code, DP_ENOTSUP);
    assert_null(dp_stocking_begin(cpu, UINT64_MAX, &err));
    assert_int_equal(err.code, DP_ENOMEM);
    failing_device_destroy(be);
    dp_backend_destroy(cpu);
}

/* ---- runs ---- */

/* A block has 12.6 MB with gradients and moments. */
static const uint32_t even[WORLD_SEATS + 1] = {0, 2, 4, 6, 6, 6, 6, 6, 6};
static const uint32_t other[WORLD_SEATS + 1] = {0, 1, 5, 6, 6, 6, 6, 6, 6}; /* layers 1 and 4 come to worker 1 */
static const char *const large[] = {"model.channels=256", "model.heads=4", "handover.background=off"};
static const char *const copies[] = {"model.channels=256", "model.heads=4", "handover.copies=1"};
static const char *const copying[] = {"model.channels=256", "model.heads=4", "handover.background=always"};

static void tell_all(uint32_t rank)
{
    (void)rank;
    dp_log_setup("worker", DP_LOG_DEBUG);
}

static uint32_t n_begun(void)
{
    return world_count(world.errors, "bytes are made ready for layers that come", "worker");
}

static uint32_t n_ended(void)
{
    return world_count(world.errors, "bytes were made ready, and not needed", "worker");
}

static void move(const uint32_t *cut)
{
    enum world_end end;

    while ((end = world_hand_over(cut, WORLD_NOBODY)) == WORLD_ABORTED) /* it did not come in time: beside load */
        continue;
    assert_int_equal(end, WORLD_COMMITTED);
}

/* Aborted after the votes in between: what was made ready is given back, and the next hand-over has some of its own. */
static void there_and_back(const char *name, const char *const *options)
{
    const struct world_run run = {.name = name, .n_seats = N, .n_there = N, .options = options, .n_options = 3,
                                  .layer_bytes = 13 << 20, .in_worker = tell_all};

    world_start(&run);
    move(other);
    world_prepare(even, WORLD_NOBODY);
    assert_int_equal(world_refuse(), WORLD_ABORTED);
    do { /* where nothing is copied, a worker may hear of it at the boundary only */
        move(even);
        move(other);
    } while (n_begun() < 3);
    world_stop();
    assert_int_equal(n_begun(), n_ended());
    world_compare_alone();
}

static void layers_come_into_it(void **state)
{
    (void)state;
    there_and_back("stocked", large);
    there_and_back("stocked-copying", copying);
}

/* A source or the destination dies when PREPARE was told, and the others go on, in another layout. Worker 1 has a copy of layer 1: memory
 * is made ready for layer 4 alone. */
static void lose(const char *name, uint32_t victim)
{
    const struct world_run run = {.name = name, .n_seats = N, .n_there = N, .options = copies, .n_options = 3,
                                  .layer_bytes = 13 << 20, .in_worker = tell_all};
    uint32_t cut[WORLD_SEATS + 1];
    uint64_t seed = 1 + victim;

    world_start(&run);
    world_await_copies();
    world_prepare(other, WORLD_NOBODY);
    world_kill(victim);
    assert_int_equal(world_decide(), WORLD_LOST);
    world_random_cut(&seed, WORLD_NOBODY, cut);
    world_regroup(cut, NULL);
    world_stop();
    world_compare_alone();
}

static void whoever_is_lost_meanwhile(void **state)
{
    (void)state;
    lose("stocked-lost-0", 0);
    lose("stocked-lost-1", 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_taken_meanwhile), cmocka_unit_test(it_ends_at_any_moment), cmocka_unit_test(who_has_none_says_so),
        cmocka_unit_test(layers_come_into_it),        cmocka_unit_test(whoever_is_lost_meanwhile),
    };

    return cmocka_run_group_tests_name("stocking", tests, world_set_up, world_tear_down);
}
