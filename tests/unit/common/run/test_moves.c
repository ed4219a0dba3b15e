/* SPDX-License-Identifier: BSD-3-Clause */
/* Which layers move between two layouts: the table by hand, and against the owners layer by layer. */
#include "tests/unit/unit.h"
#include "common/run/layout.h"

static void set(struct dp_layout *l, uint32_t n_workers, const uint32_t *cut)
{
    memset(l, 0, sizeof *l);
    l->n_workers = n_workers;
    l->n_layers = cut[n_workers];
    memcpy(l->cut, cut, (n_workers + 1) * sizeof *cut);
}

static void moves_by_hand(void **state)
{
    static struct dp_moves m;
    struct dp_layout a, b;

    (void)state;
    set(&a, 3, (uint32_t[]){0, 4, 6, 8});
    set(&b, 3, (uint32_t[]){0, 2, 5, 8});
    dp_layout_moves(&a, &b, &m);
    assert_int_equal(m.n, 3);
    assert_memory_equal(&m.move[0], (&(struct dp_move){2, 0, 1}), sizeof m.move[0]);
    assert_memory_equal(&m.move[1], (&(struct dp_move){3, 0, 1}), sizeof m.move[0]);
    assert_memory_equal(&m.move[2], (&(struct dp_move){5, 1, 2}), sizeof m.move[0]);
    dp_layout_moves(&a, &a, &m);
    assert_int_equal(m.n, 0);
    set(&b, 3, (uint32_t[]){0, 0, 0, 8}); /* all to the last, over an empty one */
    dp_layout_moves(&a, &b, &m);
    assert_int_equal(m.n, 6);
    assert_int_equal(m.move[5].from, 1);
    assert_int_equal(m.move[5].to, 2);
}

/* Every pair of layouts of 5 layers on 4 workers. */
static void moves_match_the_owners(void **state)
{
    static struct dp_moves m;
    struct dp_layout l[200];
    uint32_t n = 0;

    (void)state;
    for (uint32_t i = 0; i <= 5; i++)
        for (uint32_t j = i; j <= 5; j++)
            for (uint32_t k = j; k <= 5; k++)
                set(&l[n++], 4, (uint32_t[]){0, i, j, k, 5});
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++) {
            uint32_t at = 0;

            dp_layout_moves(&l[a], &l[b], &m);
            for (uint32_t layer = 0; layer < 5; layer++) {
                uint32_t from = dp_layout_owner(&l[a], layer), to = dp_layout_owner(&l[b], layer);

                if (from == to)
                    continue;
                assert_true(at < m.n);
                assert_int_equal(m.move[at].layer, layer);
                assert_int_equal(m.move[at].from, from);
                assert_int_equal(m.move[at].to, to);
                at++;
            }
            assert_int_equal(at, m.n);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(moves_by_hand),
    cmocka_unit_test(moves_match_the_owners),
};
TEST_MAIN("moves", tests)
