/* SPDX-License-Identifier: BSD-3-Clause */
/* The min-max partition against all cuts of small instances, and its speed on a large one. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "policies/solve/nicol.h"
#include "policies/solve/partition.h"
#include "tests/unit/random.h"

#define MAX_N 9
#define MAX_P 4

struct instance {
    uint32_t n, p;
    uint64_t weight[MAX_N], fixed[MAX_N], multi[MAX_N], cap[MAX_P], cost[MAX_P];
    uint32_t copies[MAX_P], device[MAX_P], prefer[2 * MAX_P + 1];
    double speed[MAX_P];
    struct dp_partition q;
};

static void make(struct instance *t, uint64_t *seed)
{
    memset(t, 0, sizeof *t);
    t->n = 1 + random_below(seed, MAX_N);
    t->p = 1 + random_below(seed, MAX_P);
    for (uint32_t i = 0; i < t->n; i++) {
        t->weight[i] = random_below(seed, random_below(seed, 2) ? 100 : 4);
        t->fixed[i] = random_below(seed, 50);
        t->multi[i] = random_below(seed, 10);
    }
    for (uint32_t b = 0; b < t->p; b++) {
        t->speed[b] = 0.25 * (1 + random_below(seed, 8)) * (random_below(seed, 3) ? 1.0 : 0.7);
        t->cap[b] = random_below(seed, 3) ? 50 + random_below(seed, 200) : 0;
        t->cost[b] = random_below(seed, random_below(seed, 2) ? 60 : 8);
        t->copies[b] = 1 + random_below(seed, 4);
        t->device[b] = (b ? t->device[b - 1] + 1 : 0) + random_below(seed, 2);
    }
    for (uint32_t d = 1; d <= 2 * MAX_P; d++) /* they rise */
        t->prefer[d] = t->prefer[d - 1] + random_below(seed, random_below(seed, 2) ? t->n - t->prefer[d - 1] + 1 : 1);
    t->q = (struct dp_partition){.n = t->n, .p = t->p, .weight = t->weight};
    if (random_below(seed, 2))
        t->q.speed = t->speed;
    if (random_below(seed, 2))
        t->q.cost = t->cost;
    if (!random_below(seed, 3))
        t->q.between = random_below(seed, 40);
    if (random_below(seed, 2)) {
        t->q.fixed_bytes = t->fixed;
        t->q.cap_bytes = t->cap;
        if (random_below(seed, 2)) {
            t->q.multi_bytes = t->multi;
            t->q.copies = t->copies;
        }
    }
    if (random_below(seed, 2))
        t->q.prefer = t->prefer;
    if (random_below(seed, 2))
        t->q.device = t->device;
}

/* Load of one bin, UINT64_MAX when it does not fit; written apart from the code under test. */
static uint64_t bin_cost(const struct instance *t, uint32_t bin, uint32_t from, uint32_t to)
{
    uint64_t w = 0, bytes = 0, load = 0;

    for (uint32_t i = from; i < to; i++) {
        w += t->weight[i];
        bytes += t->q.fixed_bytes ? t->fixed[i] : 0;
        bytes += t->q.multi_bytes ? t->multi[i] * t->copies[bin] : 0;
    }
    if (t->q.cap_bytes && t->cap[bin] && bytes > t->cap[bin])
        return UINT64_MAX;
    if (to == from)
        return 0;
    if (!t->q.speed)
        load = w;
    while (t->q.speed && (uint64_t)((double)load * t->speed[bin]) < w)
        load++;
    return load + (t->q.cost ? t->cost[bin] : 0) + t->q.between * ((from > 0) + (to < t->n));
}

static uint64_t brute(const struct instance *t, uint32_t bin, uint32_t from)
{
    uint64_t best = UINT64_MAX;

    if (bin + 1 == t->p)
        return bin_cost(t, bin, from, t->n);
    for (uint32_t to = from; to <= t->n; to++) {
        uint64_t a = bin_cost(t, bin, from, to), b;

        if (a == UINT64_MAX)
            break;
        b = brute(t, bin + 1, to);
        a = a > b ? a : b;
        best = a < best ? a : best;
    }
    return best;
}

