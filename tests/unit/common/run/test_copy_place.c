/* SPDX-License-Identifier: BSD-3-Clause */
/* Who holds whose copies: by hand, and for many layouts what must always be so. */
#include "tests/unit/unit.h"
#include "common/run/copy_place.h"

#define NOWHERE DP_COPY_NOWHERE

static struct dp_copy_place place; /* large */

static struct dp_layout even(uint32_t n, uint32_t each)
{
    struct dp_layout l = {.n_workers = n, .n_layers = n * each};

    for (uint32_t r = 0; r <= n; r++)
        l.cut[r] = r * each;
    return l;
}

static void expect(const struct dp_layout *l, const uint32_t *node, const uint32_t *holder, bool is_apart)
{
    dp_copies_place(l, node, &place);
    for (uint32_t r = 0; r < l->n_workers; r++)
        assert_int_equal(place.holder[r], holder[r]);
    assert_int_equal(place.is_apart, is_apart);
}

static void by_hand(void **state)
{
    struct dp_layout l = even(4, 3);

    (void)state;
    expect(&l, (uint32_t[]){1, 2, 3, 4}, (uint32_t[]){1, 2, 3, 0}, true);
    expect(&l, (uint32_t[]){1, 1, 2, 2}, (uint32_t[]){2, 3, 0, 1}, true);
    expect(&l, (uint32_t[]){1, 1, 1, 2}, (uint32_t[]){3, 3, 3, 0}, true);
    expect(&l, (uint32_t[]){1, 1, 1, 1}, (uint32_t[]){1, 2, 3, 0}, false);
    l.gone[1] = 1; /* its layers are worker 2's */
    l.cut[2] = 3;
    expect(&l, (uint32_t[]){1, 2, 2, 1}, (uint32_t[]){2, NOWHERE, 3, 2}, true);
    l = even(2, 3);
    l.cut[1] = 0; /* a worker without layers has room for those of the others */
    expect(&l, (uint32_t[]){1, 2}, (uint32_t[]){NOWHERE, 0}, true);
    l.gone[0] = 1;
    expect(&l, (uint32_t[]){1, 2}, (uint32_t[]){NOWHERE, NOWHERE}, true);
}

/* Equal nodes with equal workers hold equally much. */
static void even_loads(void **state)
{
    (void)state;
    for (uint32_t n_nodes = 2; n_nodes <= 6; n_nodes++)
        for (uint32_t each = 1; each <= 8; each++) {
            struct dp_layout l = even(n_nodes * each, 2);
            uint32_t held[48] = {0};
            uint32_t node[48];

            for (uint32_t r = 0; r < l.n_workers; r++)
                node[r] = 7 + r / each;
            dp_copies_place(&l, node, &place);
            for (uint32_t r = 0; r < l.n_workers; r++)
                held[place.holder[r]]++;
            for (uint32_t r = 0; r < l.n_workers; r++)
                assert_int_equal(held[r], 1);
        }
}

static void always(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct dp_layout l = {.n_workers = 8, .n_layers = 20};
        uint32_t node[8];

        for (uint32_t r = 0; r < 8; r++) {
            seed = seed * 1664525u + 1013904223u;
            node[r] = seed >> 28 & 3;
            l.gone[r] = seed >> 20 & 1;
            l.cut[r + 1] = l.gone[r] ? l.cut[r] : l.cut[r] + (seed >> 24 & 3) > 20 ? 20 : l.cut[r] + (seed >> 24 & 3);
        }
        dp_copies_place(&l, node, &place);
        for (uint32_t r = 0; r < 8; r++) {
            uint32_t h = place.holder[r];
            bool elsewhere = false, others = false;

            for (uint32_t k = 0; k < 8; k++) {
                others |= k != r && !l.gone[k];
                elsewhere |= !l.gone[k] && node[k] != node[r];
            }
            if (l.gone[r] || l.cut[r] == l.cut[r + 1] || !others) {
                assert_int_equal(h, NOWHERE);
                continue;
            }
            assert_true(h < 8 && h != r && !l.gone[h]);
            assert_true(!elsewhere || node[h] != node[r]);
            assert_true(elsewhere || !place.is_apart);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(even_loads), cmocka_unit_test(always)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
