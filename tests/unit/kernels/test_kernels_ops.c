/* SPDX-License-Identifier: BSD-3-Clause */
/* The elementwise and row-wise ops of the CPU backend, every version, against the double reference:
 * sizes around every vector width and, where an op is cut into tasks, around these; noise in outputs,
 * guards around buffers, and the same bits at another address with three threads. */
#include "tests/unit/kernels/kernels_util.h"

static const int64_t sizes[] = {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 97, 127, 768};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static struct dp_backend *threads; /* the version under test with three threads */

/* Run the test of every version for all sizes, and for more of them up to a 0. */
static void each_size(void (*test)(struct dp_backend *be, int64_t n, const char *what), const int64_t *more)
{
    for (int v = 0; v < N_VERSIONS; v++) {
        struct dp_backend *be = open_version(v);

        threads = be ? open_threads(v, 3) : NULL;
        for (size_t i = 0; be && i < N_SIZES; i++)
            test(be, sizes[i], version_names[v]);
        for (const int64_t *n = more; be && n && *n; n++)
            test(be, *n, version_names[v]);
        dp_backend_destroy(be);
        dp_backend_destroy(threads);
    }
}

static void add_case(struct dp_backend *be, int64_t n, const char *what)
{
    struct buf a = buf_noise(n, 1, 1), b = buf_noise(n, 3, 2), y = buf_noise(n, 2, 3), a2 = buf_copy(a, 0);

    CHECK_OP(be, add, .n = n, .y = y.p, .a = a.p, .b = b.p);
    CHECK_OP(threads, add, .n = n, .y = a2.p, .a = a2.p, .b = b.p);
    for (int64_t i = 0; i < n; i++)
        assert_true(y.p[i] == a.p[i] + b.p[i] && a2.p[i] == y.p[i]);
    buf_free(a, what), buf_free(b, what), buf_free(y, what), buf_free(a2, what);
}

static void add_sizes(void **state)
{
    (void)state;
    each_size(add_case, (const int64_t[]){131077, 0});
}

