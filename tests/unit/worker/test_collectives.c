/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations of three workers, before and after one left. */
#include "tests/unit/worker/procs.h"
#include "worker/net/collectives.h"

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "# line %d, rank %u: %s (%s)\n", __LINE__, rank, #what, err.text);    \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int rounds(struct dp_collectives *s, uint32_t rank, uint64_t want_sum)
{
    struct dp_err err = {0};

    for (int i = 0; i < 50; i++) {
        uint64_t counts[3000];
        double mine[4] = {rank, 10 * rank, 100 * rank, i}, all[16] = {0};
        size_t offset[4] = {0, 8, 24, 24 + 32};

        for (size_t k = 0; k < 3000; k++)
            counts[k] = (rank + 1) * (k + 1);
        CHECK(dp_collectives_allreduce(s, counts, 3000, &err) == 0);
        for (size_t k = 0; k < 3000; k++)
            CHECK(counts[k] == want_sum * (k + 1));
        if (s->layout->gone[1])
            offset[2] = 8, offset[3] = 40;
        CHECK(dp_collectives_gather(s, mine, rank == 0 ? 8 : rank == 1 ? 16 : 32, all, offset, &err) == 0);
        if (rank == 0)
            CHECK(all[0] == 0 && all[offset[2] / 8 + 1] == 20 && all[offset[2] / 8 + 3] == i);
        mine[0] = rank == 0 ? 7 + i : -1;
        CHECK(dp_collectives_broadcast(s, mine, 8, &err) == 0 && mine[0] == 7 + i);
    }
    return 0;
}

static int body(struct dp_transport *t, uint32_t rank)
{
    struct dp_layout layout = {.n_workers = 3, .n_layers = 3, .cut = {0, 1, 2, 3}};
    struct dp_err err = {0};
    struct dp_collectives s;

    dp_collectives_init(&s, t, &layout, rank);
    if (rounds(&s, rank, 6))
        return 1;
    CHECK(dp_collectives_agree(&s, 0, &err) == 0);
    if (rank == 2)
        dp_err_set(&err, DP_EIO, "third");
    CHECK(dp_collectives_agree(&s, rank == 2 ? -1 : 0, &err) == -1);
    CHECK(err.code == DP_EIO && !strcmp(err.text, "third"));
    if (rank == 1)
        return 0;
    layout.gone[1] = 1;
    layout.cut[2] = 1;
    dp_transport_remove(t, 1);
    return rounds(&s, rank, 4);
}

static void three_then_two(void **state)
{
    (void)state;
    procs_run(3, (procs_body_fn *[]){body, body, body}, (int[]){0, 0, 0}, false);
}

static void alone(void **state)
{
    struct dp_layout layout = {.n_workers = 1, .n_layers = 1, .cut = {0, 1}};
    struct dp_err err = {0};
    uint64_t count = 5;
    struct dp_collectives s;

    (void)state;
    dp_collectives_init(&s, NULL, &layout, 0);
    assert_int_equal(dp_collectives_allreduce(&s, &count, 1, &err), 0);
    assert_int_equal(count, 5);
    assert_int_equal(dp_collectives_agree(&s, 0, &err), 0);
    dp_err_set(&err, DP_ENOMEM, "mine");
    assert_int_equal(dp_collectives_agree(&s, -1, &err), -1);
    assert_string_equal(err.text, "mine");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(alone),
    cmocka_unit_test(three_then_two),
};
TEST_MAIN("collectives", tests)
