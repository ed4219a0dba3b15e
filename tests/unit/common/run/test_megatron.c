/* SPDX-License-Identifier: BSD-3-Clause */
/* Megatron's layout strings: the published example, what is refused and where, both ways. */
#include "common/run/megatron.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"

static void reads_the_published_example(void **state)
{
    struct dp_megatron m;

    (void)state;
    /* 61 blocks and one m on 16 x 2 stages: the Megatron Core guide */
    assert_int_equal(dp_megatron_parse("Et*3|(tt|)*29,m|L", &m, NULL), 0);
    assert_int_equal(m.n_stages, 32);
    assert_int_equal(m.n_layers, 1 + 61 + 1 + 1);
    assert_int_equal(m.first_mtp, 15);
    assert_int_equal(m.layers[0], 4);
    for (uint32_t s = 1; s < 30; s++)
        assert_int_equal(m.layers[s], 2);
    assert_int_equal(m.layers[30], 1);
    assert_int_equal(m.layers[31], 1);
}

static void reads_what_megatron_reads(void **state)
{
    static const struct {
        const char *text;
        uint32_t n_stages, layers[4];
    } good[] = {
        {"E||t|L", 4, {1, 0, 1, 1}}, {"EL", 1, {2}},         {",E,t,*2,|,L,", 2, {3, 1}}, {"E(t|t)*2|L", 4, {2, 2, 1, 1}},
        {"Et|*3L", 4, {2, 0, 0, 1}}, {"Et*0L", 1, {2}},      {"E(t*2|)*2L", 3, {3, 2, 1}},  {"EtL|", 2, {3, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct dp_megatron m;

        assert_int_equal(dp_megatron_parse(good[i].text, &m, NULL), 0);
        assert_int_equal(m.n_stages, good[i].n_stages);
        assert_memory_equal(m.layers, good[i].layers, m.n_stages * sizeof *m.layers);
    }
}

static void says_where_it_is_wrong(void **state)
{
    static const struct {
        const char *text, *where;
    } bad[] = {
        {"", "position 1: the last layer must be L"},
        {"tL", "position 1: the first layer must be E"},
        {"|tL", "position 2: the first layer must be E"},
        {"EtEL", "position 3: E, the embedding"},
        {"Et*2", "position 5: the last layer must be L"},
        {"EtLt", "position 4: L must be the last layer"},
        {"EtLL", "position 4: L must be the last layer"},
        {"EtmtL", "position 4: t after m"},
        {"Et xL", "position 3: not one of"},
        {"Et*L", "position 4: a number must follow"},
        {"Et*-1L", "position 4: a number must follow"},
        {"Et*3,2L", "position 6: not one of"},
        {"Et*2*3L", "position 5: not one of"},
        {"Et*99999L", "position 8: the number is too large"},
        {"E(tL", "position 2: a bracket that is never closed"},
        {"E(t)L", "position 5: *n must follow"},
        {"E()*2L", "position 3: empty brackets"},
        {"E((t)*2)*2L", "position 3: brackets within"},
        {"Et)L", "position 3: not one of"},
        {"E(tE)*2L", "position 4: E, the embedding"},
        {"E(t*999|)*9L", "position 3: too many layers"},
        {"Et|*512L", "position 3: too many stages"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dp_megatron m;
        struct dp_err err;

        assert_int_equal(dp_megatron_parse(bad[i].text, &m, &err), -1);
        if (!strstr(err.text, bad[i].where))
            fail_msg("%s: %s", bad[i].text, err.text);
    }
}

static void a_layout_goes_both_ways(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        struct dp_layout l = {.epoch = i}, back;
        uint64_t seed = i;
        char text[8 * DP_MAX_WORKERS];

        l.n_workers = 1 + random_below(&seed, random_below(&seed, 2) ? 6 : DP_MAX_WORKERS);
        l.n_layers = 2 + random_below(&seed, random_below(&seed, 2) ? 10 : DP_MAX_LAYERS - 1);
        for (uint32_t s = 1; s <= l.n_workers; s++) {
            l.cut[s] = s == l.n_workers ? l.n_layers : l.cut[s - 1] + random_below(&seed, 2 + 2 * l.n_layers / l.n_workers);
            l.cut[s] = l.cut[s] > l.n_layers ? l.n_layers : l.cut[s];
        }
        for (uint32_t s = 0; s < l.n_workers; s++)
            l.gone[s] = l.cut[s] == l.cut[s + 1] && random_below(&seed, 3) == 0;
        dp_megatron_format(&l, text, sizeof text);
        assert_int_equal(dp_layout_parse(text, &l, &back, NULL), 0);
        assert_memory_equal(&back, &l, sizeof l);
    }
}

static void has_to_match_the_run(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"Et*4|t*2L", "8 layers in 2 stages, the run has 8 on 3 workers"},
        {"Et*4|t|L", "7 layers in 3 stages"},
        {"Et|t|t|t|t|tL", "a worker cannot have several stages"},
        {"Et*4|t|mL", "position 8: the model has no layer m"},
        {"Et*4|tt|L", "left the run"},
    };
    struct dp_layout now = {.n_workers = 3, .n_layers = 8, .cut = {0, 8, 8, 8}, .gone = {0, 0, 1}}, l;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dp_err err;

        assert_int_equal(dp_layout_parse(bad[i].text, &now, &l, &err), -1);
        if (!strstr(err.text, bad[i].why))
            fail_msg("%s: %s", bad[i].text, err.text);
    }
    assert_int_equal(dp_layout_parse("Et*4|ttL|", &now, &l, NULL), 0);
    assert_int_equal(l.cut[1], 5);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_the_published_example),
    cmocka_unit_test(reads_what_megatron_reads),
    cmocka_unit_test(says_where_it_is_wrong),
    cmocka_unit_test(a_layout_goes_both_ways),
    cmocka_unit_test(has_to_match_the_run),
};
TEST_MAIN("megatron", tests)
