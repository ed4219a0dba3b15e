/* SPDX-License-Identifier: BSD-3-Clause */
/* HetPipe's virtual workers: the parts of its paper, all ways to part small numbers of devices, and plans of the parts. */
#include "tests/unit/unit.h"

#include "policies/graph/bench/cells.h"
#include "policies/graph/check.h"
#include "policies/graph/papers/hetpipe.h"
#include "tests/unit/random.h"

/* Classes with these speeds and numbers of devices. */
static struct dp_classes classes_of(uint32_t n, const double *speed, const uint32_t *devices)
{
    struct dp_classes c = {.n = n, .between_bytes_per_s = 1e9};

    for (uint32_t i = 0; i < n; i++) {
        c.of[i] = (struct dp_device_class){.devices = devices[i], .speed = speed[i], .bytes_per_s = 12e9, .accel_bytes = UINT64_MAX};
        snprintf(c.of[i].name, sizeof c.of[i].name, "%c", 'a' + (int)i);
    }
    return c;
}

/* "2x(2a 2b) 2x(2c 2d)" */
static void say(char *out, size_t cap, const struct dp_hetpipe *h)
{
    size_t n = 0;

    *out = '\0';
    for (uint32_t k = 0; k < h->n_kinds; k++) {
        n += (size_t)snprintf(out + n, cap - n, "%s%ux(", k ? " " : "", h->kind[k].n);
        for (uint32_t i = 0; i < h->kind[k].devices.n; i++)
            n += (size_t)snprintf(out + n, cap - n, "%s%u%s", i ? " " : "", h->kind[k].devices.of[i].devices,
                                  h->kind[k].devices.of[i].name);
        n += (size_t)snprintf(out + n, cap - n, ")");
    }
}

/* Four classes of four devices each, in the order of the paper's: V, R, G, Q. */
static void parts_are_those_of_the_paper(void **state)
{
    (void)state;
    static const double speed[] = {1, 0.6, 0.9, 0.5};
    static const uint32_t devices[] = {4, 4, 4, 4};
    static const char *const expected[] = {[DP_HETPIPE_NP] = "1x(4a) 1x(4c) 1x(4b) 1x(4d)", [DP_HETPIPE_ED] = "4x(1a 1b 1c 1d)",
                                           [DP_HETPIPE_HD] = "2x(2a 2d) 2x(2c 2b)"};
    const struct dp_classes c = classes_of(4, speed, devices);
    struct dp_hetpipe h;
    char text[128];

    for (int r = DP_HETPIPE_NP; r <= DP_HETPIPE_HD; r++) {
        assert_int_equal(dp_hetpipe_part(&c, (enum dp_hetpipe_rule)r, 4, &h, NULL), 0);
        say(text, sizeof text, &h);
        assert_string_equal(text, expected[r]);
    }
}

/* Whatever is parted: every device is in one virtual worker, and these are equally large. */
static void parts_are_whole(void **state)
{
    (void)state;
    uint32_t n_parted = 0;

    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t seed = i * 31 + 7;
        double speed[3];
        uint32_t devices[3], n = 1 + random_below(&seed, 3), workers = 1 + random_below(&seed, 6);
        struct dp_classes c;
        struct dp_hetpipe h;

        for (uint32_t k = 0; k < n; k++) {
            speed[k] = 0.5 * (1 + random_below(&seed, 3));
            devices[k] = 1 + random_below(&seed, 8);
        }
        c = classes_of(n, speed, devices);
        for (int r = DP_HETPIPE_NP; r <= DP_HETPIPE_HD; r++) {
            uint32_t all = 0, sum = 0;

            if (dp_hetpipe_part(&c, (enum dp_hetpipe_rule)r, workers, &h, NULL) < 0)
                continue;
            for (uint32_t k = 0; k < h.n_kinds; k++) {
                all += h.kind[k].n;
                sum += h.kind[k].n * dp_classes_devices(&h.kind[k].devices);
                assert_int_equal(dp_classes_devices(&h.kind[k].devices) * workers, dp_classes_devices(&c));
                assert_true(r != DP_HETPIPE_NP || h.kind[k].devices.n == 1);
                assert_true(r != DP_HETPIPE_HD || h.kind[k].devices.n <= 2);
            }
            assert_int_equal(all, workers);
            assert_int_equal(sum, dp_classes_devices(&c));
            n_parted++;
        }
    }
    assert_true(n_parted > 500);
}