static void embedding_case(struct dp_backend *be, int64_t c, const char *what)
{
    const int64_t n = 150, t = 50, v = 6;
    struct buf wte = buf_noise(v * c, 1, 1), wpe = buf_noise(t * c, 2, 2), y = buf_noise(n * c, 3, 3);
    struct buf dwte = buf_noise(v * c, 1, 4), dwpe = buf_noise(t * c, 2, 5), dwte2 = buf_copy(dwte, 0);
    struct buf dwpe2 = buf_copy(dwpe, 3), y2 = buf_noise(n * c, 0, 6);
    double *yd = malloc((size_t)(n * c) * sizeof *yd), *ted = buf_double(wte), *ped = buf_double(wpe);
    double *dted = buf_double(dwte), *dped = buf_double(dwpe), *dyd;
    uint32_t tokens[150];
    uint64_t seed = 5;
    struct dp_err err;

    for (int64_t i = 0; i < n; i++)
        tokens[i] = (uint32_t)(rnd(&seed) % (uint64_t)v);
    tokens[n / 2] = (uint32_t)v - 1;
    CHECK_OP(be, embedding, .n = n, .t = t, .c = c, .v = v, .y = y.p, .wte = wte.p, .wpe = wpe.p,
             .tokens = tokens);
    CHECK_OP(threads, embedding, .n = n, .t = t, .c = c, .v = v, .y = y2.p, .wte = wte.p, .wpe = wpe.p,
             .tokens = tokens);
    dp_ref_embedding_f64(n, t, c, yd, ted, ped, tokens);
    check_close(y.p, yd, n * c, 1e-7, what);
    check_same(y, y2, what);
    CHECK_OP(be, embedding_bwd, .n = n, .t = t, .c = c, .v = v, .dwte = dwte.p, .dwpe = dwpe.p, .dy = y.p,
             .tokens = tokens);
    CHECK_OP(threads, embedding_bwd, .n = n, .t = t, .c = c, .v = v, .dwte = dwte2.p, .dwpe = dwpe2.p,
             .dy = y.p, .tokens = tokens);
    dyd = buf_double(y);
    dp_ref_embedding_bwd_f64(n, t, c, dted, dped, dyd, tokens);
    check_close(dwte.p, dted, v * c, tolerance(n), what);
    check_close(dwpe.p, dped, t * c, tolerance(n / t), what);
    check_same(dwte, dwte2, what), check_same(dwpe, dwpe2, what);
    assert_int_equal(be->ops->embedding(be, &(struct dp_embedding){.n = n, .t = t, .c = c, .v = 5, .y = y.p,
                                                                   .wte = wte.p, .wpe = wpe.p,
                                                                   .tokens = tokens}, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    buf_free(wte, what), buf_free(wpe, what), buf_free(y, what), buf_free(dwte, what), buf_free(dwpe, what);
    buf_free(y2, what), buf_free(dwte2, what), buf_free(dwpe2, what);
    free(yd), free(ted), free(ped), free(dted), free(dped), free(dyd);
}

static void embedding_sizes(void **state)
{
    (void)state;
    each_size(embedding_case, (const int64_t[]){385, 0});
}

static void adamw_case(struct dp_backend *be, int64_t n, const char *what)
{
    for (int masked = 0; masked < 2; masked++) {
        struct buf w = buf_noise(n, 1, 1), g = buf_noise(n, 2, 2), m = buf_noise(n, 3, 3);
        struct buf v = buf_noise(n, 1, 4), w2, g2, m2, v2, g_before;
        uint64_t *keep = calloc((size_t)n / 64 + 1, sizeof *keep), seed = 77;
        double *wd, *gd, *md, *vd;
        const struct dp_step_scalars step = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.3f, 0.2f, 0.5f};
        struct dp_ref_adamw_step_f64 s = {1e-2, 0.9, 0.95, 1e-8, masked ? 0.0 : 0.1, 0.3, 0.2, 0.5};

        for (int64_t i = 0; i < n; i++)
            v.p[i] = fabsf(v.p[i]);
        for (int64_t i = 0; i <= n / 64; i++)
            keep[i] = rnd(&seed) ^ rnd(&seed) << 32;
        g_before = buf_copy(g, 0);
        w2 = buf_copy(w, 0), g2 = buf_copy(g, 0), m2 = buf_copy(m, 0), v2 = buf_copy(v, 0);
        wd = buf_double(w), gd = buf_double(g), md = buf_double(m), vd = buf_double(v);
        CHECK_OP(be, adamw, n, w.p, g.p, m.p, v.p, masked ? keep : NULL, &step, !masked, false);
        CHECK_OP(threads, adamw, n, w2.p, g2.p, m2.p, v2.p, masked ? keep : NULL, &step, !masked, true);
        dp_ref_adamw_f64(n, wd, gd, md, vd, masked ? keep : NULL, &s);
        check_close(w.p, wd, n, 1e-6, what);
        check_close(m.p, md, n, 3e-7, what);
        check_close(v.p, vd, n, 3e-7, what);
        check_same(w, w2, what), check_same(m, m2, what), check_same(v, v2, what);
        for (int64_t i = 0; i < n; i++) {
            assert_true(g.p[i] == 0.0f && g2.p[i] == g_before.p[i]);
            if (masked && !(keep[i / 64] >> (i % 64) & 1))
                assert_true(w.p[i] == 0.0f && m.p[i] == 0.0f && v.p[i] == 0.0f);
        }
        buf_free(w, what), buf_free(g, what), buf_free(m, what), buf_free(v, what);
        buf_free(w2, what), buf_free(g2, what), buf_free(m2, what), buf_free(v2, what);
        buf_free(g_before, what);
        free(wd), free(gd), free(md), free(vd), free(keep);
    }
}

static void adamw_sizes(void **state)
{
    (void)state;
    each_size(adamw_case, (const int64_t[]){65536, 131077, 0});
}

static void sum_squares_case(struct dp_backend *be, int64_t n, const char *what)
{
    int64_t all = n * 129; /* up to 32 blocks, two tasks */
    struct buf x = buf_noise(all, 1, 1), x2 = buf_copy(x, 3);
    double *xd = buf_double(x), got, again, want;
    uint64_t *keep = calloc((size_t)all / 64 + 1, sizeof *keep), seed = 78;

    for (int64_t i = 0; i <= all / 64; i++)
        keep[i] = rnd(&seed) ^ rnd(&seed) << 32;
    keep[0] &= ~1ull;
    for (int masked = 0; masked < 2; masked++) {
        const uint64_t *bits = masked ? keep : NULL;

        got = again = NAN;
        want = dp_ref_sum_squares_f64(all, xd, bits);
        CHECK_OP(be, sum_squares, .n = all, .x = x.p, .keep = bits, .sum = &got);
        CHECK_OP(threads, sum_squares, .n = all, .x = x2.p, .keep = bits, .sum = &again);
        if (!(fabs(got - want) <= 1e-6 * want))
            fail_msg("%s: sum of squares %.12g, want %.12g", what, got, want);
        assert_true(got == again);
        CHECK_OP(be, sum_squares, .n = 0, .x = x.p, .keep = bits, .sum = &got);
        assert_true(got == 0.0);
        x.p[0] = x2.p[0] = NAN; /* the second time it is not kept: it does not count, whatever it is */
    }
    buf_free(x, what), buf_free(x2, what);
    free(xd), free(keep);
}

static void sum_squares_sizes(void **state)
{
    (void)state;
    each_size(sum_squares_case, (const int64_t[]){1017, 0});
}

/* The order is the operation: 1e16 swallows each 1 that comes after it. */
static void sum_in_order(void **state)
{
    const double x[] = {1e16, 1.0, 1.0, -1e16, 0.5};

    (void)state;
    for (int v = 0; v < N_VERSIONS; v++) {
        struct dp_backend *be = open_version(v);
        double sum = NAN;

        if (!be)
            continue;
        CHECK_OP(be, sum, .n = 5, .sum = &sum, .x = x);
        assert_true(sum == 0.5);
        sum = 1e16;
        CHECK_OP(be, sum, .n = 2, .sum = &sum, .x = x + 1, .add_to_sum = true);
        assert_true(sum == 1e16 + 2.0);
        CHECK_OP(be, sum, .n = 0, .sum = &sum, .x = x);
        assert_true(sum == 0.0);
        dp_backend_destroy(be);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sum_in_order),
    cmocka_unit_test(add_sizes),
    cmocka_unit_test(embedding_sizes),
    cmocka_unit_test(adamw_sizes),
    cmocka_unit_test(sum_squares_sizes),
};
TEST_MAIN("kernel ops", tests)