/* How far these cuts are from those in force, device by device. */
static uint64_t distance(const struct instance *t, const uint32_t *cut)
{
    uint32_t n_devices = t->q.device ? t->device[t->p - 1] + 1 : t->p;
    uint64_t sum = 0;

    for (uint32_t d = 1, b = 0; d < n_devices; d++) { /* the border before device d */
        while (b < t->p && (t->q.device ? t->device[b] : b) < d)
            b++;
        sum += cut[b] > t->prefer[d] ? cut[b] - t->prefer[d] : t->prefer[d] - cut[b];
    }
    if (t->q.device && t->device[0] > 0) /* nothing can be before the first bin */
        for (uint32_t d = 1; d <= t->device[0]; d++)
            sum -= t->prefer[d];
    return sum;
}

/* The least distance of all cuts within a bound; bins are filled from the last one. */
static uint64_t nearest(struct instance *t, uint32_t bins, uint32_t *cut, uint32_t after, uint64_t bound)
{
    uint64_t best = UINT64_MAX;

    if (bins == 0)
        return cut[0] ? UINT64_MAX : distance(t, cut);
    for (uint32_t from = cut[bins] + 1; from-- > 0;) {
        uint64_t d;

        if (t->q.depth)
            t->copies[bins - 1] = after + 1 < t->q.depth ? after + 1 : t->q.depth;
        if (bin_cost(t, bins - 1, from, cut[bins]) > bound)
            continue;
        cut[bins - 1] = from;
        d = nearest(t, bins - 1, cut, after + (from < cut[bins]), bound);
        best = d < best ? d : best;
    }
    return best;
}

static void is_nearest(struct instance *t, const uint32_t *cut, uint64_t bound)
{
    uint32_t other[MAX_P + 1] = {0};

    other[t->p] = t->n;
    if (t->q.prefer)
        assert_int_equal(distance(t, cut), nearest(t, t->p, other, 0, bound));
}

static void equals_brute_force(void **state)
{
    (void)state;
    uint32_t refused = 0, solved = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t seed = i, want, got = 0, real = 0;
        uint32_t cut[MAX_P + 1];
        struct instance t;
        struct dp_err err;
        int rc;

        make(&t, &seed);
        want = brute(&t, 0, 0);
        rc = t.q.between ? -1 : dp_partition_nicol(&t.q, cut, &got, &err);
        assert_true(t.q.between || rc == (want == UINT64_MAX ? -1 : 0));
        assert_true(rc < 0 || got == want);
        if (dp_partition_minmax(&t.q, cut, &got, &err) < 0) {
            assert_int_equal(err.code, DP_ENOMEM);
            assert_true(want == UINT64_MAX);
            refused++;
            continue;
        }
        assert_int_equal(got, want);
        assert_int_equal(cut[0], 0);
        assert_int_equal(cut[t.p], t.n);
        for (uint32_t b = 0; b < t.p; b++) {
            uint64_t load;

            assert_true(cut[b] <= cut[b + 1]);
            load = bin_cost(&t, b, cut[b], cut[b + 1]);
            real = load > real ? load : real;
        }
        assert_true(real <= want);
        is_nearest(&t, cut, want);
        solved++;
    }
    assert_true(refused > 500 && solved > 10000);
}

/* --- copies that depend on which bins hold anything --- */

/* Items [0, to) over the first `bins` bins, where `after` of those behind them hold anything. */
static uint64_t brute_depth(struct instance *t, uint32_t bins, uint32_t to, uint32_t after)
{
    uint64_t best = UINT64_MAX;

    if (bins == 0)
        return to ? UINT64_MAX : 0;
    for (uint32_t from = to + 1; from-- > 0;) {
        uint64_t a, b;

        t->copies[bins - 1] = after + 1 < t->q.depth ? after + 1 : t->q.depth;
        a = bin_cost(t, bins - 1, from, to);
        if (a == UINT64_MAX)
            continue;
        b = brute_depth(t, bins - 1, from, after + (from < to));
        a = a > b ? a : b;
        best = a < best ? a : best;
    }
    return best;
}

