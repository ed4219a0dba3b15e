/* SPDX-License-Identifier: BSD-3-Clause */
/* The head with its loss, every version, against the double reference: tokens and vocabularies around the
 * blocks of 64 and 512, one and several parts of tokens and groups of blocks, the same bits at another
 * address with three threads, and the same loss without gradients. */
#include "tests/unit/kernels/kernels_util.h"

struct shape {
    int64_t n, c, v;
};
static const struct shape shapes[] = {{1, 1, 1},    {3, 5, 2},     {64, 16, 65},  {65, 8, 130},
                                      {7, 24, 515}, {20, 33, 2049}, {33, 3, 4700}, {1030, 4, 70}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])
#define SCALE 0.25f

/* Inputs, and what the reference makes of them. */
struct expected {
    struct buf x, w, dw; /* dw: before */
    uint32_t *targets;
    double *loss, *dx, *dwd;
};

static struct expected expect(struct shape s)
{
    struct expected e = {.x = buf_noise(s.n * s.c, 1, 1), .w = buf_noise(s.v * s.c, 3, 2),
                         .dw = buf_noise(s.v * s.c, 0, 3), .targets = calloc((size_t)s.n, sizeof *e.targets),
                         .loss = calloc((size_t)s.n, sizeof(double)),
                         .dx = calloc((size_t)(s.n * s.c), sizeof(double))};
    double *x, *w = buf_double(e.w);
    uint64_t seed = 4;

    for (int64_t i = 0; i < s.n; i++)
        e.targets[i] = (uint32_t)(rnd(&seed) % (uint64_t)s.v);
    e.targets[0] = 0;
    e.targets[s.n - 1] = (uint32_t)s.v - 1;
    for (int64_t i = 0; i < s.n * s.c; i++)
        e.x.p[i] *= i < s.c ? 100.0f : 4.0f; /* token 0: all but a few probabilities vanish */
    x = buf_double(e.x), e.dwd = buf_double(e.dw);
    assert_true(dp_ref_head_f64(s.n, s.c, s.v, e.loss, e.dx, e.dwd, x, w, e.targets, (double)SCALE));
    free(x), free(w);
    return e;
}

static void check_loss(const double *got, const double *want, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-6 * (1.0 + fabs(want[i])) + (i ? 0.0 : 1e-4)))
            fail_msg("%s: loss %lld is %.12g, want %.12g", what, (long long)i, got[i], want[i]);
}

/* dw where it is overwritten: what it was is not in it. */
static void check_overwrite(struct dp_backend *be, struct shape s, const struct expected *e, const char *what)
{
    struct buf dw = buf_noise(s.v * s.c, 1, 8), dx = buf_noise(s.n * s.c, 2, 9);
    double *loss = calloc((size_t)s.n, sizeof *loss), *want = calloc((size_t)(s.v * s.c), sizeof *want);

    for (int64_t i = 0; i < dw.n; i++)
        dw.p[i] = NAN, want[i] = e->dwd[i] - (double)e->dw.p[i];
    CHECK_OP(be, head, .n = s.n, .c = s.c, .v = s.v, .loss = loss, .dx = dx.p, .dw = dw.p, .x = e->x.p, .w = e->w.p,
             .targets = e->targets, .scale = SCALE, .overwrite = true);
    check_close(dw.p, want, s.v * s.c, 4 * tolerance(s.n), what);
    buf_free(dw, what), buf_free(dx, what);
    free(loss), free(want);
}

static void check_shape(struct dp_backend *const be[2], struct shape s, const struct expected *e, const char *what)
{
    struct buf dx[2], dw[2];
    double *loss[2], *alone = calloc((size_t)s.n, sizeof *alone);

    for (int i = 0; i < 2; i++) {
        struct buf x = buf_copy(e->x, 2 * i), w = buf_copy(e->w, i);

        dx[i] = buf_noise(s.n * s.c, 3 * i, 5), dw[i] = buf_copy(e->dw, i);
        loss[i] = calloc((size_t)s.n, sizeof **loss);
        CHECK_OP(be[i], head, .n = s.n, .c = s.c, .v = s.v, .loss = loss[i], .dx = dx[i].p, .dw = dw[i].p, .x = x.p,
                 .w = w.p, .targets = e->targets, .scale = SCALE);
        CHECK_OP(be[i], head, .n = s.n, .c = s.c, .v = s.v, .loss = alone, .x = x.p, .w = w.p,
                 .targets = e->targets);
        assert_memory_equal(loss[i], alone, (size_t)s.n * sizeof *alone);
        buf_free(x, what), buf_free(w, what);
    }
    check_loss(loss[0], e->loss, s.n, what);
    /* logits of token 0 reach 100 sqrt(c): the rounding of one is its probability's relative error */
    check_close(dx[0].p, e->dx, s.n * s.c, 1e-5 + tolerance(s.v), what);
    check_close(dw[0].p, e->dwd, s.v * s.c, 1e-4 + tolerance(s.n), what);
    check_same(dx[0], dx[1], what), check_same(dw[0], dw[1], what);
    assert_memory_equal(loss[0], loss[1], (size_t)s.n * sizeof *alone);
    check_overwrite(be[0], s, e, what);
    for (int i = 0; i < 2; i++)
        buf_free(dx[i], what), buf_free(dw[i], what), free(loss[i]);
    free(alone);
}