/* Each kind has the plan that the program for classes makes of its devices; the slowest one counts, and the best rule wins. */
static void plans_are_those_of_the_parts(void **state)
{
    (void)state;
    static const double speed[] = {1, 0.3};
    static const uint32_t devices[] = {4, 4};
    const struct dp_classes c = classes_of(2, speed, devices);
    const struct dp_plan_hierarchical net = {.microbatches = 32};
    const struct dp_paper_ask ask = {.net = &net, .classes = &c};
    uint64_t best_ns = UINT64_MAX;
    struct dp_hetpipe h;
    struct dp_graph g;

    assert_int_equal(dp_cells_make(&g, 120, 7, NULL), 0);
    for (int r = DP_HETPIPE_NP; r <= DP_HETPIPE_HD; r++) {
        uint64_t slowest_ns = 0;

        assert_int_equal(dp_hetpipe_find(&g, &ask, (enum dp_hetpipe_rule)r, 2, &h, NULL), 0);
        assert_int_equal(h.rule, r);
        for (uint32_t k = 0; k < h.n_kinds; k++) {
            const struct dp_plan_hierarchical straight = {.microbatches = 32, .is_straight = true};
            struct dp_graph_plan p;

            assert_int_equal(dp_paper_find(&g, DP_PLAN_CLASSES,
                                           &(struct dp_paper_ask){.net = &straight, .classes = &h.kind[k].devices}, &p, NULL),
                             0);
            assert_int_equal(p.load_ns, h.kind[k].plan.load_ns);
            slowest_ns = p.load_ns > slowest_ns ? p.load_ns : slowest_ns;
            dp_graph_plan_release(&p);
        }
        assert_int_equal(h.load_ns, (slowest_ns + 1) / 2);
        best_ns = h.load_ns < best_ns ? h.load_ns : best_ns;
        dp_hetpipe_release(&h);
    }
    assert_int_equal(dp_hetpipe_find(&g, &ask, DP_HETPIPE_ANY, 0, &h, NULL), 0);
    assert_true(h.load_ns == best_ns && h.n == 2 && h.rule != DP_HETPIPE_NP); /* whose slow worker has all slow devices */
    dp_hetpipe_release(&h);
    assert_int_equal(dp_hetpipe_find(&g, &ask, DP_HETPIPE_ANY, 3, &h, NULL), -1);
    dp_hetpipe_release(&h);
    dp_graph_release(&g);
}

static void texts_are_read(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "x", "ed:", "ed:0", "ed:x", "np:4:4", "0", "4x", "-1", "eds", "65536"};
    enum dp_hetpipe_rule rule;
    struct dp_err err;
    uint32_t n;

    assert_int_equal(dp_hetpipe_parse("ed:4", &rule, &n, NULL), 0);
    assert_true(rule == DP_HETPIPE_ED && n == 4);
    assert_int_equal(dp_hetpipe_parse("hd", &rule, &n, NULL), 0);
    assert_true(rule == DP_HETPIPE_HD && n == 0);
    assert_int_equal(dp_hetpipe_parse("3", &rule, &n, NULL), 0);
    assert_true(rule == DP_HETPIPE_ANY && n == 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(dp_hetpipe_parse(bad[i], &rule, &n, &err), -1);
        assert_int_equal(err.code, DP_EINVAL);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(parts_are_those_of_the_paper), cmocka_unit_test(parts_are_whole),
    cmocka_unit_test(plans_are_those_of_the_parts), cmocka_unit_test(texts_are_read),
};
TEST_MAIN("graph_hetpipe", tests)
