/* SPDX-License-Identifier: BSD-3-Clause */
/* The first layout: every worker has a layer, the largest share is the smallest possible. */
#include "tests/unit/unit.h"
#include "worker/train/start/initial_layout.h"

static uint64_t share(const uint64_t *w, const struct dp_layout *l)
{
    uint64_t largest = 0;

    for (uint32_t s = 0; s < l->n_workers; s++) {
        uint64_t sum = 0;

        assert_true(l->cut[s + 1] > l->cut[s]);
        for (uint32_t i = l->cut[s]; i < l->cut[s + 1]; i++)
            sum += w[i];
        if (sum > largest)
            largest = sum;
    }
    return largest;
}

/* best[s] of layers [0, n) on s workers, by trying everything. */
static uint64_t optimum(const uint64_t *w, uint32_t n, uint32_t s)
{
    uint64_t best = UINT64_MAX, sum = 0;

    if (s == 1) {
        for (uint32_t i = 0; i < n; i++)
            sum += w[i];
        return sum;
    }
    for (uint32_t first = n - 1; first >= s - 1; first--) {
        uint64_t rest = optimum(w, first, s - 1);

        sum += w[first];
        if ((rest > sum ? rest : sum) < best)
            best = rest > sum ? rest : sum;
    }
    return best;
}

static void every_size_is_optimal(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (uint32_t n = 1; n <= 9; n++)
        for (uint32_t s = 1; s <= n; s++)
            for (int k = 0; k < 20; k++) {
                struct dp_layout l;
                uint64_t w[9];

                for (uint32_t i = 0; i < n; i++) {
                    seed = seed * 1664525 + 1013904223;
                    w[i] = seed >> 28;
                }
                assert_int_equal(dp_layout_min_max(w, n, s, &l, NULL), 0);
                assert_int_equal(share(w, &l), optimum(w, n, s));
            }
}

static void too_many_workers(void **state)
{
    uint64_t w[3] = {1, 1, 1};
    struct dp_err err = {0};
    struct dp_layout l;

    (void)state;
    assert_int_equal(dp_layout_min_max(w, 3, 4, &l, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    assert_non_null(strstr(err.text, "4 workers for 3 layers"));
}

static void a_configured_layout(void **state)
{
    char blocks[] = "model.blocks=6";
    struct dp_train_config config;
    struct dp_err err = {0};
    struct dp_layout l;

    (void)state;
    assert_int_equal(dp_train_config_load(NULL, 1, (char *[]){blocks}, &config, &err), 0);
    snprintf(config.pipeline.layout, sizeof config.pipeline.layout, "0|-|1-7");
    assert_int_equal(dp_layout_initial(&config, 3, &l, &err), 0);
    assert_int_equal(l.cut[1], 1);
    assert_int_equal(l.cut[2], 1);
    assert_int_equal(l.cut[3], 8);
    for (const char *const *bad = (const char *const[]){"0|1-7", "0|2|3-7", "0|1|2-6", "0|1|2-8", "0|1|2-7|-", "all", NULL}; *bad; bad++) {
        snprintf(config.pipeline.layout, sizeof config.pipeline.layout, "%s", *bad);
        assert_int_equal(dp_layout_initial(&config, 3, &l, &err), -1);
        assert_int_equal(err.code, DP_EINVAL);
        assert_non_null(strstr(err.text, "pipeline.layout: layout"));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_configured_layout),
    cmocka_unit_test(every_size_is_optimal),
    cmocka_unit_test(too_many_workers),
};
TEST_MAIN("initial layout", tests)