static void all_shapes(void **state)
{
    struct dp_backend *be[N_VERSIONS][2];

    (void)state;
    for (int v = 0; v < N_VERSIONS; v++)
        be[v][0] = open_version(v), be[v][1] = be[v][0] ? open_threads(v, 3) : NULL;
    for (size_t i = 0; i < N_SHAPES; i++) {
        struct expected e;

        if (is_left_out(shapes[i].n * shapes[i].c * shapes[i].v))
            continue;
        e = expect(shapes[i]);

        for (int v = 0; v < N_VERSIONS; v++) {
            char what[96];

            snprintf(what, sizeof what, "%s head n %d c %d v %d", version_names[v], (int)shapes[i].n,
                     (int)shapes[i].c, (int)shapes[i].v);
            if (be[v][0])
                check_shape(be[v], shapes[i], &e, what);
        }
        buf_free(e.x, "x"), buf_free(e.w, "w"), buf_free(e.dw, "dw");
        free(e.targets), free(e.loss), free(e.dx), free(e.dwd);
    }
    for (int v = 0; v < N_VERSIONS; v++)
        dp_backend_destroy(be[v][0]), dp_backend_destroy(be[v][1]);
}

/* NaN in one token's logits, wherever it stands, is in that token's loss and in no other. */
static void nan_is_seen(void **state)
{
    (void)state;
    for (int v = 0; v < N_VERSIONS; v++) {
        struct dp_backend *be = open_version(v);

        for (int at = 0; be && at < 600; at += 37) {
            static float w[2 * 600];
            const float x[4] = {1, 0, 0, 0};
            const uint32_t targets[2] = {3, 3};
            double loss[2] = {0, 0};

            memset(w, 0, sizeof w);
            w[2 * at] = INFINITY; /* token 0: inf - inf; token 1: 0 inf */
            CHECK_OP(be, head, .n = 2, .c = 2, .v = 600, .loss = loss, .x = x, .w = w, .targets = targets);
            assert_true(isnan(loss[0]) && isnan(loss[1]));
            w[2 * at] = NAN;
            CHECK_OP(be, head, .n = 1, .c = 2, .v = 600, .loss = loss, .x = x, .w = w, .targets = targets);
            assert_true(isnan(loss[0]));
        }
        for (int token = 0; be && token < 3; token++) {
            const float w[2] = {1, 2}, x[3] = {token == 0 ? NAN : 1, token == 1 ? NAN : 1, token == 2 ? NAN : 1};
            const uint32_t targets[3] = {0, 1, 0};
            double loss[3] = {0};

            CHECK_OP(be, head, .n = 3, .c = 1, .v = 2, .loss = loss, .x = x, .w = w, .targets = targets);
            for (int i = 0; i < 3; i++)
                assert_int_equal(isnan(loss[i]) != 0, i == token);
        }
        dp_backend_destroy(be);
    }
}

static void bad_calls(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);
    const uint32_t target = 2;
    float one = 1;
    double loss;
    struct dp_head a = {.n = 1, .c = 1, .v = 2, .loss = &loss, .x = &one, .w = &one, .targets = &target};
    struct dp_err err = {0};

    (void)state;
    assert_int_equal(be->ops->head(be, &a, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    a.v = 3;
    a.dx = &one;
    assert_int_equal(be->ops->head(be, &a, &err), -1);
    assert_int_equal(err.code, DP_EINVAL);
    dp_backend_destroy(be);
}

/* What head_bytes says does not grow with the tokens once they come in parts. */
static void memory_is_bounded(void **state)
{
    struct dp_backend *be = dp_backend_create("cpu", 0, 1, NULL);

    (void)state;
    assert_true(be->ops->head_bytes(be, 256, 768, 50304) < (size_t)64 << 20);
    assert_true(be->ops->head_bytes(be, 100000, 768, 50304) < (size_t)80 << 20);
    assert_true(be->ops->head_bytes(be, 512, 128, 512) < (size_t)3 << 20);
    dp_backend_destroy(be);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_shapes),
    cmocka_unit_test(nan_is_seen),
    cmocka_unit_test(bad_calls),
    cmocka_unit_test(memory_is_bounded),
};
TEST_MAIN("kernel head", tests)