static void empty_bins_need_fewer_copies_before_them(void **state)
{
    (void)state;
    uint32_t refused = 0, better = 0;

    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t seed = i + 77777, want, got, plain;
        uint32_t cut[MAX_P + 1], after = 0;
        struct instance t;
        struct dp_partition all;
        struct dp_err err;
        bool has_plain;

        make(&t, &seed);
        t.q.fixed_bytes = t.fixed;
        t.q.cap_bytes = t.cap;
        t.q.multi_bytes = t.multi;
        t.q.copies = t.copies;
        t.q.depth = 1 + random_below(&seed, 5);
        for (uint32_t b = 0; b < t.p; b++) {
            t.multi[b] *= 4;
            t.copies[b] = t.p - b < t.q.depth ? t.p - b : t.q.depth;
        }
        all = t.q;
        all.depth = 0;
        has_plain = dp_partition_minmax(&all, cut, &plain, NULL) == 0;
        if (dp_partition_minmax(&t.q, cut, &got, &err) < 0) {
            assert_int_equal(err.code, DP_ENOMEM);
            assert_true(brute_depth(&t, t.p, t.n, 0) == UINT64_MAX);
            refused++;
            continue;
        }
        want = brute_depth(&t, t.p, t.n, 0);
        assert_int_equal(got, want);
        better += !has_plain || got < plain;
        assert_true(!has_plain || got <= plain);
        assert_int_equal(cut[0], 0);
        assert_int_equal(cut[t.p], t.n);
        for (uint32_t b = t.p; b-- > 0;) {
            assert_true(cut[b] <= cut[b + 1]);
            t.copies[b] = after + 1 < t.q.depth ? after + 1 : t.q.depth;
            assert_true(bin_cost(&t, b, cut[b], cut[b + 1]) <= want);
            after += cut[b] < cut[b + 1];
        }
        is_nearest(&t, cut, want);
    }
    print_message("# 10000 instances: %u do not fit, %u are better with a bin left empty\n", refused, better);
    assert_true(refused > 300 && better > 100);
}

static void keeps_a_layout_that_is_good_enough(void **state)
{
    (void)state;
    uint64_t weight[6] = {5, 1, 1, 1, 1, 5}, largest;
    uint32_t cut[4], prefer[4] = {0, 2, 4, 6};
    struct dp_partition q = {.n = 6, .p = 3, .weight = weight, .prefer = prefer};

    assert_int_equal(dp_partition_minmax(&q, cut, &largest, NULL), 0);
    assert_int_equal(largest, 5);
    assert_int_equal(cut[1], 1);
    assert_int_equal(cut[2], 5);
    weight[0] = weight[5] = 9;
    weight[1] = weight[4] = 0;
    assert_int_equal(dp_partition_minmax(&q, cut, &largest, NULL), 0);
    assert_int_equal(largest, 9);
    assert_memory_equal(cut, prefer, sizeof prefer);
}

static void is_fast(void **state)
{
    (void)state;
    enum { N = 10000, P = 1000 };
    uint64_t *weight = calloc(N, sizeof *weight), seed = 7, largest, best = UINT64_MAX;
    uint32_t *cut = calloc(P + 1, sizeof *cut);
    struct dp_partition q = {.n = N, .p = P, .weight = weight};

    for (uint32_t i = 0; i < N; i++)
        weight[i] = 1000000 + random_below(&seed, 9000000);
    for (int i = 0; i < 20; i++) {
        uint64_t t = dp_thread_cpu_ns();

        assert_int_equal(dp_partition_minmax(&q, cut, &largest, NULL), 0);
        t = dp_thread_cpu_ns() - t;
        best = t < best ? t : best;
    }
    print_message("# 10000 layers on 1000 devices: %.3f ms (best of 20)\n", (double)best / 1e6);
    assert_true(best < 20000000); /* generous: sanitizers */
    free(weight);
    free(cut);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(equals_brute_force),
    cmocka_unit_test(empty_bins_need_fewer_copies_before_them),
    cmocka_unit_test(keeps_a_layout_that_is_good_enough),
    cmocka_unit_test(is_fast),
};
TEST_MAIN("partition", tests)
