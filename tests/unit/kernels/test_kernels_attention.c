/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention forward and backward, every version, against the double reference: contexts around the blocks
 * of 64 queries and of 256 keys, odd head sizes and GPT-2's, several sequences, and the same bits at
 * another address with three threads. */
#include "tests/unit/kernels/kernels_util.h"

struct shape {
    int64_t b, t, c, h;
};
static const struct shape shapes[] = {{1, 1, 1, 1},   {2, 2, 6, 2},    {1, 17, 21, 3}, {1, 63, 16, 1},
                                      {1, 64, 32, 2}, {2, 65, 34, 2},  {1, 127, 5, 1}, {1, 129, 64, 2},
                                      {1, 200, 48, 1}, {2, 64, 128, 2}, {1, 70, 130, 1}, {1, 255, 24, 2},
                                      {1, 257, 16, 1}, {1, 523, 16, 1}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* What the reference makes of a shape. */
struct expected {
    struct buf qkv, dy;
    double *y, *lse, *dqkv;
};

static struct expected expect(struct shape s)
{
    int64_t n = s.b * s.t;
    struct expected e = {.qkv = buf_noise(n * 3 * s.c, 1, 21), .dy = buf_noise(n * s.c, 3, 22)};
    double *qkv, *dy = buf_double(e.dy);

    for (int64_t i = 0; i < e.qkv.n; i++)
        e.qkv.p[i] *= 3.0f; /* peaked probabilities */
    qkv = buf_double(e.qkv);
    e.y = malloc((size_t)(n * s.c) * sizeof(double));
    e.lse = malloc((size_t)(n * s.h) * sizeof(double));
    e.dqkv = malloc((size_t)(n * 3 * s.c) * sizeof(double));
    dp_ref_attention_f64(s.b, s.t, s.c, s.h, e.y, e.lse, qkv);
    dp_ref_attention_bwd_f64(s.b, s.t, s.c, s.h, e.dqkv, dy, e.y, qkv, e.lse);
    free(qkv), free(dy);
    return e;
}

/* be: with one thread and with several. */
static void check_shape(struct dp_backend *const be[2], struct shape s, const struct expected *e,
                        const char *what)
{
    int64_t n = s.b * s.t;
    struct buf y[2], lse[2], dqkv[2], qkv[2] = {buf_copy(e->qkv, 0), buf_copy(e->qkv, 5)};

    for (int i = 0; i < 2; i++) {
        y[i] = buf_noise(n * s.c, i, 1), lse[i] = buf_noise(n * s.h, i, 2);
        dqkv[i] = buf_noise(n * 3 * s.c, i, 3);
        CHECK_OP(be[i], attention, .b = s.b, .t = s.t, .c = s.c, .h = s.h, .y = y[i].p, .lse = lse[i].p,
                 .qkv = qkv[i].p);
        CHECK_OP(be[i], attention_bwd, .b = s.b, .t = s.t, .c = s.c, .h = s.h, .dqkv = dqkv[i].p,
                 .dy = e->dy.p, .y = y[i].p, .qkv = qkv[i].p, .lse = lse[i].p);
    }
    check_close(y[0].p, e->y, n * s.c, tolerance(s.t), what);
    check_close(lse[0].p, e->lse, n * s.h, tolerance(s.c / s.h), what);
    check_close(dqkv[0].p, e->dqkv, n * 3 * s.c, 2 * tolerance(s.t + s.c), what);
    check_same(y[0], y[1], what), check_same(lse[0], lse[1], what), check_same(dqkv[0], dqkv[1], what);
    for (int i = 0; i < 2; i++)
        buf_free(y[i], what), buf_free(lse[i], what), buf_free(dqkv[i], what), buf_free(qkv[i], what);
}

static void all_shapes(void **state)
{
    struct dp_backend *be[N_VERSIONS][2];

    (void)state;
    for (int v = 0; v < N_VERSIONS; v++)
        be[v][0] = open_version(v), be[v][1] = be[v][0] ? open_threads(v, 3) : NULL;
    for (size_t i = 0; i < N_SHAPES; i++) {
        struct expected e;

        if (is_left_out(shapes[i].b * shapes[i].t * shapes[i].t / 16 * shapes[i].c))
            continue;
        e = expect(shapes[i]);

        for (int v = 0; v < N_VERSIONS; v++) {
            char what[96];

            snprintf(what, sizeof what, "%s attention b %d t %d c %d h %d", version_names[v],
                     (int)shapes[i].b, (int)shapes[i].t, (int)shapes[i].c, (int)shapes[i].h);
            if (be[v][0])
                check_shape(be[v], shapes[i], &e, what);
        }
        buf_free(e.qkv, "qkv"), buf_free(e.dy, "dy");
        free(e.y), free(e.lse), free(e.dqkv);
    }
    for (int v = 0; v < N_VERSIONS; v++)
        dp_backend_destroy(be[v][0]), dp_backend_destroy(be[v][1]);
}

/* A later token must not reach an earlier one, not even as NaN. */
static void causal(void **state)
{
    (void)state;
    for (int v = 0; v < N_VERSIONS; v++) {
        struct dp_backend *be = open_version(v);
        float qkv[70 * 12], y[70 * 4], lse[70];

        if (!be)
            continue;
        for (int i = 0; i < 70 * 12; i++)
            qkv[i] = (float)(i % 7) * 0.1f;
        qkv[69 * 12 + 4] = NAN; /* a key of the last token: only the last row may see it */
        CHECK_OP(be, attention, .b = 1, .t = 70, .c = 4, .h = 1, .y = y, .lse = lse, .qkv = qkv);
        for (int i = 0; i < 69 * 4; i++)
            assert_true(isfinite(y[i]));
        assert_true(isnan(y[69 * 4]));
        dp_backend_destroy(be);
    }
}

static void bad_shape(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    struct dp_err err = {0};
    struct dp_attention a = {.b = 1, .t = 4, .c = 10, .h = 3};

    (void)state;
    assert_int_equal(be->ops->attention(be, &a, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    dp_backend_destroy(be);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_shapes),
    cmocka_unit_test(causal),
    cmocka_unit_test(bad_shape),
};
TEST_MAIN("kernel attention", tests)
